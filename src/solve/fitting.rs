//! Wheels with which there is a set: the solver tries those of the table as if they were installed.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::offers::{of_wheel, releases, versions};
use super::outcome::Unmet;
use super::reason::Reason;
use super::search::{self, DeadEnd};
use super::slots;
use super::world::World;
use crate::catalog::{Wheel, catalog, wheels};
use crate::inventory::Installation;
use crate::program::Asker;
use crate::version::Version;

/// A wheel that a set takes, and what asks for it.
#[derive(Clone, Debug)]
pub(super) struct Offered {
    /// `nvidia-cudnn-cu12 9.1.0.70`
    pub package: String,
    /// The names that are asked for, `libcudnn.so.9`.
    pub names: BTreeSet<String>,
    pub asked_by: Vec<Asker>,
}

/// Returns the directory in which the libraries of a wheel would be; `None` if it cannot be had.
pub(super) type WheelPlace<'p> = dyn Fn(&Wheel, Version) -> Option<PathBuf> + 'p;

/// Solves with wheels that could be installed, of the lacking families alone. Returns the picked ones.
pub(super) fn fitting(
    unmet: &[Unmet],
    mut lacking: BTreeSet<String>,
    world: &World<'_>,
    place: &WheelPlace<'_>,
) -> Option<Vec<Offered>> {
    loop {
        // Libraries that they are linked against come with them.
        while let Some(family) = needed_by(&lacking) {
            lacking.insert(family);
        }
        let may_help = |wheel: &Wheel, version: &Version| {
            let missing = unmet.iter().find(|missing| missing.family == wheel.family);
            missing
                .and_then(of_symbol)
                .is_none_or(|needed| *version >= needed)
                && missing.is_none_or(|missing| may_have_code(missing, version))
        };
        // Among equals, the first is picked: the one for the CUDA of other libraries of the program, or else for CUDA 12.
        let cuda = world
            .agreed_cuda()
            .map(|(cuda, _)| cuda)
            .or_else(|| world.cuda_of_wheels())
            .unwrap_or(12);
        let rows = wheels()
            .iter()
            .filter(|wheel| lacking.contains(&wheel.family));
        let names: BTreeSet<(u32, u32, &str)> = rows
            .map(|wheel| {
                (
                    wheel.cuda.abs_diff(cuda),
                    u32::MAX - wheel.cuda,
                    wheel.name.as_str(),
                )
            })
            .collect();
        let offers: Vec<Installation> = names
            .into_iter()
            .flat_map(|(_, _, name)| match world.policy.at_hand {
                Some(_) => releases(name),
                None => versions(name, world.program),
            })
            .filter(|(version, wheel)| may_help(wheel, version))
            .filter_map(|(version, wheel)| {
                let directory = place(wheel, version)?;
                Some(of_wheel(wheel, version, &directory, world.inventory))
            })
            .collect();
        let world = World::new(world.inventory, world.program, world.policy).with_offers(&offers);
        let still = match slots::slots(&world).map(|slots| search::best(slots.to_fill, &world)) {
            Ok(Ok(solution)) => {
                let picked = solution
                    .filled
                    .iter()
                    .filter(|filled| world.is_offer(filled.installation));
                return Some(
                    picked
                        .filter_map(|filled| {
                            Some(Offered {
                                package: filled.installation.package.clone()?,
                                names: filled.slot.names().into_iter().collect(),
                                asked_by: filled.slot.asked_by(),
                            })
                        })
                        .collect(),
                );
            }
            Ok(Err(DeadEnd { unmet, .. })) | Err(unmet) => unmet,
        };
        let before = lacking.len();
        lacking.extend(still.into_iter().map(|missing| missing.family));
        if lacking.len() == before {
            return None;
        }
    }
}

/// Returns another family that wheels of these are linked against.
fn needed_by(families: &BTreeSet<String>) -> Option<String> {
    let needed = wheels()
        .iter()
        .filter(|wheel| families.contains(&wheel.family))
        .flat_map(|wheel| &wheel.needs)
        .filter_map(|name| catalog().family_of(name));
    needed
        .map(|(family, _)| family.name.clone())
        .find(|family| !families.contains(family))
}

/// False where the table says nothing of GPUs, and the installed version on this side of another has no code for one: older
/// ones have code for a GPU that is older than all those that it serves, else newer ones.
fn may_have_code(missing: &Unmet, version: &Version) -> bool {
    missing.candidates.iter().all(|candidate| {
        let Reason::NoCode { gpu, has } = candidate.reason.deepest() else {
            return true;
        };
        let Some(without) = candidate
            .installation
            .version
            .filter(|_| missing.family != "cudnn")
        else {
            return true;
        };
        let is_old = has.first().is_some_and(|first| gpu < first);
        if is_old {
            *version < without
        } else {
            *version > without
        }
    })
}

/// Returns the version of a missing symbol: nvJitLink writes it into each name, `__nvJitLinkCreate_12_4`.
pub(super) fn of_symbol(missing: &Unmet) -> Option<Version> {
    reasons(missing)
        .filter_map(|reason| match reason {
            Reason::LacksSymbols { first, .. } if missing.family == "nvjitlink" => Some(first),
            _ => None,
        })
        .filter_map(|name| {
            let mut numbers = name.rsplit('_').map(str::parse);
            let (Some(Ok(minor)), Some(Ok(major))) = (numbers.next(), numbers.next()) else {
                return None;
            };
            Some(Version::new(&[major, minor]))
        })
        .max()
}

pub(super) fn reasons(missing: &Unmet) -> impl Iterator<Item = &Reason> {
    missing
        .candidates
        .iter()
        .map(|candidate| candidate.reason.deepest())
}
