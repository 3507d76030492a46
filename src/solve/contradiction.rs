//! Finds the smallest set of requirements that has no solution: without any one of them there would be one.
//!
//! Members have two sizes: all that one object or package asks of one family is one member; each setting of the user is
//! one.

use super::outcome::ContradictionSide;
use super::search;
use super::slots;
use super::world::World;
use crate::program::{Condition, Requirement};

/// The smallest unit of a contradiction: all requirements of one asker for one family, or one setting of the user.
#[derive(Clone, Debug)]
pub(super) enum ContradictionPart<'a> {
    Requirements(Vec<&'a Requirement>),
    Condition(&'a Condition),
}

pub(super) fn parts<'a>(world: &World<'a>) -> Vec<ContradictionPart<'a>> {
    let mut requirements: Vec<Vec<&'a Requirement>> = Vec::new();
    for requirement in world.requirements.iter().copied() {
        let is_of_asker = |part: &&mut Vec<&'a Requirement>| {
            let are_recorded = !requirement.is_by_person() && !part[0].is_by_person();
            are_recorded
                && part[0].family == requirement.family
                && part[0].by.name == requirement.by.name
        };
        match requirements.iter_mut().find(is_of_asker) {
            Some(part) => part.push(requirement),
            None => requirements.push(vec![requirement]),
        }
    }
    let conditions = world
        .of_picks
        .iter()
        .map(|condition| ContradictionPart::Condition(condition));
    requirements
        .into_iter()
        .map(ContradictionPart::Requirements)
        .chain(conditions)
        .collect()
}

impl ContradictionPart<'_> {
    /// True for every condition, and for requirements of such a family.
    pub(super) fn concerns(&self, is_family: impl Fn(&str) -> bool) -> bool {
        match self {
            ContradictionPart::Requirements(requirements) => is_family(&requirements[0].family),
            ContradictionPart::Condition(_) => true,
        }
    }

    pub(super) fn member(&self) -> ContradictionSide {
        match self {
            ContradictionPart::Requirements(requirements) => ContradictionSide {
                by: requirements[0].by.clone(),
                family: Some(requirements[0].family.clone()),
                wants: requirements
                    .iter()
                    .map(|requirement| requirement.want.clone())
                    .collect(),
                demand: None,
            },
            ContradictionPart::Condition(condition) => ContradictionSide {
                by: condition.by.clone(),
                family: None,
                wants: Vec::new(),
                demand: Some(condition.demand.clone()),
            },
        }
    }
}

/// Returns the world with these parts alone.
pub(super) fn only<'a>(parts: &[ContradictionPart<'a>], world: &World<'a>) -> World<'a> {
    let (mut requirements, mut conditions) = (Vec::new(), Vec::new());
    for part in parts {
        match part {
            ContradictionPart::Requirements(part) => requirements.extend(part),
            ContradictionPart::Condition(condition) => conditions.push(*condition),
        }
    }
    world.with_only(requirements, conditions)
}

/// Returns the smallest subset of `suspects` that has no solution; of all parts, if the suspects have one.
pub(super) fn smallest<'a>(
    suspects: Vec<ContradictionPart<'a>>,
    world: &World<'a>,
) -> Vec<ContradictionPart<'a>> {
    let has_none = |parts: &[ContradictionPart<'a>]| !has_solution(&only(parts, world));
    let mut core = if has_none(&suspects) {
        suspects
    } else {
        parts(world)
    };
    let mut index = 0;
    while index < core.len() {
        let mut fewer = core.clone();
        fewer.remove(index);
        if has_none(&fewer) {
            core = fewer;
        } else {
            index += 1;
        }
    }
    core
}

pub(super) fn has_solution(world: &World<'_>) -> bool {
    slots::slots(world).is_ok_and(|slots| search::best(slots.to_fill, world).is_ok())
}
