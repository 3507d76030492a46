//! What is asked of the machine and of the set as a whole, and not of one library family.

use std::collections::BTreeSet;

use serde::Serialize;

use super::requirement::Asker;
use crate::formats::fatbin::Architecture;
use crate::range::Range;

/// One such thing, and where it is written.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Condition {
    pub demand: Demand,
    pub by: Asker,
    /// It is of interest only where a GPU can be reached: nobody has written it for a machine without one.
    pub only_with_gpu: bool,
    /// It refuses nobody: what does not hold is said.
    pub is_advice: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Demand {
    /// The driver that the kernel runs.
    Driver(Range),
    /// The CUDA version that the driver brings in full.
    DriverCuda(Range),
    /// The CUDA that the picked libraries are of.
    Cuda(Range),
    /// The compute capability of every visible GPU.
    Gpu(Range),
    /// The brand of every visible GPU, as NVIDIA's container toolkit spells it: `tesla`, `geforce`.
    Brand { name: String, is_not: bool },
    /// What the asker's own files have code for: some visible GPU must be among it.
    Code(BTreeSet<Architecture>),
    /// One of these, and of that one all.
    Any(Vec<Vec<Demand>>),
}
