//! The input of every stage: the machine, the requirements, the caller's wishes.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::outcome::Policy;
use crate::catalog::Family;
use crate::formats::fatbin::Architecture;
use crate::inventory::{Installation, Inventory, Origin};
use crate::program::{Asker, Condition, Demand, ImportCertainty, Need, Program, Requirement};
use crate::version::ComputeCapability;

pub(super) struct World<'a> {
    pub inventory: &'a Inventory,
    pub program: &'a Program,
    pub policy: &'a Policy,
    /// All requirements of the program; a part of them during the search for a contradiction.
    pub requirements: Vec<&'a Requirement>,
    /// The conditions that the picks themselves must satisfy.
    pub of_picks: Vec<&'a Condition>,
    /// The installations of each family.
    pub installations: Rc<BTreeMap<&'a str, Vec<&'a Installation>>>,
    /// The compute capabilities for which every library must have code: those of the visible GPUs, but not of one
    /// that the program's own code leaves out.
    pub gpus: Vec<ComputeCapability>,
    /// Installations that are not here yet.
    pub offers: &'a [Installation],
    /// Every requirement counts as on a machine with a GPU.
    pub assumes_gpu: bool,
}

impl<'a> World<'a> {
    pub(super) fn new(
        inventory: &'a Inventory,
        program: &'a Program,
        policy: &'a Policy,
    ) -> World<'a> {
        let mut installations: BTreeMap<&str, Vec<&Installation>> = BTreeMap::new();
        for installation in &inventory.installations {
            installations
                .entry(installation.family.as_str())
                .or_default()
                .push(installation);
        }
        let own: Vec<&BTreeSet<Architecture>> =
            program.conditions.iter().filter_map(own_code).collect();
        let mut gpus: BTreeSet<ComputeCapability> = inventory.capabilities().collect();
        gpus.retain(|gpu| own.is_empty() || own.iter().any(|code| serves(code, *gpu)));
        let of_picks = program
            .conditions
            .iter()
            .filter(|condition| matches!(condition.demand, Demand::Cuda(_)));
        World {
            inventory,
            program,
            policy,
            requirements: program.requirements.iter().collect(),
            of_picks: of_picks.collect(),
            installations: Rc::new(installations),
            gpus: gpus.into_iter().collect(),
            offers: &[],
            assumes_gpu: false,
        }
    }

    /// Adds installations that are not here yet: they are picked only where nothing else fits.
    pub(super) fn with_offers(mut self, offers: &'a [Installation]) -> World<'a> {
        let installations = Rc::make_mut(&mut self.installations);
        for offer in offers {
            installations
                .entry(offer.family.as_str())
                .or_default()
                .push(offer);
        }
        World { offers, ..self }
    }

    pub(super) fn is_offer(&self, installation: &Installation) -> bool {
        self.offers
            .iter()
            .any(|offer| std::ptr::eq(offer, installation))
    }

    pub(super) fn installations_of(
        &self,
        family: &Family,
    ) -> impl Iterator<Item = &'a Installation> {
        self.installations
            .get(family.name.as_str())
            .into_iter()
            .flatten()
            .copied()
    }

    pub(super) fn requirements_of(&self, family: &Family) -> impl Iterator<Item = &'a Requirement> {
        let name = family.name.as_str();
        self.requirements
            .iter()
            .copied()
            .filter(move |requirement| requirement.family == name)
    }

    /// Returns the CUDA major that all required libraries agree on, or else all requirements, and one asker of it. Most
    /// SONAMEs name a CUDA, that of cuDNN does not.
    pub(super) fn agreed_cuda(&self) -> Option<(u32, &'a Asker)> {
        let is_known = |one: &Requirement| one.by.standing == ImportCertainty::Imported;
        let kinds: [&dyn Fn(&Requirement) -> bool; 3] = [
            &|one| is_known(one) && one.need < Need::Named,
            &is_known,
            &|_| true,
        ];
        kinds.into_iter().find_map(|is_of_kind| {
            let cudas: BTreeMap<u32, &Asker> = self
                .requirements
                .iter()
                .filter(|one| is_of_kind(one))
                .filter_map(|one| Some((one.by.cuda.or_else(|| one.cuda_of_name())?, &one.by)))
                .collect();
            (cudas.len() == 1).then(|| cudas.into_iter().next())?
        })
    }

    /// Returns the CUDA major that all wheels of NVIDIA's in the program's Python environment are for.
    pub(super) fn cuda_of_wheels(&self) -> Option<u32> {
        let wheels =
            self.inventory.installations.iter().filter(|one| {
                one.origin == Origin::Wheel && self.program.is_in_site(&one.directory)
            });
        let cudas: BTreeSet<u32> = wheels.filter_map(|one| one.cuda).collect();
        (cudas.len() == 1).then(|| cudas.into_iter().next())?
    }

    /// Returns this world with [`World::assumes_gpu`].
    pub(super) fn assuming_gpu(&self) -> World<'a> {
        World {
            assumes_gpu: true,
            ..self.with_only(self.requirements.clone(), self.of_picks.clone())
        }
    }

    /// Returns this world with these requirements and conditions alone.
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

/// Returns the architectures that the asker's own files have code for, if the condition is about them.
pub(super) fn own_code(condition: &Condition) -> Option<&BTreeSet<Architecture>> {
    match &condition.demand {
        Demand::Code(code) => Some(code),
        _ => None,
    }
}

pub(super) fn serves(code: &BTreeSet<Architecture>, gpu: ComputeCapability) -> bool {
    code.iter().any(|architecture| architecture.serves(gpu))
}
