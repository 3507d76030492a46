//! Finds the known troubles of a set that is sound: bad combinations, code that must be compiled first, GPUs that are
//! left out.

use std::collections::{BTreeMap, BTreeSet};

use super::gpus;
use super::newer::{self, COMPILER};
use super::outcome::Caution;
use super::slot::Picked;
use super::world::{World, serves};
use crate::catalog::{self, knowledge};
use crate::inventory::{Code, Installation, Origin};
use crate::requirements::LibraryRequirement;
use crate::version::{ComputeCapability, CudaVersion, Version};

pub(super) fn cautions(picks: &[&Installation], world: &World<'_>) -> Vec<Caution> {
    let mut cautions = left_out(world);
    for installation in picks {
        for gpu in gpus::without_code(installation, world) {
            let of = installation.title();
            cautions.push(Caution::NoCode { of, gpu });
        }
        cautions.extend(older(installation, world));
        if !world.inventory.offers_gpu() {
            continue;
        }
        if let Some((needed, by)) = newer::below_declared(installation, world) {
            cautions.push(Caution::BelowDeclared {
                of: installation.title(),
                needed,
                by: by.to_owned(),
            });
        }
        if let Some(lack) = newer::lazy_lack(installation, world) {
            cautions.push(Caution::LacksCalled {
                of: installation.title(),
                lack,
            });
        }
    }
    for installation in picks {
        cautions.extend(compiled_first(installation, picks, world));
    }
    cautions.extend(bad_together(picks, world));
    cautions.extend(cannot_compile(picks, world));
    cautions
}

/// The visible GPUs for which the program's own files have no code.
fn left_out(world: &World<'_>) -> Vec<Caution> {
    let mut cautions = Vec::new();
    for requirement in world.program.machine_requirements() {
        let Some(code) = requirement.own_code() else {
            continue;
        };
        let (mut is_served, mut unserved) = (false, Vec::new());
        for gpu in world.inventory.visible_gpus() {
            let Some(capability) = gpu.capability else {
                continue;
            };
            if serves(code, capability) {
                is_served = true;
            } else {
                unserved.push((&gpu.model, capability));
            }
        }
        let by = &requirement.by.name;
        if !is_served && !unserved.is_empty() {
            cautions.push(Caution::Unserved {
                by: by.clone(),
                gpus: unserved
                    .iter()
                    .map(|(model, gpu)| format!("{model} (compute capability {gpu})"))
                    .collect(),
            });
            continue;
        }
        for (model, capability) in unserved {
            cautions.push(Caution::LeavesOut {
                gpu: model.clone(),
                capability,
                by: by.clone(),
            });
        }
    }
    cautions.dedup();
    cautions
}

/// The newest floor of an imported package that a pick does not reach. On hidden GPUs, that was the user's choice.
fn older(installation: &Installation, world: &World<'_>) -> Option<Caution> {
    let below = newer::below(installation, world, LibraryRequirement::floor);
    let (needed, by) = below.filter(|_| !world.inventory.gpus_hidden)?;
    Some(Caution::Older {
        of: installation.title(),
        needed,
        by: by.to_owned(),
    })
}

fn compiled_first(
    installation: &Installation,
    picks: &[&Installation],
    world: &World<'_>,
) -> Vec<Caution> {
    // A library without any machine code is meant to be compiled.
    if !installation.serves.values().any(|code| *code == Code::Sass) {
        return Vec::new();
    }
    let driver = picks.iter().find(|pick| pick.is_driver());
    let driver = driver.and_then(|driver| gpus::cuda_of_driver(driver, world.inventory));
    // A library of unknown minor version may be newer than what the driver compiles.
    let older_driver = driver.filter(|driver| match installation.built_for {
        Some(built) => built > *driver,
        None => installation.cuda == Some(driver.major),
    });
    gpus::only_ptx(installation, world)
        .into_iter()
        .map(|gpu| match older_driver {
            Some(driver) => Caution::OnlyPtxAndOlderDriver {
                of: installation.title(),
                gpu,
                driver,
            },
            None => Caution::OnlyPtx {
                of: installation.title(),
                gpu,
            },
        })
        .collect()
}

/// The visible GPUs for which an NVRTC of the program does not compile: a picked one, or one in a package.
fn cannot_compile(picks: &[&Installation], world: &World<'_>) -> Vec<Caution> {
    let World {
        program, inventory, ..
    } = world;
    let bundled = inventory.installations.iter().filter(|installation| {
        let mut packages = program.packages.iter();
        installation.origin == Origin::Bundled
            && packages.any(|package| installation.directory.starts_with(&package.directory))
    });
    let gpus: BTreeSet<ComputeCapability> = inventory.capabilities().collect();
    let asked = program
        .library_requirements()
        .find(|requirement| requirement.family == COMPILER);
    let mut seen = BTreeSet::new();
    let mut cautions = Vec::new();
    for installation in picks.iter().copied().chain(bundled) {
        if installation.family != COMPILER || !seen.insert(&installation.directory) {
            continue;
        }
        let Some(version) = installation.version.map(CudaVersion::of) else {
            continue;
        };
        let is_own = matches!(installation.origin, Origin::Bundled | Origin::Wheel);
        for gpu in &gpus {
            let Some(cuda) = catalog::architecture(*gpu).map(|known| &known.cuda) else {
                continue;
            };
            if version < cuda[0] || cuda.get(1).is_some_and(|last| version > *last) {
                cautions.push(Caution::CannotCompile {
                    of: installation.title(),
                    gpu: *gpu,
                    cuda: cuda.clone(),
                    by: asked
                        .filter(|_| is_own)
                        .map(|requirement| requirement.by.name.clone()),
                });
            }
        }
    }
    cautions
}

fn bad_together(picks: &[&Installation], world: &World<'_>) -> Vec<Caution> {
    let gpus: Vec<ComputeCapability> = world.inventory.capabilities().collect();
    knowledge()
        .bad_combinations(&versions(picks.iter().copied()), &gpus)
        .map(|row| {
            let of = picks
                .iter()
                .filter(|pick| row.families().any(|family| family == pick.family));
            Caution::Combination {
                of: of.map(|installation| installation.title()).collect(),
                effect: row.effect.clone(),
                remedy: row.remedy.clone(),
            }
        })
        .collect()
}

/// The number of bad combinations that an installation adds to those of the picks so far.
pub(super) fn bad_with(
    installation: &Installation,
    done: &[Picked<'_>],
    world: &World<'_>,
) -> usize {
    let Some(version) = installation
        .version
        .filter(|_| knowledge().may_be_bad(&installation.family))
    else {
        return 0;
    };
    let mut versions = versions(done.iter().map(|picked| picked.installation));
    versions.remove(installation.family.as_str());
    let gpus: Vec<ComputeCapability> = world.inventory.capabilities().collect();
    let before = knowledge().bad_combinations(&versions, &gpus).count();
    versions.insert(&installation.family, version);
    knowledge().bad_combinations(&versions, &gpus).count() - before
}

/// The version of each family: the one that was picked first, which has the newer SONAME.
fn versions<'c>(
    installations: impl Iterator<Item = &'c Installation>,
) -> BTreeMap<&'c str, Version> {
    let mut versions = BTreeMap::new();
    for installation in installations {
        if let Some(version) = installation.version {
            versions
                .entry(installation.family.as_str())
                .or_insert(version);
        }
    }
    versions
}
