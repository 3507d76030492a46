//! The smallest set of what is asked that cannot hold together: without any one of it there would be an answer.

use serde::Serialize;

use super::search;
use super::slots;
use super::world::World;
use crate::program::{Asker, Condition, Demand, Requirement, Want};

/// Things that exclude each other, given what is installed.
#[derive(Clone, Debug, Serialize)]
pub struct Contradiction {
    pub members: Vec<Member>,
}

/// One of them.
#[derive(Clone, Debug, Serialize)]
pub struct Member {
    pub by: Asker,
    /// What it is asked of; none where it is asked of the machine or of all libraries.
    pub family: Option<String>,
    pub wants: Vec<Want>,
    pub demand: Option<Demand>,
}

/// What stands or falls together: all that one asker wants of one family, or one thing that a person says.
#[derive(Clone, Debug)]
pub(super) enum Part<'a> {
    Asked(Vec<&'a Requirement>),
    Condition(&'a Condition),
}

pub(super) fn parts<'a>(world: &World<'a>) -> Vec<Part<'a>> {
    let mut asked: Vec<Vec<&'a Requirement>> = Vec::new();
    for requirement in world.requirements.iter().copied() {
        let is_same = |other: &&'a Requirement| {
            let goes_with = !requirement.is_by_person() && !other.is_by_person();
            goes_with && other.family == requirement.family && other.by.name == requirement.by.name
        };
        match asked.iter_mut().find(|part| part.first().is_some_and(is_same)) {
            Some(part) => part.push(requirement),
            None => asked.push(vec![requirement]),
        }
    }
    let conditions = world.of_picks.iter().map(|condition| Part::Condition(condition));
    asked.into_iter().map(Part::Asked).chain(conditions).collect()
}

impl Part<'_> {
    pub(super) fn is_of(&self, families: &dyn Fn(&str) -> bool) -> bool {
        match self {
            Part::Asked(requirements) => families(&requirements[0].family),
            Part::Condition(_) => true,
        }
    }

    pub(super) fn member(&self) -> Member {
        match self {
            Part::Asked(requirements) => Member {
                by: requirements[0].by.clone(),
                family: Some(requirements[0].family.clone()),
                wants: requirements.iter().map(|requirement| requirement.want.clone()).collect(),
                demand: None,
            },
            Part::Condition(condition) => Member {
                by: condition.by.clone(),
                family: None,
                wants: Vec::new(),
                demand: Some(condition.demand.clone()),
            },
        }
    }
}

/// The same question with these parts alone.
pub(super) fn only<'a>(parts: &[Part<'a>], world: &World<'a>) -> World<'a> {
    let requirements = parts.iter().flat_map(|part| match part {
        Part::Asked(requirements) => requirements.clone(),
        Part::Condition(_) => Vec::new(),
    });
    let of_picks = parts.iter().filter_map(|part| match part {
        Part::Condition(condition) => Some(*condition),
        Part::Asked(_) => None,
    });
    world.with_only(requirements.collect(), of_picks.collect())
}

/// The smallest part of `suspects` that has no answer; of all that is asked where the suspects have one.
pub(super) fn smallest<'a>(suspects: Vec<Part<'a>>, world: &World<'a>) -> Vec<Part<'a>> {
    let has_none = |parts: &[Part<'a>]| !has_answer(&only(parts, world));
    let all = if has_none(&suspects) { suspects } else { parts(world) };
    let mut core = if has_none(&[]) { Vec::new() } else { divide(&[], false, &all, &has_none) };
    // A part may stand in the way of another's being left out: what is still superfluous goes one by one.
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

/// Junker's QuickXplain: halves that are not needed go at once.
fn divide<'a>(
    base: &[Part<'a>],
    has_grown: bool,
    parts: &[Part<'a>],
    has_none: &dyn Fn(&[Part<'a>]) -> bool,
) -> Vec<Part<'a>> {
    if has_grown && has_none(base) {
        return Vec::new();
    }
    if parts.len() <= 1 {
        return parts.to_vec();
    }
    let (first, second) = parts.split_at(parts.len() / 2);
    let of_second = divide(&[base, first].concat(), !first.is_empty(), second, has_none);
    let of_first = divide(&[base, of_second.as_slice()].concat(), !of_second.is_empty(), first, has_none);
    [of_first, of_second].concat()
}

fn has_answer(world: &World<'_>) -> bool {
    slots::of(world).is_ok_and(|asked| search::best(asked.slots, world).is_ok())
}
