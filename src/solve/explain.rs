//! From what could not be met to a conflict that a person can understand.

use super::constraints::forced_by;
use super::contradiction::{self, Contradiction, Part};
use super::search::{self, DeadEnd};
use super::slots;
use super::world::World;
use super::{Broken, Conflict, ForcedCopy, Summary, Unmet, hints};
use crate::inventory::Inventory;
use crate::program::{First, Requirement};

/// Each of these has no answer, whatever else is asked.
pub(super) fn apart(unmet: Vec<Unmet>, broken: Vec<Broken>, world: &World<'_>) -> Conflict {
    let of_family = |unmet: &Unmet| {
        let family = unmet.family.clone();
        let suspects =
            contradiction::parts(world).into_iter().filter(|part| part.is_of(&|other| other == family));
        contradiction(&contradiction::smallest(suspects.collect(), world))
    };
    let mut contradictions: Vec<Contradiction> = unmet.iter().map(of_family).collect();
    contradictions.extend(broken.iter().map(|broken| {
        let member = Part::Condition(&broken.condition).member();
        Contradiction { members: vec![member] }
    }));
    conflict(unmet, broken, contradictions, world)
}

/// Each has an answer, and all of them have none: what is told is the smallest part that has none.
pub(super) fn together(dead_end: DeadEnd, world: &World<'_>) -> Conflict {
    if dead_end.is_exhausted {
        return Conflict { is_exhausted: true, ..Conflict::default() };
    }
    let is_suspect = |family: &str| dead_end.families.contains(family);
    let suspects = contradiction::parts(world).into_iter().filter(|part| part.is_of(&is_suspect));
    let core = contradiction::smallest(suspects.collect(), world);
    let smaller = contradiction::only(&core, world);
    let unmet = match slots::of(&smaller) {
        Err(unmet) => unmet,
        Ok(asked) => match search::best(asked.slots, &smaller) {
            Err(DeadEnd { unmet, .. }) => unmet,
            // More was tried for this one than could be for the whole.
            Ok(_) => dead_end.unmet,
        },
    };
    conflict(unmet, Vec::new(), vec![contradiction(&core)], world)
}

fn contradiction(core: &[Part<'_>]) -> Contradiction {
    Contradiction { members: core.iter().map(Part::member).collect() }
}

fn conflict(
    mut unmet: Vec<Unmet>,
    broken: Vec<Broken>,
    contradictions: Vec<Contradiction>,
    world: &World<'_>,
) -> Conflict {
    for missing in &mut unmet {
        missing.forced = forced_copies(&missing.requirements, world.inventory);
        // What did not fit comes before what was never meant.
        missing.candidates.sort_by_key(|candidate| !candidate.is_of_concern());
    }
    let hint = hints::hint(&unmet, &broken, &contradictions, world);
    Conflict { unmet, broken, contradictions, hint, is_exhausted: false }
}

/// The installations that are taken whatever we do, with the askers and the rules that lead to each.
fn forced_copies(requirements: &[Requirement], inventory: &Inventory) -> Vec<ForcedCopy> {
    let mut found: Vec<ForcedCopy> = Vec::new();
    for requirement in requirements {
        let Some(file) = forced_by(requirement, inventory).map(|forced| forced.file) else { continue };
        let Some(installation) =
            inventory.installations.iter().find(|installation| installation.has_file(file))
        else {
            continue;
        };
        let leads_there = |first: &&First| installation.directories().any(|place| place == first.directory);
        let rules = requirement.search_first.iter().filter(leads_there).map(|first| first.rule);
        let summary = Summary::of(installation);
        let known = found.iter().position(|forced| forced.installation == summary).unwrap_or_else(|| {
            found.push(ForcedCopy { installation: summary, rules: Vec::new(), by: Vec::new() });
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
