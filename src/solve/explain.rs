//! From what could not be met to a conflict that a person can understand.

use super::constraints::forced_by;
use super::{Conflict, ForcedCopy, Summary, Unmet, hints};
use crate::inventory::Inventory;
use crate::target::{First, Requirement, Target};

pub(super) fn conflict(mut unmet: Vec<Unmet>, inventory: &Inventory, target: &Target) -> Conflict {
    for missing in &mut unmet {
        missing.forced = forced_copies(&missing.requirements, inventory);
        // What did not fit comes before what was never meant.
        missing.candidates.sort_by_key(|candidate| !candidate.is_of_concern());
    }
    let hint = hints::hint(&unmet, inventory, target);
    Conflict { unmet, hint }
}

/// The copies that are taken whatever we do, with the askers and the rules that lead to each.
fn forced_copies(requirements: &[Requirement], inventory: &Inventory) -> Vec<ForcedCopy> {
    let mut found: Vec<ForcedCopy> = Vec::new();
    for requirement in requirements {
        let Some(file) = forced_by(requirement, inventory).map(|forced| forced.file) else { continue };
        let Some(copy) = inventory.copies.iter().find(|copy| copy.has_file(file)) else { continue };
        let leads_there = |first: &&First| copy.directories().any(|place| place == first.directory);
        let rules = requirement.search_first.iter().filter(leads_there).map(|first| first.rule);
        let summary = Summary::of(copy);
        let known = found.iter().position(|forced| forced.copy == summary).unwrap_or_else(|| {
            found.push(ForcedCopy { copy: summary, rules: Vec::new(), by: Vec::new() });
            found.len() - 1
        });
        found[known].rules.extend(rules);
        found[known].by.push(requirement.by.name.clone());
    }
    for forced in &mut found {
        forced.rules.sort();
        forced.rules.dedup();
        forced.by.sort();
        forced.by.dedup();
    }
    found
}
