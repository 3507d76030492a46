//! Which of several installations that fit is taken: a table of criteria, compared column by column.

use std::cmp::Reverse;
use std::path::PathBuf;

use super::constraints::{Candidate, open};
use super::search::Picked;
use super::slots::Slot;
use super::world::World;
use super::{Criterion, cautions, gpus};
use crate::inventory::{Installation, Inventory, Origin, Who};
use crate::program::{Program, Requirement, Want};
use crate::version::Version;

type Columns = [(Criterion, Reverse<i64>); 13];

/// The columns of the comparison, strongest first, then the path: smaller is better.
pub(super) fn rank(
    slot: &Slot<'_>,
    candidate: Candidate<'_>,
    done: &[Picked<'_>],
    world: &World<'_>,
) -> (Columns, PathBuf) {
    (columns(slot, candidate, done, world), candidate.installation.directory.clone())
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
    better.iter().zip(&other).find(|(a, b)| a != b).map_or(Criterion::Path, |(column, _)| column.0)
}

fn columns(slot: &Slot<'_>, candidate: Candidate<'_>, done: &[Picked<'_>], world: &World<'_>) -> Columns {
    let (installation, inventory, program) = (candidate.installation, world.inventory, world.program);
    let recorded = recorded(slot, world);
    let version = installation.version.unwrap_or_default();
    let newest = number(&version);
    let is_recorded = recorded.is_some_and(|recorded| version.agrees_with(&recorded));
    let nearest = recorded.map_or(0, |recorded| if version >= recorded { -newest } else { i64::MIN + 1 });
    [
        (Criterion::Private, i64::from(candidate.is_forced || is_private(installation, program))),
        (Criterion::KernelsOwn, i64::from(is_kernels_own(installation, inventory))),
        (Criterion::LoaderTakesIt, i64::from(candidate.is_forced || is_given(slot, installation, inventory))),
        (Criterion::Preferred, preferred(slot, installation, world)),
        (Criterion::PreferredOrigin, preferred_origin(installation, world)),
        (Criterion::CameWithTarget, i64::from(came_with_target(installation, program))),
        (Criterion::Sound, -bad_with(installation, done, world)),
        (Criterion::MachineCode, code(installation, world)),
        (Criterion::Neighbours, neighbours(installation, done)),
        (Criterion::Recorded, i64::from(is_recorded)),
        (Criterion::NearestNewer, nearest),
        (Criterion::Newest, newest),
        (Criterion::SearchOrder, search_order(installation)),
    ]
    .map(|(criterion, score)| (criterion, Reverse(score)))
}

/// A version as one number; what does not fit into its place counts as the most that does.
fn number(version: &Version) -> i64 {
    let places = [(48, 0x7fff), (32, 0xffff), (16, 0xffff), (0, 0xffff)];
    let numbers = version.numbers().iter().zip(places);
    numbers.map(|(number, (shift, most))| i64::from((*number).min(most)) << shift).sum()
}

/// No other user could have put it there, or it is as safe as the program.
fn is_private(installation: &Installation, program: &Program) -> bool {
    open(installation, program).is_none_or(|open| open.who == Who::CurrentDirectory)
}

/// The earlier the loader comes to it, the more.
fn search_order(installation: &Installation) -> i64 {
    installation
        .position
        .and_then(|position| i64::try_from(position).ok())
        .map_or(i64::MIN + 1, |position| -position)
}

/// The driver's libraries of the kernel's own version, and not those that stand in for another.
fn is_kernels_own(installation: &Installation, inventory: &Inventory) -> bool {
    let kernel = inventory.driver.as_ref().map(|driver| driver.version.version());
    installation.family == "driver"
        && installation.origin != Origin::Compat
        && kernel.is_some_and(|kernel| installation.version == Some(kernel))
}

/// The driver's libraries that the environment gives anyway need nothing to be taken.
fn is_given(slot: &Slot<'_>, installation: &Installation, inventory: &Inventory) -> bool {
    slot.family.name == "driver"
        && inventory.file_by_default("libcuda.so.1").is_some_and(|file| installation.has_file(file))
}

fn came_with_target(installation: &Installation, program: &Program) -> bool {
    installation.directories().any(|it| program.is_in_site(it) || program.own_directories.contains(it))
}

/// How many of a person's wishes it meets.
fn preferred(slot: &Slot<'_>, installation: &Installation, world: &World<'_>) -> i64 {
    let is_met = |requirement: &&Requirement| match &requirement.want {
        Want::Preferred(range) => installation.version.is_some_and(|version| range.allows(&version)),
        _ => false,
    };
    world.of_family(slot.family).filter(is_met).map(|_| 1).sum()
}

/// The dearer an origin is to a person, the more; the driver has its own.
fn preferred_origin(installation: &Installation, world: &World<'_>) -> i64 {
    let origins = world.policy.origins.iter().rev().take_while(|_| installation.family != "driver");
    // A start does not ask `rpm` for owners: its installations are loose then.
    let is_its = |origin| {
        origin == installation.origin || origin == Origin::Rpm && installation.origin == Origin::Loose
    };
    origins.zip(1..).find(|(origin, _)| is_its(**origin)).map_or(0, |(_, rank)| rank)
}

/// Code for every GPU, machine code before PTX.
fn code(installation: &Installation, world: &World<'_>) -> i64 {
    match (gpus::without_code(installation, world).is_empty(), gpus::only_ptx(installation, world).is_empty())
    {
        (true, true) => 0,
        (true, false) => -1,
        (false, _) => -2,
    }
}

fn bad_with(installation: &Installation, done: &[Picked<'_>], world: &World<'_>) -> i64 {
    i64::try_from(cautions::bad_with(installation, done, world)).unwrap_or(i64::MAX)
}

/// The version that upstream tested with, or built its own shim from.
fn recorded(slot: &Slot<'_>, world: &World<'_>) -> Option<Version> {
    let recorded = world.of_family(slot.family).filter_map(|requirement| match requirement.want {
        Want::Recorded(version) | Want::Rest(version) => Some(version),
        _ => None,
    });
    recorded.max()
}

/// How near it stands to the picks so far: in one directory with them, or of one origin and of one CUDA.
fn neighbours(installation: &Installation, done: &[Picked<'_>]) -> i64 {
    let near = done.iter().filter(|picked| picked.installation.family != "driver").map(|picked| {
        if picked.installation.directory.as_os_str() == installation.directory.as_os_str() {
            100
        } else {
            let is_of_same_cuda =
                installation.built_for.is_some() && picked.installation.built_for == installation.built_for;
            i64::from(picked.installation.origin == installation.origin) + i64::from(is_of_same_cuda)
        }
    });
    near.sum()
}
