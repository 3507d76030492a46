//! Finds the smallest set of requirements that has no solution: without any one of them there would be one.
//!
//! Members have two sizes: all that one object or package asks of one family is one member; each setting of the user is
//! one.

use super::outcome::ContradictionSide;
use super::search;
use super::slots;
use super::world::World;
use crate::requirements::Requirement;

/// The smallest unit of a contradiction: all requirements of one asker for one family, or one setting of the user.
pub(super) type ContradictionPart<'a> = Vec<&'a Requirement>;

pub(super) fn parts<'a>(world: &World<'a>) -> Vec<ContradictionPart<'a>> {
    let mut parts: Vec<ContradictionPart<'a>> = Vec::new();
    for requirement in world.requirements.iter().copied() {
        match parts
            .iter_mut()
            .find(|part| are_of_one_part(part[0], requirement))
        {
            Some(part) => part.push(requirement),
            None => parts.push(vec![requirement]),
        }
    }
    parts
}

/// True if two requirements come from one package or object, and ask for one family.
fn are_of_one_part(one: &Requirement, other: &Requirement) -> bool {
    let (Some(one), Some(other)) = (one.library(), other.library()) else {
        return false;
    };
    !one.is_by_person()
        && !other.is_by_person()
        && one.family == other.family
        && one.by.name == other.by.name
}

/// True if a part may decide about such a family: it asks for it, or for something of the whole set.
pub(super) fn concerns(part: &ContradictionPart<'_>, is_family: impl Fn(&str) -> bool) -> bool {
    match part[0] {
        Requirement::Library(requirement) => is_family(&requirement.family),
        Requirement::Machine(_) => true,
    }
}

pub(super) fn side(part: &ContradictionPart<'_>) -> ContradictionSide {
    ContradictionSide {
        by: part[0].asker().clone(),
        family: part[0].library().map(|one| one.family.clone()),
        wants: part
            .iter()
            .filter_map(|one| one.library())
            .map(|one| one.want.clone())
            .collect(),
        demand: part[0].machine().map(|one| one.demand.clone()),
    }
}

/// The world with these parts alone.
pub(super) fn only<'a>(parts: &[ContradictionPart<'a>], world: &World<'a>) -> World<'a> {
    world.with_only(parts.concat())
}

/// The smallest subset of `suspects` that has no solution; of all parts, if the suspects have one.
pub(super) fn smallest<'a>(
    suspects: Vec<ContradictionPart<'a>>,
    world: &World<'a>,
) -> Vec<ContradictionPart<'a>> {
    let mut core = if has_solution(&only(&suspects, world)) {
        parts(world)
    } else {
        suspects
    };
    let mut index = 0;
    while index < core.len() {
        let mut fewer = core.clone();
        fewer.remove(index);
        if has_solution(&only(&fewer, world)) {
            index += 1;
        } else {
            core = fewer;
        }
    }
    core
}

pub(super) fn has_solution(world: &World<'_>) -> bool {
    slots::slots(world).is_ok_and(|slots| search::best(slots.to_fill, world).is_ok())
}
