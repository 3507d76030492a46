//! The order of preference among installations that fit: a table of criteria, compared column by column.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::path::PathBuf;

use super::constraints::open;
use super::reason::Criterion;
use super::slot::{Candidate, Picked, Slot};
use super::world::World;
use super::{cautions, gpus, newer};
use crate::formats::names;
use crate::inventory::{ChangedBy, Installation, Inventory, Origin};
use crate::program::Program;
use crate::requirements::{LibraryRequirement, Want};
use crate::version::Version;

type Columns = [(Criterion, Reverse<i64>); 16];

/// The columns of the comparison, strongest first, then the path: smaller is better.
pub(super) fn rank(
    slot: &Slot<'_>,
    candidate: Candidate<'_>,
    done: &[Picked<'_>],
    world: &World<'_>,
) -> (Columns, PathBuf) {
    (
        columns(slot, candidate, done, world),
        candidate.installation.directory.clone(),
    )
}

/// The first column in which two candidates differ.
pub(super) fn deciding(
    slot: &Slot<'_>,
    better: Candidate<'_>,
    other: Candidate<'_>,
    done: &[Picked<'_>],
    world: &World<'_>,
) -> Criterion {
    let better = columns(slot, better, done, world);
    let other = columns(slot, other, done, world);
    better
        .iter()
        .zip(&other)
        .find(|(a, b)| a != b)
        .map_or(Criterion::Path, |(column, _)| column.0)
}

fn columns(
    slot: &Slot<'_>,
    candidate: Candidate<'_>,
    done: &[Picked<'_>],
    world: &World<'_>,
) -> Columns {
    let (installation, inventory, program) =
        (candidate.installation, world.inventory, world.program);
    // The version that upstream tested with, or built its own shim from.
    let recorded = world
        .requirements_of(&slot.family.name)
        .filter_map(|requirement| match requirement.want {
            Want::Recorded(version) | Want::Rest(version) => Some(version),
            _ => None,
        })
        .max();
    let bad = cautions::bad_with(installation, done, world);
    let version = installation.version.unwrap_or_default();
    let newest = number(&version);
    let is_recorded = recorded.is_some_and(|recorded| version.agrees_with(&recorded));
    let nearest = recorded.map_or(0, |recorded| {
        if version >= recorded {
            -newest
        } else {
            i64::MIN + 1
        }
    });
    [
        (
            Criterion::Installed,
            i64::from(!world.is_offer(installation)),
        ),
        (
            Criterion::Private,
            i64::from(candidate.is_forced || is_private(installation, program)),
        ),
        (
            Criterion::KernelsOwn,
            i64::from(is_kernels_own(installation, inventory)),
        ),
        (
            Criterion::LoaderTakesIt,
            i64::from(candidate.is_forced || is_given(slot, installation, inventory)),
        ),
        (Criterion::Preferred, preferred(slot, installation, world)),
        (
            Criterion::PreferredOrigin,
            preferred_origin(installation, world),
        ),
        (
            Criterion::NamedVersion,
            named_versions(slot, installation, world),
        ),
        (
            Criterion::Declared,
            i64::from(bad == 0 && newer::is_declared(installation, world)),
        ),
        (
            Criterion::CameWithTarget,
            i64::from(came_with_target(installation, program)),
        ),
        (Criterion::Sound, -i64::try_from(bad).unwrap_or(i64::MAX)),
        (Criterion::MachineCode, code(installation, world)),
        (Criterion::Neighbours, neighbours(installation, done)),
        (Criterion::Recorded, i64::from(is_recorded)),
        (Criterion::NearestNewer, nearest),
        (Criterion::Newest, newest),
        (Criterion::SearchOrder, search_order(installation)),
    ]
    .map(|(criterion, score)| (criterion, Reverse(score)))
}

/// A version as one number. Each part is limited to its place.
fn number(version: &Version) -> i64 {
    let places = [(48, 0x7fff), (32, 0xffff), (16, 0xffff), (0, 0xffff)];
    version
        .numbers()
        .iter()
        .zip(places)
        .map(|(number, (shift, most))| i64::from((*number).min(most)) << shift)
        .sum()
}

/// True if no other user could have put it there, or it is as safe as the program.
fn is_private(installation: &Installation, program: &Program) -> bool {
    open(installation, program).is_none_or(|open| open.who == ChangedBy::CurrentDirectory)
}

/// Installations that the loader searches earlier score more.
fn search_order(installation: &Installation) -> i64 {
    let position = installation
        .position
        .and_then(|position| i64::try_from(position).ok());
    position.map_or(i64::MIN + 1, |position| -position)
}

/// True for the driver's libraries of the kernel's own version.
fn is_kernels_own(installation: &Installation, inventory: &Inventory) -> bool {
    let kernel = inventory.driver.as_ref().map(|driver| driver.version);
    installation.is_driver()
        && installation.origin != Origin::Compat
        && kernel.is_some_and(|kernel| installation.version == Some(kernel))
}

/// True for the driver's libraries that the loader finds without any change of the environment.
fn is_given(slot: &Slot<'_>, installation: &Installation, inventory: &Inventory) -> bool {
    slot.family.is_driver()
        && inventory
            .file_given("libcuda.so.1", [])
            .is_some_and(|file| installation.has_file(file))
}

fn came_with_target(installation: &Installation, program: &Program) -> bool {
    installation.directories().any(|directory| {
        program.is_in_site(directory) || program.own_directories.contains(directory)
    })
}

/// The number of the user's preferences that it meets.
fn preferred(slot: &Slot<'_>, installation: &Installation, world: &World<'_>) -> i64 {
    let mut count = 0;
    for requirement in world.requirements_of(&slot.family.name) {
        if let Want::Preferred(range) = &requirement.want
            && let Some(version) = installation.version
        {
            count += i64::from(range.allows(&version));
        }
    }
    count
}

/// The number of names with a whole version that it has among those that the program opens. Under another pick
/// such a name leads nowhere.
fn named_versions(slot: &Slot<'_>, installation: &Installation, world: &World<'_>) -> i64 {
    let names: BTreeSet<&str> = world
        .requirements_of(&slot.family.name)
        .filter_map(LibraryRequirement::named)
        .filter(|name| has_whole_version(name) && installation.offers(name))
        .collect();
    i64::try_from(names.len()).unwrap_or(i64::MAX)
}

fn has_whole_version(name: &str) -> bool {
    names::split(name)
        .and_then(|(_, suffix)| suffix.parse::<Version>().ok())
        .is_some_and(|version| version.numbers().len() >= 3)
}

/// Origins that the user prefers score more. The preference does not concern the driver.
fn preferred_origin(installation: &Installation, world: &World<'_>) -> i64 {
    let origins = world
        .policy
        .origins
        .iter()
        .rev()
        .take_while(|_| !installation.is_driver());
    origins
        .zip(1..)
        .find(|(origin, _)| **origin == installation.origin)
        .map_or(0, |(_, rank)| rank)
}

/// Machine code for every GPU scores more than PTX, and PTX more than no code for some.
fn code(installation: &Installation, world: &World<'_>) -> i64 {
    if !gpus::without_code(installation, world).is_empty() {
        -2
    } else if !gpus::only_ptx(installation, world).is_empty() {
        -1
    } else {
        0
    }
}

/// Installations score more if they share the directory, or the origin and the CUDA, of picks so far.
fn neighbours(installation: &Installation, done: &[Picked<'_>]) -> i64 {
    done.iter()
        .filter(|picked| !picked.installation.is_driver())
        .map(|picked| {
            if picked.installation.directory.as_os_str() == installation.directory.as_os_str() {
                100
            } else {
                let is_of_same_cuda = installation.built_for.is_some()
                    && picked.installation.built_for == installation.built_for;
                i64::from(picked.installation.origin == installation.origin)
                    + i64::from(is_of_same_cuda)
            }
        })
        .sum()
}
