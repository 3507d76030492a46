//! Requirements of the machine and of the set as a whole, and not of one library family.

use std::collections::BTreeSet;

use serde::Serialize;

use super::requirement::Asker;
use crate::formats::fatbin::Architecture;
use crate::range::Range;
use crate::text::{list, show};

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

#[derive(Clone, Debug, PartialEq, Serialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum Demand {
    #[error("driver {0}")]
    Driver(Range),
    #[error("a driver with CUDA {0}")]
    DriverCuda(Range),
    #[error("CUDA {0}")]
    Cuda(Range),
    #[error("compute capability {0}")]
    Gpu(Range),
    #[error("{} GPU of the brand {}", if *.is_not { "no" } else { "a" }, show(.name))]
    /// The brand of every visible GPU, as NVIDIA's container toolkit spells it: `tesla`, `geforce`.
    Brand { name: String, is_not: bool },
    #[error("a GPU for {}", code(.0))]
    /// The GPUs that the asker's own files have code for: some visible GPU must be one of them.
    Code(BTreeSet<Architecture>),
    #[error("{}", any(.0))]
    /// All demands of at least one of these lists.
    Any(Vec<Vec<Demand>>),
}

fn code(architectures: &BTreeSet<Architecture>) -> String {
    let names: Vec<String> = architectures.iter().map(ToString::to_string).collect();
    names.join(" ")
}

fn any(alternatives: &[Vec<Demand>]) -> String {
    let mut texts: Vec<String> = alternatives.iter().take(3).map(list).collect();
    // NVIDIA's images repeat one condition for a dozen brands.
    if alternatives.len() > 3 {
        texts.push(format!("one of {} more", alternatives.len() - 3));
    }
    texts.join(", or ")
}
