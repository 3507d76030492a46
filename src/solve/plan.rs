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
use super::outcome::{
    Absent, KeptPreload, PathElement, Pick, Plan, Policy, Rejection, Removal, Unpinned,
};
use super::search::{Filled, Solution};
use super::slot::Slot;
use super::world::World;
use crate::catalog::catalog;
use crate::host::FileId;
use crate::inventory::{Installation, Inventory, LibraryPathElement, Origin, Preload};
use crate::program::{ImportCertainty, LibraryRequirement, Need, Program, Want};
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
        .find(|installation| installation.family == "driver");
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
        let is_other = |file: FileId| !driver.has_file(file);
        // Without the view.
        let given = |name: &String| {
            let kept = library_path
                .iter()
                .zip(&inventory.search.library_path)
                .filter(|(kept, _)| kept.removed.is_none());
            inventory.file_given(name, kept.map(|(_, element)| element))
        };
        let is_mixed = |name: &String| given(name).is_some_and(is_other);
        driver_names(&solution, program)
            .iter()
            .any(|name| given(name).is_none_or(is_other))
            || driver
                .files
                .iter()
                .any(|member| member.view_names(driver.version).iter().any(is_mixed))
    });
    let is_foreign = |preload: &Preload, family: &String| {
        let is_picked = |file| {
            installations
                .iter()
                .any(|installation| installation.has_file(file))
        };
        installations
            .iter()
            .any(|installation| installation.family == *family)
            && preload.file.is_some_and(|file| !is_picked(file))
    };
    let preload = inventory
        .search
        .preload
        .iter()
        .map(|preload| {
            let removed = preload
                .family
                .clone()
                .filter(|family| is_foreign(preload, family));
            KeptPreload {
                text: preload.text.clone(),
                removed,
            }
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
            is_older: filled.slot.accepts_older,
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

/// Returns the reason to remove an inherited element. An element with other libraries as well stays, after the view.
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
        .filter(|installation| installation.directories().any(|place| place == directory))
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
        !here.iter().any(|installation| {
            installation.family != "driver" && installation.origin != Origin::Stub
        })
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

/// Returns the names of the driver's libraries that the program or a picked library will ask for.
fn driver_names(solution: &Solution<'_>, program: &Program) -> BTreeSet<String> {
    let mut names = BTreeSet::from(["libcuda.so.1".to_owned()]);
    let opened = solution.filled.iter().flat_map(|filled| {
        let family = catalog().family(&filled.installation.family);
        family.map_or(&[][..], |family| {
            family.dlopens_unversioned(filled.installation.soname.unwrap_or(0))
        })
    });
    let written = program
        .library_requirements()
        .filter_map(LibraryRequirement::named)
        .map(str::to_owned);
    let names_of_driver = written.chain(opened.cloned()).filter(|name| {
        catalog()
            .family_of(name)
            .is_some_and(|(family, _)| family.name == "driver")
    });
    names.extend(names_of_driver.filter(|name| solution.offers(name)));
    names
}

/// Returns names that a picked family lacks and that another installation would supply: an empty file of that name
/// ends the search. Never a name that a file is linked against, for which it would be fatal; nor the name of a
/// whole family.
fn tombstones(solution: &Solution<'_>, inventory: &Inventory, program: &Program) -> Vec<String> {
    let mut names = BTreeSet::new();
    for filled in solution
        .filled
        .iter()
        .filter(|filled| filled.installation.family != "driver")
    {
        let picked = filled.installation;
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
    let linked = |name: &String| {
        let mut members = solution
            .filled
            .iter()
            .flat_map(|filled| &filled.installation.files);
        program
            .library_requirements()
            .any(|r| r.need == Need::Linked && r.named() == Some(name))
            || members.any(|member| member.needed.contains(name))
    };
    names
        .into_iter()
        .filter(|name| !linked(name) && !solution.offers(name))
        .collect()
}

/// Returns names of members that the picked installation lacks and would open.
fn missing_members(
    filled: &Filled<'_>,
    others: &[&Installation],
    program: &Program,
) -> BTreeSet<String> {
    let family = filled.slot.family;
    let missing = others
        .iter()
        .flat_map(|other| &other.files)
        .filter(|member| family.dlopens_own_members && member.stem != family.main)
        .filter(|member| filled.installation.member(&member.stem).is_none());
    let shims = shims(filled.installation, program);
    let versions =
        || std::iter::once(filled.installation.version).chain(shims.iter().copied().map(Some));
    missing
        .flat_map(|member| versions().flat_map(|version| member.view_names(version)))
        .collect()
}

/// Returns the shims of other versions by whose names an installation's files are opened: its own, and those in packages
/// of the program.
fn shims(installation: &Installation, program: &Program) -> BTreeSet<Version> {
    let brought = program
        .library_requirements()
        .filter(|requirement| requirement.family == installation.family)
        .filter_map(|requirement| match requirement.want {
            Want::Rest(version) if installation.soname == Some(version.major()) => Some(version),
            _ => None,
        });
    installation
        .shim
        .into_iter()
        .chain(brought)
        .filter(|shim| {
            installation
                .version
                .is_none_or(|version| !version.agrees_with(shim))
        })
        .collect()
}

/// Returns longer names that the program tries before the one that it gets: `libcudnn.so.9.10.2`.
fn tried_names(filled: &Filled<'_>, others: &[&Installation]) -> BTreeSet<String> {
    let tried = filled
        .slot
        .requirements
        .iter()
        .filter(|requirement| requirement.need == Need::Named);
    let names = tried
        .filter_map(LibraryRequirement::named)
        .filter(|name| !filled.installation.offers(name));
    let is_soname = |name: &&str| {
        others
            .iter()
            .any(|other| other.files.iter().any(|member| member.soname == *name))
    };
    let is_bare = |name: &&str| name.ends_with(".so");
    let supplied = |name: &&str| others.iter().any(|other| other.offers(name));
    names
        .filter(|name| supplied(name) && !is_soname(name) && !is_bare(name))
        .map(str::to_owned)
        .collect()
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
            r.by.standing == ImportCertainty::Imported
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

/// Returns one entry for each family.
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
