//! From a solution to a plan: what stays of the environment, what must stand in the view, and which names
//! must be stopped from falling through to another copy.

use std::collections::BTreeSet;

use super::search::{Filled, Solution};
use super::{Absent, Kept, KeptPreload, Pick, Plan, Policy, Rejection, Removal};
use crate::catalog::catalog;
use crate::host::FileId;
use crate::inventory::{Copy, Element, Inventory, Origin};
use crate::target::{Asker, Need, Target};

pub(super) fn plan(
    solution: Solution<'_>,
    mut absent: Vec<Absent>,
    inventory: &Inventory,
    target: &Target,
    policy: &Policy,
) -> Plan {
    let driver = solution.filled.iter().map(|filled| filled.copy).find(|copy| copy.family == "driver");
    let library_path: Vec<Kept> = inventory
        .search
        .library_path
        .iter()
        .map(|element| Kept {
            text: element.text.clone(),
            removed: removal(element, driver, inventory, policy),
        })
        .collect();
    let driver_in_view = driver.is_some_and(|driver| {
        let asked = driver_names(&solution, target);
        asked
            .iter()
            .any(|name| !given(name, &library_path, inventory).is_some_and(|file| driver.has_file(file)))
    });
    let preload = inventory.search.preload.iter().map(|preload| {
        let is_picked = |file: FileId| solution.filled.iter().any(|filled| filled.copy.has_file(file));
        let foreign = preload.file.is_some_and(|file| !is_picked(file));
        KeptPreload { text: preload.text.clone(), removed: preload.family.clone().filter(|_| foreign) }
    });
    let preload = preload.collect();
    let tombstones = tombstones(&solution, inventory, target);
    absent.extend(solution.absent);
    let absent = merged(absent);
    let (mut picks, mut rejected) = (Vec::new(), Vec::new());
    for filled in solution.filled {
        rejected.extend(relevant(&filled));
        picks.push(Pick {
            copy: filled.copy.clone(),
            asked_by: askers(&filled),
            decided_by: filled.decided_by,
        });
    }
    Plan { picks, rejected, absent, tombstones, library_path, preload, driver_in_view }
}

/// Why an inherited element must go, if it must.
fn removal(
    element: &Element,
    driver: Option<&Copy>,
    inventory: &Inventory,
    policy: &Policy,
) -> Option<Removal> {
    if element.text.is_empty() {
        return Some(Removal::Empty);
    }
    let directory = element.directory.as_ref()?;
    if policy.views.iter().any(|views| directory.parent() == Some(views)) {
        return Some(Removal::OwnView);
    }
    let here = || inventory.copies.iter().filter(|copy| copy.directories().any(|place| place == directory));
    if here().any(|copy| copy.origin == Origin::Stub) {
        return Some(Removal::Stubs);
    }
    let kernel = inventory.driver.as_ref()?.version;
    let file = inventory
        .file_in(directory, "libcuda.so.1")
        .or_else(|| inventory.file_in(directory, "libcuda.so"))?;
    if driver.is_some_and(|driver| driver.has_file(file)) {
        return None;
    }
    let version = here().find(|copy| copy.has_file(file)).and_then(|copy| copy.version);
    Some(Removal::OtherDriver { version, kernel })
}

/// What the loader takes for a name in the environment as planned, the view left out.
fn given(name: &str, library_path: &[Kept], inventory: &Inventory) -> Option<FileId> {
    let kept =
        library_path.iter().zip(&inventory.search.library_path).filter(|(kept, _)| kept.removed.is_none());
    let in_path =
        kept.filter_map(|(_, element)| element.directory.as_ref()).find_map(|d| inventory.file_in(d, name));
    in_path.or_else(|| inventory.file_by_default(name))
}

/// The names of the driver's that somebody will ask for.
fn driver_names(solution: &Solution<'_>, target: &Target) -> BTreeSet<String> {
    let mut names = BTreeSet::from(["libcuda.so.1".to_owned()]);
    let opened = solution.filled.iter().flat_map(|filled| {
        let family = catalog().family(&filled.copy.family);
        family.map_or(&[][..], |family| family.opens_bare(filled.copy.soname.unwrap_or(0)))
    });
    let written = target.requirements.iter().filter_map(super::asked_name).map(str::to_owned);
    let of_driver =
        |name: &String| catalog().family_of(name).is_some_and(|(family, _)| family.name == "driver");
    let offered = |name: &String| solution.filled.iter().any(|filled| filled.copy.offers(name));
    names.extend(written.chain(opened.cloned()).filter(of_driver).filter(offered));
    names
}

/// Members that a picked family does not have and that another copy would supply: an empty file of that
/// name ends the search. Never a name that something is linked against: for that it would be fatal.
fn tombstones(solution: &Solution<'_>, inventory: &Inventory, target: &Target) -> Vec<String> {
    let mut names = BTreeSet::new();
    for filled in &solution.filled {
        let copy = filled.copy;
        let opens_own = catalog().family(&copy.family).is_some_and(|family| family.opens_own);
        if !opens_own || copy.family == "driver" {
            continue;
        }
        let others = inventory.copies.iter().filter(|other| {
            other.family == copy.family && other.soname == copy.soname && other.origin != Origin::Bundled
        });
        for member in
            others.flat_map(|other| &other.files).filter(|member| copy.member(&member.stem).is_none())
        {
            names.extend(member.view_names(copy.version));
        }
    }
    for slot in &solution.blocked {
        names.extend(slot.names());
    }
    let linked = |name: &String| {
        target.requirements.iter().any(|r| r.need == Need::Linked && super::asked_name(r) == Some(name))
            || solution
                .filled
                .iter()
                .any(|filled| filled.copy.files.iter().any(|member| member.needed.contains(name)))
    };
    let offered = |name: &String| solution.filled.iter().any(|filled| filled.copy.offers(name));
    names.into_iter().filter(|name| !linked(name) && !offered(name)).collect()
}

/// One entry a family.
pub(super) fn merged(absent: Vec<Absent>) -> Vec<Absent> {
    let mut merged: Vec<Absent> = Vec::new();
    for missing in absent {
        match merged.iter_mut().find(|known| known.family == missing.family) {
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

fn askers(filled: &Filled<'_>) -> Vec<Asker> {
    let mut askers: Vec<Asker> =
        filled.slot.requirements.iter().map(|requirement| requirement.by.clone()).collect();
    askers.sort();
    askers.dedup_by(|a, b| a.name == b.name);
    askers
}

/// Copies of another SONAME were never meant, and say nothing about the pick.
fn relevant(filled: &Filled<'_>) -> Vec<Rejection> {
    filled.rejected.clone()
}
