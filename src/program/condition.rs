//! Requirements of the machine and of the set as a whole, and not of one library family.

use std::collections::BTreeSet;

use serde::Serialize;

use super::requirement::Asker;
use crate::formats::fatbin::Architecture;
use crate::range::Range;

/// One such requirement, and the place where it is written.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Condition {
    pub demand: Demand,
    pub by: Asker,
    /// It counts only where a GPU can be reached: it was not written for a machine without one.
    pub only_with_gpu: bool,
    /// It causes a remark and no refusal.
    pub is_advice: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Demand {
    /// The driver that the kernel runs.
    Driver(Range),
    /// The CUDA version that the driver supports.
    DriverCuda(Range),
    /// The CUDA version of the picked libraries.
    Cuda(Range),
    /// The compute capability of every visible GPU.
    Gpu(Range),
    /// The brand of every visible GPU, as NVIDIA's container toolkit spells it: `tesla`, `geforce`.
    Brand { name: String, is_not: bool },
    /// The GPUs that the asker's own files have code for: some visible GPU must be one of them.
    Code(BTreeSet<Architecture>),
    /// All demands of at least one of these lists.
    Any(Vec<Vec<Demand>>),
}
