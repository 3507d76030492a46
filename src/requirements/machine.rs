//! Requirements of the machine and of the set as a whole, and not of one library family.

use std::collections::BTreeSet;

use serde::Serialize;

use super::asker::Asker;
use crate::formats::fatbin::Architecture;
use crate::range::Range;
use crate::text::{list, show};

/// One such requirement, and the place where it is written. JSON calls it a condition.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MachineRequirement {
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
    /// A GPU that is really used: no framework that the program imports is built without CUDA, and the proof has passed.
    #[error("a GPU")]
    AnyGpu,
    /// The brand of every visible GPU, as NVIDIA's container toolkit spells it: `tesla`, `geforce`.
    #[error("{} GPU of the brand {}", if *.is_not { "no" } else { "a" }, show(.name))]
    Brand { name: String, is_not: bool },
    /// The GPUs that the asker's own files have code for: some visible GPU must be one of them.
    #[error("a GPU for {}", code(.0))]
    Code(BTreeSet<Architecture>),
    /// All extension modules that the program imports fit the framework that they are built against.
    #[error("extension modules that fit")]
    Extensions,
    /// All demands of at least one of these lists.
    #[error("{}", any(.0))]
    Any(Vec<Vec<Demand>>),
}

/// The part of the machine that a demand is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MachinePart {
    #[error("the driver")]
    Driver,
    #[error("the GPU")]
    Gpu,
    /// More than one of them.
    #[error("this machine")]
    All,
}

impl Demand {
    /// The names in `requires` that are no families.
    pub const NAMES: [&'static str; 4] = ["cuda", "driver", "gpu", "extensions"];

    /// The demand that a person makes by one of these names.
    pub fn of_person(name: &str, range: &Range) -> Option<Demand> {
        match name {
            "cuda" => Some(Demand::Cuda(range.clone())),
            "extensions" => Some(Demand::Extensions),
            "driver" => Some(Demand::Driver(range.clone())),
            "gpu" if range.is_any() => Some(Demand::AnyGpu),
            "gpu" => Some(Demand::Gpu(range.clone())),
            _ => None,
        }
    }

    pub fn part(&self) -> MachinePart {
        match self {
            Demand::Driver(_) | Demand::DriverCuda(_) => MachinePart::Driver,
            Demand::Gpu(_) | Demand::AnyGpu | Demand::Brand { .. } | Demand::Code(_) => {
                MachinePart::Gpu
            }
            Demand::Cuda(_) | Demand::Extensions | Demand::Any(_) => MachinePart::All,
        }
    }
}

impl MachineRequirement {
    /// A requirement of the user: it counts with and without a GPU.
    pub fn of_person(demand: Demand, by: Asker) -> MachineRequirement {
        MachineRequirement {
            demand,
            by,
            only_with_gpu: false,
            is_advice: false,
        }
    }

    /// The range of CUDA that the picked libraries must be for: the machine does not decide if it holds.
    pub fn cuda_of_picks(&self) -> Option<&Range> {
        match &self.demand {
            Demand::Cuda(range) => Some(range),
            _ => None,
        }
    }

    /// The architectures that the asker's own files have code for.
    pub fn own_code(&self) -> Option<&BTreeSet<Architecture>> {
        match &self.demand {
            Demand::Code(code) => Some(code),
            _ => None,
        }
    }
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
