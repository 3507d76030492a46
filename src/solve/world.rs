//! What every part of a decision looks at: the machine, what is asked, what the caller wants.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::{Policy, gpus};
use crate::catalog::Family;
use crate::inventory::{Installation, Inventory};
use crate::program::{Condition, Demand, Program, Requirement};
use crate::version::ComputeCapability;

pub(super) struct World<'a> {
    pub inventory: &'a Inventory,
    pub program: &'a Program,
    pub policy: &'a Policy,
    /// What the program asks for; a part of it where a contradiction is looked for.
    pub requirements: Vec<&'a Requirement>,
    /// The conditions that the picks themselves must satisfy.
    pub of_picks: Vec<&'a Condition>,
    /// The installations of each family.
    pub installations: Rc<BTreeMap<&'a str, Vec<&'a Installation>>>,
    /// The compute capabilities for which every library must have code.
    pub gpus: Vec<ComputeCapability>,
}

impl<'a> World<'a> {
    pub(super) fn new(inventory: &'a Inventory, program: &'a Program, policy: &'a Policy) -> World<'a> {
        let mut installations: BTreeMap<&str, Vec<&Installation>> = BTreeMap::new();
        for installation in &inventory.installations {
            installations.entry(installation.family.as_str()).or_default().push(installation);
        }
        let is_of_picks = |condition: &&Condition| matches!(condition.demand, Demand::Cuda(_));
        World {
            inventory,
            program,
            policy,
            requirements: program.requirements.iter().collect(),
            of_picks: program.conditions.iter().filter(is_of_picks).collect(),
            installations: Rc::new(installations),
            gpus: gpus::that_count(inventory, program),
        }
    }

    /// What is asked of a family.
    pub(super) fn of_family(&self, family: &Family) -> impl Iterator<Item = &'a Requirement> {
        let name = family.name.as_str();
        self.requirements.iter().copied().filter(move |requirement| requirement.family == name)
    }

    /// The same, were nothing else asked.
    pub(super) fn with_only(
        &self,
        requirements: Vec<&'a Requirement>,
        of_picks: Vec<&'a Condition>,
    ) -> World<'a> {
        World {
            requirements,
            of_picks,
            installations: self.installations.clone(),
            gpus: self.gpus.clone(),
            ..*self
        }
    }
}
