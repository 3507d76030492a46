//! Judges the requirements of the machine itself: its driver, its GPUs. No choice of libraries changes the result.
//!
//! A requirement holds, does not hold, or is unknown (`None`). An unknown one refuses no program.

use std::path::PathBuf;

use serde::Serialize;

use super::world::{World, serves};
use crate::inventory::{Extension, Gpu, Inventory};
use crate::requirements::{Demand, MachinePart, MachineRequirement};
use crate::text::show;
use crate::version::{ComputeCapability, CudaVersion, Version};

/// A requirement that does not hold. JSON calls it a condition.
#[derive(Clone, Debug, Serialize)]
pub struct Broken {
    pub condition: MachineRequirement,
    pub has: MachineFacts,
    /// The extension modules that do not fit, if it is about these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unfit: Vec<Extension>,
    /// The frameworks that are built without CUDA, if it is about these: package, and the file that tells so.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cpu_builds: Vec<(String, PathBuf)>,
}

/// A requirement, and the machine that it was tried on.
pub struct Judged<'r> {
    /// False without a GPU, for a requirement that counts only with one.
    pub counts: bool,
    pub holds: Option<bool>,
    /// Of alternatives, the one that decides.
    pub demands: &'r [Demand],
    pub has: MachineFacts,
}

/// The facts of the machine that requirements are about.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MachineFacts {
    pub driver: Option<Version>,
    /// The CUDA version that the driver brings.
    pub cuda: Option<CudaVersion>,
    /// The visible GPUs: models and compute capabilities.
    pub gpus: Vec<(String, Option<ComputeCapability>)>,
    /// True if the environment hides every GPU.
    #[serde(skip)]
    pub gpus_hidden: bool,
}

impl MachineFacts {
    /// What this part of the machine is, in words.
    pub fn of(&self, part: MachinePart) -> String {
        match part {
            MachinePart::Driver => self.driver_in_words(),
            MachinePart::Gpu => self.gpus_in_words(),
            MachinePart::All => format!("{}; {}", self.driver_in_words(), self.gpus_in_words()),
        }
    }

    fn driver_in_words(&self) -> String {
        match (self.driver, self.cuda) {
            (None, _) => "no driver".to_owned(),
            (Some(driver), Some(cuda)) => format!("driver {driver}, with CUDA {cuda}"),
            (Some(driver), None) => format!("driver {driver}"),
        }
    }

    fn gpus_in_words(&self) -> String {
        let mut gpus = Vec::new();
        for (model, capability) in &self.gpus {
            let mut gpu = show(model);
            if let Some(capability) = capability {
                gpu.push_str(&format!(", compute capability {capability}"));
            }
            gpus.push(gpu);
        }
        gpus.dedup();
        if gpus.is_empty() && self.gpus_hidden {
            return "no GPU: CUDA_VISIBLE_DEVICES hides them".to_owned();
        }
        if gpus.is_empty() {
            return "no GPU".to_owned();
        }
        gpus.join("; ")
    }
}

/// The requirements that certainly do not hold.
pub(super) fn broken(world: &World<'_>) -> Vec<Broken> {
    let inventory = world.inventory;
    let has = facts(inventory);
    let mut broken = Vec::new();
    for requirement in world.program.machine_requirements() {
        if requirement.is_advice || !applies(requirement, inventory) {
            continue;
        }
        let is_broken = holds(&requirement.demand, inventory) == Some(false);
        let cpu_builds = match requirement.demand {
            Demand::AnyGpu if !is_broken => world.program.cpu_builds().collect(),
            _ => Vec::new(),
        };
        if is_broken || !cpu_builds.is_empty() {
            broken.push(Broken {
                condition: requirement.clone(),
                has: has.clone(),
                unfit: unfit(&requirement.demand, inventory),
                cpu_builds,
            });
        }
    }
    broken
}

/// False for a requirement about GPUs where none can be reached.
fn applies(requirement: &MachineRequirement, inventory: &Inventory) -> bool {
    !requirement.only_with_gpu || inventory.offers_gpu()
}

