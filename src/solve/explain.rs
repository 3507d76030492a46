//! From what could not be met to a conflict that a person can act on.

use super::constraints::forced_by;
use super::{Conflict, ForcedCopy, Hint, Reason, Summary, Unmet, asked_name};
use crate::catalog::catalog;
use crate::inventory::{Inventory, Origin};
use crate::target::{Before, First, Requirement, Standing, Target, Want};

/// Whether a copy was never meant: it does not matter that it does not fit.
pub(super) fn is_of_no_concern(reason: &Reason) -> bool {
    matches!(reason, Reason::OtherName { .. } | Reason::Renamed | Reason::Stub)
}

pub(super) fn conflict(mut unmet: Vec<Unmet>, inventory: &Inventory, target: &Target) -> Conflict {
    for missing in &mut unmet {
        missing.forced = forced_copy(&missing.requirements, inventory);
        // What did not fit comes before what was never meant.
        missing.candidates.sort_by_key(|candidate| is_of_no_concern(&candidate.reason));
    }
    let hint = hint(&unmet, target);
    Conflict { unmet, hint }
}

/// The copy that is taken whatever we do, with every rule that leads to it.
fn forced_copy(requirements: &[Requirement], inventory: &Inventory) -> Option<ForcedCopy> {
    let file = requirements.iter().find_map(|requirement| forced_by(requirement, inventory))?.file;
    let copy = inventory.copies.iter().find(|copy| copy.has_file(file))?;
    let leads_there = |first: &&First| copy.directories().any(|directory| directory == first.directory);
    let all = requirements.iter().filter(|r| asked_name(r).is_some()).flat_map(|r| &r.search_first);
    let mut rules: Vec<Before> = all.filter(leads_there).map(|first| first.rule).collect();
    rules.sort();
    rules.dedup();
    Some(ForcedCopy { copy: Summary::of(copy), rules })
}

fn hint(unmet: &[Unmet], target: &Target) -> Option<Hint> {
    let reasons =
        || unmet.iter().flat_map(|missing| &missing.candidates).map(|candidate| deepest(&candidate.reason));
    let floor = reasons().find_map(|reason| match reason {
        Reason::DriverTooOld { floor, .. } => Some(*floor),
        _ => None,
    });
    let fits_otherwise = |missing: &Unmet| {
        missing
            .candidates
            .iter()
            .any(|candidate| matches!(deepest(&candidate.reason), Reason::DriverTooOld { .. }))
    };
    if let Some(floor) = floor.filter(|_| unmet.iter().all(fits_otherwise)) {
        return Some(Hint::UpdateDriver { floor });
    }
    if unmet.iter().any(|missing| missing.family == "driver") {
        return Some(Hint::InstallDriver);
    }
    let contradicting = contradicting_packages(unmet);
    if contradicting.len() > 1 {
        return Some(Hint::NamePackages { packages: contradicting });
    }
    let is_python = !target.site_packages.is_empty();
    let mut wheels = Vec::new();
    let mut packages = Vec::new();
    for missing in unmet {
        let family = catalog().family(&missing.family)?;
        let cuda = cuda_major(missing);
        if let Some(wheel) = family.wheel(cuda) {
            wheels.push(format!("{wheel}{}", versions(missing)));
        }
        let soname = missing.requirements.iter().find_map(|r| match r.want {
            Want::AtLeast(version) | Want::Exactly(version) => Some(version.major()),
            _ => None,
        });
        packages.extend(family.apt(cuda, soname.unwrap_or(9)));
    }
    if is_python && !wheels.is_empty() {
        let reinstall = unmet.iter().any(has_broken_wheel);
        Some(Hint::Pip { requirements: wheels, reinstall })
    } else if !packages.is_empty() {
        Some(Hint::Apt { packages })
    } else {
        None
    }
}

/// Whether a wheel of it is installed and has lost some of its files.
fn has_broken_wheel(missing: &Unmet) -> bool {
    let is_broken = |reason: &Reason| {
        matches!(reason, Reason::Incomplete { .. } | Reason::Mixed { .. } | Reason::Truncated { .. })
    };
    missing
        .candidates
        .iter()
        .any(|candidate| candidate.copy.origin == Origin::Wheel && is_broken(&candidate.reason))
}

/// In pip's grammar, what would satisfy all that asks for a version: what upstream tested with, if it
/// is written down.
fn versions(missing: &Unmet) -> String {
    for requirement in &missing.requirements {
        if let Want::Exactly(version) = requirement.want {
            return format!("=={}.*", version.truncated(3));
        }
    }
    let recorded = missing.requirements.iter().find_map(|requirement| match requirement.want {
        Want::Recorded(version) => Some(version),
        _ => None,
    });
    if let Some(version) = recorded {
        return format!("=={version}");
    }
    let floors = missing.requirements.iter().filter_map(|requirement| match requirement.want {
        Want::AtLeast(version) => Some(version),
        _ => None,
    });
    match floors.max() {
        Some(floor) => format!(">={},<{}", floor.truncated(2), floor.major() + 1),
        None => String::new(),
    }
}

/// The CUDA major that would fit: what an asker was built for, else what stands in the way already has.
fn cuda_major(missing: &Unmet) -> u32 {
    let of_asker = missing.requirements.iter().find_map(|requirement| requirement.by.cuda);
    let of_name = missing.requirements.iter().find_map(|requirement| match &requirement.want {
        Want::Name(name) => {
            let (family, _) = catalog().family_of(name)?;
            family.cuda_of_suffix(crate::formats::names::split(name)?.1)
        }
        _ => None,
    });
    let of_copy = missing.candidates.iter().find_map(|candidate| candidate.copy.cuda);
    of_asker.or(of_name).or(of_copy).unwrap_or(12)
}

/// Packages that are only installed and want what excludes each other.
fn contradicting_packages(unmet: &[Unmet]) -> Vec<String> {
    let mut packages: Vec<String> = unmet
        .iter()
        .flat_map(|missing| &missing.candidates)
        .filter_map(|candidate| match deepest(&candidate.reason) {
            Reason::OtherCuda { by, .. } | Reason::OtherMajor { by, .. } => Some(by.clone()),
            _ => None,
        })
        .collect();
    let guessed = unmet
        .iter()
        .flat_map(|missing| &missing.requirements)
        .filter(|r| r.by.standing != Standing::Imported);
    packages.extend(guessed.map(|requirement| requirement.by.name.clone()));
    packages.sort();
    packages.dedup();
    let is_guess = |name: &String| {
        let named = unmet.iter().flat_map(|missing| &missing.requirements).find(|r| r.by.name == *name);
        named.is_some_and(|requirement| requirement.by.standing != Standing::Imported)
    };
    packages.retain(is_guess);
    packages
}

fn deepest(reason: &Reason) -> &Reason {
    match reason {
        Reason::Clash { why, .. } => deepest(why),
        other => other,
    }
}
