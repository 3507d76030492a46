//! The shared types of the search.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::outcome::{Absent, Rejection, Unmet};
use super::policy::Policy;
use crate::catalog::Family;
use crate::inventory::Installation;
use crate::requirements::{Asker, LibraryRequirement, Need};

/// One family in one SONAME major, to be filled by one installation.
#[derive(Clone, Debug)]
pub(super) struct Slot<'a> {
    pub family: &'static Family,
    pub soname: Option<u32>,
    pub requirements: Vec<LibraryRequirement>,
    pub strictness: Strictness,
    /// Requesters, each of which needs all its libraries to be of one CUDA major.
    pub askers: BTreeSet<String>,
    /// The picks that led to this slot or made it stricter.
    pub because: Blame,
    /// A stronger mode than the view answers for the family before any search path.
    pub ignores_rpath: bool,
    /// Installations that are older than what packages were compiled with count as well.
    pub accepts_older: bool,
    pub candidates: Vec<Candidate<'a>>,
    pub rejected: Vec<Rejection>,
}

/// The consequence of a slot that stays empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Strictness {
    /// A library may open it: the slot stays empty where nothing fits.
    May,
    /// A program may try this name among others: the slot stays empty where nothing fits the other picks.
    Try,
    /// Only a fault if something is installed and does not fit.
    Should,
    Must,
}

/// An installation that satisfies every rule it must satisfy alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate<'a> {
    pub installation: &'a Installation,
    /// A search path makes the loader take it, whatever `LD_LIBRARY_PATH` says.
    pub is_forced: bool,
}

/// A slot that the search has filled.
#[derive(Clone, Debug)]
pub(super) struct Picked<'a> {
    pub slot: Rc<Slot<'a>>,
    pub installation: &'a Installation,
    pub is_forced: bool,
}

/// The picks that a dead end is due to, by their position: unless one of these changes, it comes again.
pub(super) type Blame = BTreeSet<usize>;

impl Slot<'_> {
    /// Drops all search paths that come first if a stronger mode answers for the family.
    pub(super) fn ignoring_rpath(mut self, policy: &Policy) -> Self {
        self.ignores_rpath = policy.ignore_rpath_of.contains(&self.family.name);
        if self.ignores_rpath {
            self.requirements
                .iter_mut()
                .for_each(|requirement| requirement.search_first.clear());
        }
        self
    }

    /// True if the slot may mean this installation.
    pub(super) fn concerns(&self, installation: &Installation) -> bool {
        installation.family == self.family.name
            && (self.soname.is_none()
                || installation.soname.is_none()
                || installation.soname == self.soname)
    }

    pub(super) fn unmet(&self, candidates: Vec<Rejection>) -> Unmet {
        Unmet {
            family: self.family.name.clone(),
            requirements: self.requirements.clone(),
            candidates,
            forced: Vec::new(),
        }
    }

    pub(super) fn absent(&self) -> Option<Absent> {
        let (names, asked_by) = (self.names(), self.asked_by());
        let essential = self
            .requirements
            .iter()
            .any(|requirement| requirement.need == Need::Essential);
        (!names.is_empty()).then(|| Absent {
            family: self.family.name.clone(),
            names,
            asked_by,
            essential,
        })
    }

    /// The names that requirements ask for, sorted, each once.
    pub(super) fn names(&self) -> Vec<String> {
        let names: BTreeSet<&str> = self
            .requirements
            .iter()
            .filter_map(LibraryRequirement::named)
            .collect();
        names.into_iter().map(str::to_owned).collect()
    }

    /// The askers, sorted, one of each name. A recorded version asks for nothing.
    pub(super) fn asked_by(&self) -> Vec<Asker> {
        let mut askers: Vec<Asker> = self
            .requirements
            .iter()
            .filter(|one| !one.is_recorded())
            .map(|requirement| requirement.by.clone())
            .collect();
        askers.sort();
        askers.dedup_by(|a, b| a.name == b.name);
        askers
    }
}
