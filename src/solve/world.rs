//! The input of every stage: the machine, the requirements, the caller's preferences.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::policy::Policy;
use crate::catalog::Family;
use crate::formats::fatbin::Architecture;
use crate::inventory::{Installation, Inventory, Origin};
use crate::program::Program;
use crate::requirements::{
    Asker, ImportCertainty, LibraryRequirement, MachineRequirement, Need, Requirement,
};
use crate::version::ComputeCapability;

pub(super) struct World<'a> {
    pub inventory: &'a Inventory,
    pub program: &'a Program,
    pub policy: &'a Policy,
    /// All that the program asks of the picks, libraries first; a part of it during the search for a contradiction.
    pub requirements: Vec<&'a Requirement>,
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
        let own: Vec<&BTreeSet<Architecture>> = program
            .machine_requirements()
            .filter_map(MachineRequirement::own_code)
            .collect();
        let mut gpus: BTreeSet<ComputeCapability> = inventory.capabilities().collect();
        gpus.retain(|gpu| own.is_empty() || own.iter().any(|code| serves(code, *gpu)));
        let (libraries, machine): (Vec<&Requirement>, Vec<&Requirement>) = program
            .requirements
            .iter()
            .partition(|requirement| requirement.library().is_some());
        let of_picks = machine.into_iter().filter(|requirement| {
            requirement
                .machine()
                .is_some_and(|one| one.cuda_of_picks().is_some())
        });
        World {
            inventory,
            program,
            policy,
            requirements: libraries.into_iter().chain(of_picks).collect(),
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

    pub(super) fn library_requirements(&self) -> impl Iterator<Item = &'a LibraryRequirement> {
        self.requirements
            .iter()
            .filter_map(|requirement| requirement.library())
    }

    pub(super) fn requirements_of(
        &self,
        family: &str,
    ) -> impl Iterator<Item = &'a LibraryRequirement> {
        self.library_requirements()
            .filter(move |requirement| requirement.family == family)
    }

    /// The CUDA major that all required libraries agree on, or else all requirements, and one asker of it. Most
    /// SONAMEs name a CUDA, that of cuDNN does not.
    pub(super) fn agreed_cuda(&self) -> Option<(u32, &'a Asker)> {
        let mut all = BTreeMap::new();
        let mut of_imported = BTreeMap::new();
        let mut of_required = BTreeMap::new();
        for requirement in self.library_requirements() {
            let asker = &requirement.by;
            let Some(cuda) = asker.cuda.or_else(|| requirement.cuda_of_name()) else {
                continue;
            };
            all.insert(cuda, asker);
            if asker.certainty == ImportCertainty::Imported {
                of_imported.insert(cuda, asker);
                if requirement.need < Need::Named {
                    of_required.insert(cuda, asker);
                }
            }
        }
        [of_required, of_imported, all]
            .into_iter()
            .find(|cudas| cudas.len() == 1)?
            .pop_first()
    }

    /// The CUDA major that all wheels of NVIDIA's in the program's Python environment are for.
    pub(super) fn cuda_of_wheels(&self) -> Option<u32> {
        let cudas: BTreeSet<u32> = self
            .inventory
            .installations
            .iter()
            .filter(|one| one.origin == Origin::Wheel && self.program.is_in_site(&one.directory))
            .filter_map(|one| one.cuda)
            .collect();
        let first = cudas.first().copied();
        first.filter(|_| cudas.len() == 1)
    }

    /// This world with [`World::assumes_gpu`].
    pub(super) fn assuming_gpu(&self) -> World<'a> {
        World {
            assumes_gpu: true,
            ..self.with_only(self.requirements.clone())
        }
    }

    /// This world with these requirements alone.
    pub(super) fn with_only(&self, requirements: Vec<&'a Requirement>) -> World<'a> {
        World {
            requirements,
            installations: self.installations.clone(),
            gpus: self.gpus.clone(),
            ..*self
        }
    }
}

pub(super) fn serves(code: &BTreeSet<Architecture>, gpu: ComputeCapability) -> bool {
    code.iter().any(|architecture| architecture.serves(gpu))
}