fn facts(inventory: &Inventory) -> MachineFacts {
    let driver = inventory.driver.as_ref();
    MachineFacts {
        driver: driver.map(|driver| driver.version),
        cuda: driver.and_then(|driver| driver.cuda),
        gpus: inventory
            .visible_gpus()
            .map(|gpu| (gpu.model.clone(), gpu.capability))
            .collect(),
        gpus_hidden: inventory.gpus_hidden && inventory.has_gpu(),
    }
}

/// Judges a requirement, for a report. Of alternatives, returns the one that decides: the first that holds, or else the first.
pub fn judge<'r>(requirement: &'r MachineRequirement, inventory: &Inventory) -> Judged<'r> {
    let demand = &requirement.demand;
    let mut demands = std::slice::from_ref(demand);
    if let Demand::Any(alternatives) = demand
        && let Some(decisive) = alternatives
            .iter()
            .find(|demands| hold(demands, inventory) == Some(true))
            .or(alternatives.first())
    {
        demands = decisive;
    }
    Judged {
        counts: applies(requirement, inventory),
        holds: holds(demand, inventory),
        demands,
        has: facts(inventory),
    }
}

fn hold(demands: &[Demand], inventory: &Inventory) -> Option<bool> {
    all(demands.iter().map(|demand| holds(demand, inventory)))
}

fn holds(demand: &Demand, inventory: &Inventory) -> Option<bool> {
    match demand {
        Demand::Driver(range) => match &inventory.driver {
            None => without_driver(inventory),
            Some(driver) => Some(range.allows(&driver.version)),
        },
        Demand::DriverCuda(range) => match &inventory.driver {
            None => without_driver(inventory),
            Some(driver) => Some(range.allows(&driver.cuda?.version())),
        },
        // The solver judges the picks by it.
        Demand::Cuda(_) => Some(true),
        Demand::Gpu(range) => every_gpu(inventory, |gpu| {
            Some(range.allows(&gpu.capability?.version()))
        }),
        Demand::AnyGpu => every_gpu(inventory, |_| Some(true)),
        Demand::Brand { name, is_not } => every_gpu(inventory, |gpu| {
            Some((brand(&gpu.model)? == name) != *is_not)
        }),
        Demand::Code(code) => {
            let gpus: Vec<ComputeCapability> = inventory
                .visible_gpus()
                .map(|gpu| gpu.capability)
                .collect::<Option<_>>()?;
            (!gpus.is_empty()).then(|| gpus.iter().any(|gpu| serves(code, *gpu)))
        }
        Demand::Extensions => {
            inventory.extensions.as_ref()?;
            Some(unfit(demand, inventory).is_empty())
        }
        Demand::Any(alternatives) if alternatives.is_empty() => Some(true),
        Demand::Any(alternatives) => {
            let judged = alternatives.iter().map(|demands| hold(demands, inventory));
            all(judged.map(|holds| holds.map(|holds| !holds))).map(|all_fail| !all_fail)
        }
    }
}

/// The extension modules that do not fit, for a demand about these.
fn unfit(demand: &Demand, inventory: &Inventory) -> Vec<Extension> {
    match demand {
        Demand::Extensions => inventory.unfit_extensions().cloned().collect(),
        _ => Vec::new(),
    }
}

fn all(judged: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let judged: Vec<Option<bool>> = judged.collect();
    if judged.contains(&Some(false)) {
        return Some(false);
    }
    (!judged.contains(&None)).then_some(true)
}

/// WSL and Jetson have device nodes, and no kernel module that says its version.
fn without_driver(inventory: &Inventory) -> Option<bool> {
    inventory.devices.is_empty().then_some(false)
}

fn every_gpu(inventory: &Inventory, holds: impl Fn(&Gpu) -> Option<bool>) -> Option<bool> {
    if inventory.visible_gpus().next().is_none() {
        return if inventory.gpus_hidden {
            Some(false)
        } else {
            without_driver(inventory)
        };
    }
    all(inventory.visible_gpus().map(holds))
}

/// The brand as NVIDIA's container toolkit spells it, where the name of the product contains it.
fn brand(model: &str) -> Option<&'static str> {
    [
        ("GeForce", "geforce"),
        ("TITAN", "titan"),
        ("Quadro RTX", "quadrortx"),
        ("Quadro", "quadro"),
        ("Tesla", "tesla"),
        ("GRID", "grid"),
    ]
    .iter()
    .find(|(word, _)| model.contains(word))
    .map(|(_, brand)| *brand)
}
