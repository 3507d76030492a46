//! What is asked of the machine itself: its driver, its GPUs. No choice of libraries changes any of it.

use std::collections::BTreeSet;

use serde::Serialize;

use super::gpus;
use super::world::World;
use crate::inventory::{Gpu, Inventory};
use crate::program::{Condition, Demand};
use crate::version::{ComputeCapability, CudaVersion, DriverVersion};

/// A condition that does not hold.
#[derive(Clone, Debug, Serialize)]
pub struct Broken {
    pub condition: Condition,
    pub has: Has,
}

/// What the machine has instead.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Has {
    pub driver: Option<DriverVersion>,
    /// The CUDA version that the driver brings.
    pub cuda: Option<CudaVersion>,
    /// The visible GPUs: models, and what each can do.
    pub gpus: Vec<(String, Option<ComputeCapability>)>,
}

/// How certain it is that something holds: what is not known refuses nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    Yes,
    No,
    Unknown,
}

/// Those that certainly do not hold.
pub(super) fn broken(world: &World<'_>) -> Vec<Broken> {
    let inventory = world.inventory;
    let has_gpu = inventory.has_gpu() && !inventory.gpus_hidden;
    let is_of_interest =
        |condition: &&Condition| !condition.is_advice && (!condition.only_with_gpu || has_gpu);
    let conditions = world.program.conditions.iter().filter(is_of_interest);
    let failing = conditions.filter(|condition| judge(&condition.demand, inventory) == Holds::No);
    failing.map(|condition| Broken { condition: condition.clone(), has: has(inventory) }).collect()
}

fn judge(demand: &Demand, inventory: &Inventory) -> Holds {
    match demand {
        Demand::Driver(range) => match &inventory.driver {
            None => without_driver(inventory),
            Some(driver) => Holds::from(range.allows(&driver.version.version())),
        },
        Demand::DriverCuda(range) => match &inventory.driver {
            None => without_driver(inventory),
            Some(driver) => {
                driver.cuda.map_or(Holds::Unknown, |cuda| Holds::from(range.allows(&cuda.version())))
            }
        },
        // The picks decide.
        Demand::Cuda(_) => Holds::Yes,
        Demand::Gpu(range) => {
            every(inventory, |gpu| gpu.capability.map(|capability| range.allows(&capability.version())))
        }
        Demand::Brand { name, is_not } => {
            every(inventory, |gpu| brand(&gpu.model).map(|brand| (brand == name) != *is_not))
        }
        Demand::Code(code) => {
            let capabilities: Option<BTreeSet<ComputeCapability>> =
                inventory.visible_gpus().map(|gpu| gpu.capability).collect();
            match capabilities {
                None => Holds::Unknown,
                Some(none) if none.is_empty() => Holds::Unknown,
                Some(capabilities) => Holds::from(capabilities.iter().any(|gpu| gpus::serves(code, *gpu))),
            }
        }
        Demand::Any(alternatives) => any(alternatives, inventory),
    }
}

/// WSL and Jetson have device nodes, and no kernel module that says its version.
fn without_driver(inventory: &Inventory) -> Holds {
    if inventory.devices.is_empty() { Holds::No } else { Holds::Unknown }
}

/// One alternative holds where all of it does.
fn any(alternatives: &[Vec<Demand>], inventory: &Inventory) -> Holds {
    let all = |demands: &Vec<Demand>| {
        let judged: Vec<Holds> = demands.iter().map(|demand| judge(demand, inventory)).collect();
        if judged.contains(&Holds::No) {
            Holds::No
        } else if judged.contains(&Holds::Unknown) {
            Holds::Unknown
        } else {
            Holds::Yes
        }
    };
    let judged: Vec<Holds> = alternatives.iter().map(all).collect();
    if alternatives.is_empty() || judged.contains(&Holds::Yes) {
        Holds::Yes
    } else if judged.contains(&Holds::Unknown) {
        Holds::Unknown
    } else {
        Holds::No
    }
}

/// Of every GPU that is certainly visible; what nobody can say of one is not known.
fn every(inventory: &Inventory, holds: impl Fn(&Gpu) -> Option<bool>) -> Holds {
    let judged: Vec<Option<bool>> = inventory.visible_gpus().map(holds).collect();
    if judged.contains(&Some(false)) {
        Holds::No
    } else if judged.contains(&None) {
        Holds::Unknown
    } else if judged.is_empty() {
        // That there is a GPU and which is not known, or that there is none.
        if inventory.gpus_hidden { Holds::No } else { without_driver(inventory) }
    } else {
        Holds::Yes
    }
}

/// As NVIDIA's container toolkit spells it, where the name of the product says it.
fn brand(model: &str) -> Option<&'static str> {
    let brands = [
        ("GeForce", "geforce"),
        ("TITAN", "titan"),
        ("Quadro RTX", "quadrortx"),
        ("Quadro", "quadro"),
        ("Tesla", "tesla"),
        ("GRID", "grid"),
    ];
    brands.iter().find(|(word, _)| model.contains(word)).map(|(_, brand)| *brand)
}

fn has(inventory: &Inventory) -> Has {
    let driver = inventory.driver.as_ref();
    Has {
        driver: driver.map(|driver| driver.version),
        cuda: driver.and_then(|driver| driver.cuda),
        gpus: inventory.visible_gpus().map(|gpu| (gpu.model.clone(), gpu.capability)).collect(),
    }
}

impl From<bool> for Holds {
    fn from(holds: bool) -> Holds {
        if holds { Holds::Yes } else { Holds::No }
    }
}
