//! Makes a plan of a solution: elements of the environment to remove, the driver's place in the view, and names that
//! must not fall through to another installation.
//!
//! A directory of the inherited `LD_LIBRARY_PATH` stays, even with a foreign cuDNN in it: other libraries in
//! it may be needed. A tombstone blocks each name that it could add to a picked family.
//! Stubs and a wrong driver are removed only with directories that hold nothing else of use. An element of `LD_PRELOAD`
//! that would map another installation of a picked family is removed. A library that is only tried and does not fit the
//! rest is neither pinned nor blocked; the plan names it.

use std::collections::BTreeSet;

use super::cautions;
use super::newer;
use super::outcome::{Absent, KeptPreload, PathElement, Pick, Plan, Rejection, Removal, Unpinned};
use super::policy::Policy;
use super::search::{Filled, Solution};
use super::slot::Slot;
use super::world::World;
use crate::catalog::catalog;
use crate::inventory::{Installation, Inventory, LibraryPathElement, Origin, Preload};
use crate::program::Program;
use crate::requirements::{ImportCertainty, LibraryRequirement, Need, Want};
use crate::version::Version;

pub(super) fn plan(solution: Solution<'_>, world: &World<'_>) -> Plan {
    let World {
        inventory,
        program,
        policy,
        ..
    } = *world;
    let installations: Vec<&Installation> = solution
        .filled
        .iter()
        .map(|filled| filled.installation)
        .collect();
    let driver = installations
        .iter()
        .copied()
        .find(|installation| installation.is_driver());
    let library_path: Vec<PathElement> = inventory
        .search
        .library_path
        .iter()
        .map(|element| PathElement {
            text: element.text.clone(),
            removed: removal(element, driver, inventory, program, policy),
        })
        .collect();
    let driver_in_view = driver.is_some_and(|driver| {
        let names = driver_names(&solution, program);
        needs_view(driver, &names, &library_path, inventory)
    });
    let preload = inventory
        .search
        .preload
        .iter()
        .map(|preload| KeptPreload {
            text: preload.text.clone(),
            removed: preload
                .family
                .clone()
                .filter(|family| is_foreign(preload, family, &installations)),
        })
        .collect();
    let cautions = cautions::cautions(&installations, world);
    let tombstones = tombstones(&solution, inventory, program);
    let absent = merged(solution.absent);
    let unpinned = solution
        .unpinned
        .iter()
        .filter_map(|slot| unpinned(slot, inventory))
        .collect();
    let (mut picks, mut rejected) = (Vec::new(), Vec::new());
    for filled in solution.filled {
        picks.push(Pick {
            installation: filled.installation.clone(),
            asked_by: filled.slot.asked_by(),
            is_older: filled.slot.accepts_older || newer::is_too_old(filled.installation, world),
            decided_by: filled.decided_by,
            shims: shims(filled.installation, program),
        });
        rejected.extend(filled.rejected);
    }
    Plan {
        picks,
        rejected,
        absent,
        unpinned,
        cautions,
        tombstones,
        library_path,
        preload,
        driver_in_view,
    }
}

/// True if the loader would not take the driver's libraries without the view: it finds none for one of the names that will be
/// asked for, or for any name those of another driver.
fn needs_view(
    driver: &Installation,
    asked: &BTreeSet<String>,
    library_path: &[PathElement],
    inventory: &Inventory,
) -> bool {
    let mut kept = Vec::new();
    for (planned, element) in library_path.iter().zip(&inventory.search.library_path) {
        if planned.removed.is_none() {
            kept.push(element);
        }
    }
    let mut names = asked.clone();
    for member in &driver.files {
        names.extend(member.view_names(driver.version));
    }
    names.iter().any(
        |name| match inventory.file_given(name, kept.iter().copied()) {
            Some(file) => !driver.has_file(file),
            None => asked.contains(name),
        },
    )
}

/// True if a preloaded file is of a picked family, and not of the picked installation.
fn is_foreign(preload: &Preload, family: &str, picked: &[&Installation]) -> bool {
    picked.iter().any(|one| one.family == family)
        && preload
            .file
            .is_some_and(|file| !picked.iter().any(|one| one.has_file(file)))
}

/// The reason to remove an inherited element. An element with other libraries as well stays, after the view.
fn removal(
    element: &LibraryPathElement,
    driver: Option<&Installation>,
    inventory: &Inventory,
    program: &Program,
    policy: &Policy,
) -> Option<Removal> {
    if element.text.is_empty() {
        return Some(Removal::Empty);
    }
    let directory = element.directory.as_ref()?;
    if policy
        .views
        .iter()
        .any(|views| directory.parent() == Some(views))
    {
        return Some(Removal::OwnView);
    }
    if element.others {
        return None;
    }
    let here: Vec<&Installation> = inventory
        .installations
        .iter()
        .filter(|installation| installation.is_in(directory))
        .collect();
    if !here.is_empty()
        && here
            .iter()
            .all(|installation| installation.origin == Origin::Stub)
    {
        // Without a driver, a program that is linked against it needs the stub to start at all.
        let needs_stub = driver.is_none()
            && program
                .library_requirements()
                .any(|r| r.need == Need::Linked && r.family == "driver");
        return (!needs_stub).then_some(Removal::Stubs);
    }
    let driver = driver.filter(|_| {
        !here
            .iter()
            .any(|installation| !installation.is_driver() && installation.origin != Origin::Stub)
    })?;
    let kernel = inventory.driver.as_ref()?.version;
    let file = inventory
        .file_in(directory, "libcuda.so.1")
        .or_else(|| inventory.file_in(directory, "libcuda.so"))?;
    if driver.has_file(file) {
        return None;
    }
    let other = here.iter().find(|installation| installation.has_file(file));
    Some(Removal::OtherDriver {
        version: other.and_then(|other| other.version),
        kernel,
    })
}

