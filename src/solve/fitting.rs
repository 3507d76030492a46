//! Wheels with which there is a set: the solver tries those of the table as if they were installed.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::path::PathBuf;

use super::offers::{of_wheel, releases, versions};
use super::outcome::Unmet;
use super::reason::Reason;
use super::search::{self, DeadEnd, Solution};
use super::slots;
use super::world::World;
use crate::catalog::{Wheel, catalog, wheels};
use crate::requirements::Asker;
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

/// The directory in which the libraries of a wheel would be; `None` if it cannot be had.
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
        // Among equals, the first is picked: the one for the CUDA of other libraries of the program, or else for CUDA 12.
        let cuda = world
            .agreed_cuda()
            .map(|(cuda, _)| cuda)
            .or_else(|| world.cuda_of_wheels())
            .unwrap_or(12);
        let mut names = BTreeSet::new();
        for wheel in wheels() {
            if lacking.contains(&wheel.family) {
                let distance = wheel.cuda.abs_diff(cuda);
                names.insert((distance, Reverse(wheel.cuda), wheel.name.as_str()));
            }
        }
        let mut offers = Vec::new();
        for (_, _, name) in names {
            let known = match world.policy.at_hand {
                Some(_) => releases(name),
                None => versions(name, world.program),
            };
            for (version, wheel) in known {
                let missing = unmet.iter().find(|missing| missing.family == wheel.family);
                if missing.is_none_or(|missing| may_help(missing, version))
                    && let Some(directory) = place(wheel, version)
                {
                    offers.push(of_wheel(wheel, version, &directory, world.inventory));
                }
            }
        }
        let world = World::new(world.inventory, world.program, world.policy).with_offers(&offers);
        let still = match slots::slots(&world) {
            Ok(slots) => match search::best(slots.to_fill, &world) {
                Ok(solution) => return Some(offered(&solution, &world)),
                Err(DeadEnd { unmet, .. }) => unmet,
            },
            Err(unmet) => unmet,
        };
        let before = lacking.len();
        lacking.extend(still.into_iter().map(|missing| missing.family));
        if lacking.len() == before {
            return None;
        }
    }
}

fn offered(solution: &Solution<'_>, world: &World<'_>) -> Vec<Offered> {
    let mut offered = Vec::new();
    for filled in &solution.filled {
        if world.is_offer(filled.installation)
            && let Some(package) = filled.installation.package.clone()
        {
            offered.push(Offered {
                package,
                names: filled.slot.names().into_iter().collect(),
                asked_by: filled.slot.asked_by(),
            });
        }
    }
    offered
}

/// Another family that wheels of these are linked against.
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

/// False for a version that would lack a symbol or code for a GPU. Where the table says nothing of GPUs, an installed version
/// without code tells: older ones have code for a GPU that is older than all those that it serves, else newer ones.
fn may_help(missing: &Unmet, version: Version) -> bool {
    let has_symbol = of_symbol(missing).is_none_or(|needed| version >= needed);
    has_symbol
        && missing.candidates.iter().all(|candidate| {
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
                version < without
            } else {
                version > without
            }
        })
}

/// The version of a missing symbol: nvJitLink writes it into each name, `__nvJitLinkCreate_12_4`.
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
