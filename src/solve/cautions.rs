//! What a person should know of a set that is sound: known troubles, code that must be compiled first, GPUs that
//! are left out.

use std::collections::BTreeMap;

use serde::Serialize;

use super::gpus;
use super::search::{Filled, Picked};
use super::world::World;
use crate::catalog::knowledge;
use crate::inventory::{Code, Installation};
use crate::version::{ComputeCapability, CudaVersion, Version};

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "caution", rename_all = "kebab-case")]
pub enum Caution {
    /// It has no code for a GPU: what it does itself fails there.
    NoCode { of: String, gpu: ComputeCapability },
    /// It has no machine code for a GPU: the driver compiles it at the first start.
    OnlyPtx { of: String, gpu: ComputeCapability },
    /// The same, and nobody knows whether the driver is new enough for that.
    OnlyPtxAndOlderDriver { of: String, gpu: ComputeCapability, driver: CudaVersion },
    /// Versions that are known to be bad together, or on such a GPU.
    Combination { of: Vec<String>, effect: String, remedy: String },
    /// Of no visible GPU the program's own files have code, as far as their fat binaries say.
    Unserved { by: String, gpus: Vec<String> },
    /// A visible GPU for which the program's own files have no code, while they have for another.
    LeavesOut { gpu: String, capability: ComputeCapability, by: String },
}

impl Caution {
    /// Whether it is said although nobody asked: the numbers may come out wrong, or the GPU be of no use.
    pub fn must_be_said(&self) -> bool {
        matches!(self, Caution::Combination { .. } | Caution::Unserved { .. })
    }
}

pub(super) fn of(filled: &[Filled<'_>], world: &World<'_>) -> Vec<Caution> {
    let picks: Vec<&Installation> = filled.iter().map(|filled| filled.installation).collect();
    let mut cautions = left_out(world);
    cautions.extend(picks.iter().flat_map(|installation| {
        let of = |gpu| Caution::NoCode { of: installation.title(), gpu };
        gpus::without_code(installation, world).into_iter().map(of)
    }));
    cautions.extend(picks.iter().flat_map(|installation| compiled_first(installation, &picks, world)));
    cautions.extend(bad_together(&picks, world));
    cautions
}

fn left_out(world: &World<'_>) -> Vec<Caution> {
    let mut cautions = Vec::new();
    for condition in &world.program.conditions {
        let Some(code) = gpus::own_code(condition) else { continue };
        let known = world.inventory.visible_gpus().filter_map(|gpu| Some((&gpu.model, gpu.capability?)));
        let (served, left): (Vec<_>, Vec<_>) = known.partition(|(_, gpu)| gpus::serves(code, *gpu));
        let by = || condition.by.name.clone();
        if served.is_empty() && !left.is_empty() {
            let gpus =
                left.iter().map(|(model, gpu)| format!("{model} (compute capability {gpu})")).collect();
            cautions.push(Caution::Unserved { by: by(), gpus });
            continue;
        }
        cautions.extend(left.into_iter().map(|(model, capability)| Caution::LeavesOut {
            gpu: model.clone(),
            capability,
            by: by(),
        }));
    }
    cautions.dedup();
    cautions
}

fn compiled_first(installation: &Installation, picks: &[&Installation], world: &World<'_>) -> Vec<Caution> {
    let driver = picks.iter().find(|pick| pick.family == "driver");
    let brings = driver.and_then(|driver| gpus::of_driver(driver, world.inventory));
    // Of another major or of an unknown minor it may be newer than what the driver compiles.
    let is_older = |driver: &CudaVersion| match installation.built_for {
        Some(built) => built > *driver,
        None => installation.cuda == Some(driver.major),
    };
    let of = |gpu: ComputeCapability| match brings.filter(is_older) {
        Some(driver) => Caution::OnlyPtxAndOlderDriver { of: installation.title(), gpu, driver },
        None => Caution::OnlyPtx { of: installation.title(), gpu },
    };
    // Where there is machine code for no GPU at all, that is how it is meant.
    let has_machine_code = installation.serves.values().any(|code| *code == Code::Sass);
    gpus::only_ptx(installation, world).into_iter().filter(|_| has_machine_code).map(of).collect()
}

fn bad_together(picks: &[&Installation], world: &World<'_>) -> Vec<Caution> {
    let versions = versions(picks.iter().copied());
    let gpus: Vec<ComputeCapability> = world.inventory.capabilities().collect();
    let bad = knowledge().bad_combinations(&versions, &gpus);
    let caution = |row: &crate::catalog::Combination| {
        let is_part =
            |installation: &&&Installation| row.families().any(|family| family == installation.family);
        let of = picks.iter().filter(is_part).map(|installation| installation.title()).collect();
        Caution::Combination { of, effect: row.effect.clone(), remedy: row.remedy.clone() }
    };
    bad.map(caution).collect()
}

/// How many bad combinations an installation would make with those that are picked.
pub(super) fn bad_with(installation: &Installation, done: &[Picked<'_>], world: &World<'_>) -> usize {
    let Some(version) = installation.version.filter(|_| knowledge().may_be_bad(&installation.family)) else {
        return 0;
    };
    let mut versions = versions(done.iter().map(|picked| picked.installation));
    // What is bad without it is not its doing.
    versions.remove(installation.family.as_str());
    let gpus: Vec<ComputeCapability> = world.inventory.capabilities().collect();
    let before = knowledge().bad_combinations(&versions, &gpus).count();
    versions.insert(&installation.family, version);
    knowledge().bad_combinations(&versions, &gpus).count() - before
}

/// Of two installations of one family the one that was picked first counts: the newer SONAME.
fn versions<'c>(installations: impl Iterator<Item = &'c Installation>) -> BTreeMap<&'c str, Version> {
    let mut versions = BTreeMap::new();
    for installation in installations {
        if let Some(version) = installation.version {
            versions.entry(installation.family.as_str()).or_insert(version);
        }
    }
    versions
}
