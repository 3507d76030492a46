//! Explains why there is no solution.

use std::collections::BTreeSet;

use super::constraints::forced_by;
use super::contradiction::{self, ContradictionPart};
use super::machine::Broken;
use super::outcome::{Conflict, Contradiction, ForcedCopy, Summary, Unmet};
use super::search::{self, DeadEnd};
use super::slots;
use super::world::World;
use crate::inventory::Inventory;
use crate::requirements::{LibraryRequirement, Requirement};

/// The conflict of requirements, each of which cannot be met even by itself.
pub(super) fn each_unmet(unmet: Vec<Unmet>, broken: Vec<Broken>, world: &World<'_>) -> Conflict {
    let mut contradictions = Vec::new();
    for missing in &unmet {
        let mut suspects = contradiction::parts(world);
        suspects.retain(|part| contradiction::concerns(part, |family| family == missing.family));
        contradictions.push(contradiction_of(&contradiction::smallest(suspects, world)));
    }
    for broken in &broken {
        let requirement = Requirement::Machine(broken.condition.clone());
        contradictions.push(contradiction_of(&[vec![&requirement]]));
    }
    conflict(unmet, broken, contradictions, world)
}

/// The conflict of requirements that can be met one by one and not together: the smallest part of them that has
/// no solution.
pub(super) fn together_unmet(dead_end: DeadEnd, world: &World<'_>) -> Conflict {
    let mut suspects = contradiction::parts(world);
    suspects
        .retain(|part| contradiction::concerns(part, |family| dead_end.families.contains(family)));
    let core = contradiction::smallest(suspects, world);
    let smaller = contradiction::only(&core, world);
    let unmet = match slots::slots(&smaller) {
        Err(unmet) => unmet,
        Ok(slots) => match search::best(slots.to_fill, &smaller) {
            Err(DeadEnd { unmet, .. }) => unmet,
            // The search over the whole had reached its limit of steps.
            Ok(_) => dead_end.unmet,
        },
    };
    conflict(unmet, Vec::new(), vec![contradiction_of(&core)], world)
}

fn contradiction_of(core: &[ContradictionPart<'_>]) -> Contradiction {
    Contradiction {
        members: core.iter().map(contradiction::side).collect(),
    }
}

fn conflict(
    mut unmet: Vec<Unmet>,
    broken: Vec<Broken>,
    contradictions: Vec<Contradiction>,
    world: &World<'_>,
) -> Conflict {
    for missing in &mut unmet {
        missing.forced = forced_copies(&missing.requirements, world.inventory);
        missing
            .candidates
            .sort_by_key(|candidate| !candidate.is_of_concern());
    }
    Conflict {
        unmet,
        broken,
        contradictions,
        ..Conflict::default()
    }
}

/// The installations that the loader takes whatever we set, with the askers and the rules that lead to each.
fn forced_copies(requirements: &[LibraryRequirement], inventory: &Inventory) -> Vec<ForcedCopy> {
    let mut copies: Vec<ForcedCopy> = Vec::new();
    for requirement in requirements {
        let Some(forced) = forced_by(requirement, inventory) else {
            continue;
        };
        let Some(installation) = inventory.installation_of(forced.file) else {
            continue;
        };
        let rules = requirement
            .search_first
            .iter()
            .filter(|first| installation.is_in(&first.directory))
            .map(|first| first.rule);
        let (summary, by) = (Summary::of(installation), requirement.by.name.clone());
        match copies.iter_mut().find(|copy| copy.installation == summary) {
            Some(copy) => {
                copy.rules.extend(rules);
                copy.by.insert(by);
            }
            None => {
                let (rules, by) = (rules.collect(), BTreeSet::from([by]));
                copies.push(ForcedCopy {
                    installation: summary,
                    rules,
                    by,
                });
            }
        }
    }
    copies
}