/// The names of the driver's libraries that the program or a picked library will ask for.
fn driver_names(solution: &Solution<'_>, program: &Program) -> BTreeSet<String> {
    let mut asked: BTreeSet<&str> = program
        .library_requirements()
        .filter_map(LibraryRequirement::named)
        .collect();
    for filled in &solution.filled {
        let installation = filled.installation;
        if let Some(family) = catalog().family(&installation.family) {
            let opened = family.dlopens_unversioned(installation.soname.unwrap_or(0));
            asked.extend(opened.iter().map(String::as_str));
        }
    }
    let mut names = BTreeSet::from(["libcuda.so.1".to_owned()]);
    for name in asked {
        let family = catalog().family_of(name);
        if family.is_some_and(|(family, _)| family.is_driver()) && solution.offers(name) {
            names.insert(name.to_owned());
        }
    }
    names
}

/// Names that a picked family lacks and that another installation would supply: an empty file of that name
/// ends the search. Never a name that a file is linked against, for which it would be fatal; nor the name of a
/// whole family.
fn tombstones(solution: &Solution<'_>, inventory: &Inventory, program: &Program) -> Vec<String> {
    let mut names = BTreeSet::new();
    for filled in &solution.filled {
        let picked = filled.installation;
        if picked.is_driver() {
            continue;
        }
        let others: Vec<&Installation> = inventory
            .installations
            .iter()
            .filter(|other| {
                other.family == picked.family
                    && other.soname == picked.soname
                    && other.origin != Origin::Bundled
                    && other.directory != picked.directory
            })
            .collect();
        names.extend(missing_members(filled, &others, program));
        names.extend(tried_names(filled, &others));
    }
    names
        .into_iter()
        .filter(|name| !is_linked(name, solution, program) && !solution.offers(name))
        .collect()
}

/// True if the program or a picked file is linked against a library of this name.
fn is_linked(name: &String, solution: &Solution<'_>, program: &Program) -> bool {
    program
        .library_requirements()
        .any(|one| one.need == Need::Linked && one.named() == Some(name))
        || solution
            .filled
            .iter()
            .flat_map(|filled| &filled.installation.files)
            .any(|member| member.needed.contains(name))
}

/// Names of members that the picked installation lacks and would open.
fn missing_members(
    filled: &Filled<'_>,
    others: &[&Installation],
    program: &Program,
) -> BTreeSet<String> {
    let (family, picked) = (filled.slot.family, filled.installation);
    let mut names = BTreeSet::new();
    if !family.dlopens_own_members {
        return names;
    }
    let shims = shims(picked, program);
    for member in others.iter().flat_map(|other| &other.files) {
        if member.stem == family.main || picked.member(&member.stem).is_some() {
            continue;
        }
        names.extend(member.view_names(picked.version));
        for shim in &shims {
            names.extend(member.view_names(Some(*shim)));
        }
    }
    names
}

/// The shims of other versions by whose names an installation's files are opened: its own, and those in packages
/// of the program.
fn shims(installation: &Installation, program: &Program) -> BTreeSet<Version> {
    let mut shims = BTreeSet::from_iter(installation.shim);
    for requirement in program.library_requirements() {
        if let Want::Rest(shim) = requirement.want
            && requirement.family == installation.family
            && installation.soname == Some(shim.major())
        {
            shims.insert(shim);
        }
    }
    if let Some(version) = installation.version {
        shims.retain(|shim| !version.agrees_with(shim));
    }
    shims
}

/// Longer names that the program tries before the one that it gets: `libcudnn.so.9.10.2`.
fn tried_names(filled: &Filled<'_>, others: &[&Installation]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for requirement in &filled.slot.requirements {
        let Some(name) = requirement.named() else {
            continue;
        };
        let is_tried_with_number = requirement.need == Need::Named && !name.ends_with(".so");
        let is_soname = others
            .iter()
            .flat_map(|other| &other.files)
            .any(|member| member.soname == name);
        if is_tried_with_number
            && !is_soname
            && !filled.installation.offers(name)
            && others.iter().any(|other| other.offers(name))
        {
            names.insert(name.to_owned());
        }
    }
    names
}

pub(super) fn unpinned(slot: &Slot<'_>, inventory: &Inventory) -> Option<Unpinned> {
    let nearest = slot
        .rejected
        .iter()
        .find(|rejection| rejection.is_of_concern())?;
    let (family, names) = (slot.family.name.clone(), slot.names());
    let is_shadowed_by_rpath = slot.rejected.iter().any(Rejection::is_shadowed_by_rpath);
    let must_be_said = !inventory.gpus_hidden
        && slot.requirements.iter().any(|r| {
            r.by.certainty == ImportCertainty::Imported
                && r.asks_for_family()
                && matches!(r.need, Need::Used | Need::Essential)
        });
    Some(Unpinned {
        family,
        names,
        why: nearest.reason.clone(),
        is_shadowed_by_rpath,
        must_be_said,
    })
}

/// One entry for each family.
pub(super) fn merged(absent: Vec<Absent>) -> Vec<Absent> {
    let mut merged: Vec<Absent> = Vec::new();
    for missing in absent {
        match merged
            .iter_mut()
            .find(|known| known.family == missing.family)
        {
            Some(known) => {
                known.names.extend(missing.names);
                known.names.sort();
                known.names.dedup();
                known.asked_by.extend(missing.asked_by);
                known.asked_by.sort();
                known.asked_by.dedup_by(|a, b| a.name == b.name);
                known.essential |= missing.essential;
            }
            None => merged.push(missing),
        }
    }
    merged
}
