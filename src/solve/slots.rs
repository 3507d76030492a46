//! Sorts requirements into slots, and fills each with the installations that fit it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::constraints;
use super::dependencies;
use super::outcome::{Absent, Rejection, Unmet};
use super::slot::{Blame, Candidate, Slot, Strictness};
use super::world::World;
use crate::catalog::{Family, GroupedBy, catalog};
use crate::inventory::Installation;
use crate::requirements::{
    Asker, EarlierDirectory, ImportCertainty, LibraryRequirement, Need, Want,
};

/// The slots of a program, each candidate judged by itself.
#[derive(Debug, Default)]
pub(super) struct Slots<'a> {
    pub to_fill: Vec<Slot<'a>>,
    /// Nothing is installed for these.
    pub absent: Vec<Absent>,
    /// Something is installed and does not fit, and the program may never ask for it.
    pub unpinned: Vec<Slot<'a>>,
}

/// The slots of the program. Fails with every slot that has requirements and no candidate.
pub(super) fn slots<'a>(world: &World<'a>) -> Result<Slots<'a>, Vec<Unmet>> {
    let (mut slots, mut empty) = (Slots::default(), Vec::new());
    for mut slot in group(world) {
        slot.fill(world);
        let mut split_off = Vec::new();
        for is_kept in slot.ways_to_split() {
            if slot.candidates.is_empty()
                && let Some((kept, rest)) = slot.split(is_kept, world)
            {
                split_off.push(rest);
                slot = kept;
            }
        }
        if slot.candidates.is_empty() {
            slot.accept_lazy(world);
        }
        if slot.candidates.is_empty() {
            slot.accept_older(world);
        } else {
            slots.unpinned.append(&mut split_off);
        }
        if slot.candidates.is_empty() {
            empty.push(slot);
        } else {
            slots.to_fill.push(slot);
        }
    }
    // Another SONAME replaces a name that is only tried. Guessed requirements never refuse a start, nor do libraries for
    // GPUs that are hidden on purpose or not there. What the user asks for always can.
    let mut unmet = Vec::new();
    for slot in empty {
        let is_asked_for = slot.is_last_for_person(slots.to_fill.iter());
        let something_is_here = slot.rejected.iter().any(Rejection::is_obstacle);
        let is_guess = !slot.requirements.iter().any(is_known);
        let has_another = slots
            .to_fill
            .iter()
            .any(|other| other.family.name == slot.family.name);
        let may_stay_empty = slot.strictness <= Strictness::Try
            && (is_guess || has_another || slot.is_without_gpu(world));
        if slot.strictness < Strictness::Must && !something_is_here && !is_asked_for {
            slots.leave(slot);
        } else if may_stay_empty && !is_asked_for {
            slots.unpinned.push(slot);
        } else {
            unmet.push(slot.unmet(slot.rejected.clone()));
        }
    }
    if unmet.is_empty() {
        Ok(slots)
    } else {
        Err(unmet)
    }
}

impl<'a> Slots<'a> {
    /// Leaves a slot empty: nothing is installed for it, or nothing that the loader can map.
    fn leave(&mut self, slot: Slot<'a>) {
        if slot.rejected.iter().any(Rejection::is_of_concern) {
            self.unpinned.push(slot);
        } else {
            self.absent.extend(slot.absent());
        }
    }
}

/// The position of a family in the catalog, and the number in the SONAME.
type SlotKey = (usize, Option<u32>);

type GroupedRequirements = BTreeMap<SlotKey, Vec<LibraryRequirement>>;

/// Unfilled slots: the driver first, since all else depends on it, then in the order of the catalog, the newer
/// major first; names that are only tried come last, with a GPU and without.
fn group<'a>(world: &World<'a>) -> Vec<Slot<'a>> {
    let families = &catalog().families;
    let has_gpu = world.inventory.has_gpu();
    let mut grouped = GroupedRequirements::new();
    let mut unnumbered = Vec::new();
    for requirement in world.library_requirements() {
        // Without a GPU the driver's libraries are left to the loader.
        if requirement.family == "driver" && !has_gpu && !requirement.is_pinned() {
            continue;
        }
        let Some(position) = families
            .iter()
            .position(|family| family.name == requirement.family)
        else {
            continue;
        };
        let family = &families[position];
        let soname = requirement.want.soname(family);
        if soname.is_none() && family.group == GroupedBy::Soname {
            unnumbered.push((position, requirement));
        } else {
            let group = grouped.entry((position, soname)).or_default();
            group.push(requirement.clone());
        }
    }
    for (position, requirement) in unnumbered {
        add_unnumbered(requirement, position, &mut grouped);
    }
    // A machine with a GPU always gets a slot for the driver.
    if has_gpu {
        grouped.entry((0, None)).or_default();
    }
    let mut slots = Vec::new();
    for ((position, soname), requirements) in grouped {
        if position == 0 || asks_for_family(&requirements) {
            let slot = Slot::of_program(&families[position], soname, requirements, world);
            slots.push((position, slot.ignoring_rpath(world.policy)));
        }
    }
    slots.sort_by_key(|(position, slot)| {
        (
            *position != 0,
            !slot.has_certain_asker(),
            *position,
            Reverse(slot.soname),
        )
    });
    slots.into_iter().map(|(_, slot)| slot).collect()
}

/// A name without a version, and a version without a name, belong to the names of the same asker; failing that to all names of
/// the family. A version alone does not ask for the family.
fn add_unnumbered(
    requirement: &LibraryRequirement,
    position: usize,
    grouped: &mut GroupedRequirements,
) {
    let (mut keys, mut keys_of_asker) = (Vec::new(), Vec::new());
    for (key, others) in grouped.range((position, None)..=(position, Some(u32::MAX))) {
        if asks_for_family(others) {
            keys.push(*key);
            if others
                .iter()
                .any(|other| other.by.name == requirement.by.name)
            {
                keys_of_asker.push(*key);
            }
        }
    }
    if !keys_of_asker.is_empty() {
        keys = keys_of_asker;
    }
    if keys.is_empty() && requirement.asks_for_family() {
        keys.push((position, None));
    }
    // The user's requirement need hold for only one of several names that a program tries.
    let is_any = keys.len() > 1 && requirement.is_by_person();
    for key in keys {
        let group = grouped.entry(key).or_default();
        let mut requirement = requirement.clone();
        if is_any
            && group
                .iter()
                .all(|other| !other.asks_for_family() || other.need == Need::Named)
        {
            requirement.need = Need::Named;
        }
        group.push(requirement);
    }
}

fn asks_for_family(requirements: &[LibraryRequirement]) -> bool {
    requirements.iter().any(LibraryRequirement::asks_for_family)
}

impl<'a> Slot<'a> {
    /// An empty slot: no installation is judged yet.
    fn new(
        family: &'static Family,
        soname: Option<u32>,
        requirements: Vec<LibraryRequirement>,
        strictness: Strictness,
        askers: BTreeSet<String>,
    ) -> Slot<'a> {
        Slot {
            family,
            soname,
            requirements,
            strictness,
            askers,
            because: Blame::new(),
            ignores_rpath: false,
            accepts_older: false,
            candidates: Vec::new(),
            rejected: Vec::new(),
        }
    }

    fn of_program(
        family: &'static Family,
        soname: Option<u32>,
        mut requirements: Vec<LibraryRequirement>,
        world: &World<'a>,
    ) -> Slot<'a> {
        // Search paths of a mere guess decide nothing where an asker is known.
        if has_known_asker(&requirements) {
            requirements
                .iter_mut()
                .filter(|requirement| !is_known(requirement))
                .for_each(|requirement| requirement.search_first.clear());
        }
        let strictness = strictest(&requirements, world).unwrap_or(Strictness::Should);
        let askers = askers(&requirements);
        Slot::new(family, soname, requirements, strictness, askers)
    }

    /// The slot of a library that a picked installation asks for by `name`, on behalf of `askers`.
    pub(super) fn of_dependency(
        name: &str,
        installation: &Installation,
        askers: &BTreeSet<String>,
        strictness: Strictness,
        search_first: Vec<EarlierDirectory>,
    ) -> Option<Slot<'a>> {
        let (family, _) = catalog().family_of(name)?;
        let by = Asker {
            name: installation.title(),
            file: installation.directory.clone(),
            line: None,
            cuda: installation.cuda,
            certainty: ImportCertainty::Possible,
        };
        let requirement = LibraryRequirement {
            family: family.name.clone(),
            want: Want::Name(name.to_owned()),
            need: if strictness == Strictness::Must {
                Need::Linked
            } else {
                Need::Used
            },
            by,
            search_first,
        };
        let soname = requirement.want.soname(family);
        let askers = askers
            .iter()
            .cloned()
            .chain([installation.title()])
            .collect();
        Some(Slot::new(
            family,
            soname,
            vec![requirement],
            strictness,
            askers,
        ))
    }

    /// The requirements that may be looked at alone if nothing fits all: those of known askers; and where the lack of a GPU
    /// excuses the rest, those of packages that do more than try the name.
    fn ways_to_split(&self) -> Vec<fn(&LibraryRequirement) -> bool> {
        let has_certain = self
            .requirements
            .iter()
            .any(|one| !one.is_by_person() && one.asks_for_family() && is_certain(one));
        if self.strictness == Strictness::Try && has_certain {
            vec![is_known, is_certain]
        } else {
            vec![is_known]
        }
    }

    /// Splits a slot in two: the filled slot of these requirements, and the rest. `None` if either would be empty.
    fn split(
        &self,
        is_kept: fn(&LibraryRequirement) -> bool,
        world: &World<'a>,
    ) -> Option<(Slot<'a>, Slot<'a>)> {
        let (kept, rest): (Vec<LibraryRequirement>, Vec<LibraryRequirement>) =
            self.requirements.iter().cloned().partition(is_kept);
        if rest.is_empty() || !asks_for_family(&kept) {
            return None;
        }
        let mut kept = self.with_only(kept, world);
        kept.fill(world);
        Some((kept, self.with_only(rest, world)))
    }

    fn with_only(&self, requirements: Vec<LibraryRequirement>, world: &World<'a>) -> Slot<'a> {
        Slot {
            strictness: strictest(&requirements, world).unwrap_or(Strictness::Try),
            askers: askers(&requirements),
            requirements,
            ..self.clone()
        }
    }

    /// Accepts installations without functions that a package looks up only when it calls them.
    fn accept_lazy(&mut self, world: &World<'a>) {
        let mut lazy = self.clone();
        lazy.requirements.retain(|one| !one.is_lazy());
        if lazy.requirements.len() < self.requirements.len() {
            lazy.fill(world);
            if !lazy.candidates.is_empty() {
                *self = lazy;
            }
        }
    }

    /// Accepts whole installations that are older than what packages were compiled with, where the loader could mix several
    /// and there is no GPU: the packages use the CPU then, and must only find libraries that can be loaded.
    fn accept_older(&mut self, world: &World<'a>) {
        let may_be_mixed = self.rejected.iter().filter(|one| one.is_obstacle()).count() > 1;
        if self.strictness == Strictness::Try && may_be_mixed && self.is_without_gpu(world) {
            let mut older = Slot {
                accepts_older: true,
                ..self.clone()
            };
            older
                .requirements
                .retain(|requirement| requirement.floor().is_none());
            older.fill(world);
            if !older.candidates.is_empty() {
                *self = older;
            }
        }
    }

    pub(super) fn has_certain_asker(&self) -> bool {
        self.requirements
            .iter()
            .any(|requirement| requirement.asks_for_family() && is_certain(requirement))
    }

    /// True if packages would use a GPU with the library, and there is none that they can use.
    fn is_without_gpu(&self, world: &World<'_>) -> bool {
        world.inventory.gpus_hidden || is_for_missing_gpu(&self.requirements, world)
    }

    /// True if the user asks for the library here, and in none of the other slots.
    pub(super) fn is_last_for_person<'s>(&self, others: impl Iterator<Item = &'s Slot<'a>>) -> bool
    where
        'a: 's,
    {
        let mut asked: Vec<&LibraryRequirement> = self
            .requirements
            .iter()
            .filter(|one| one.asks_for_family() && one.is_by_person())
            .collect();
        for slot in others {
            asked.retain(|one| {
                slot.requirements.iter().all(|other| {
                    (&other.family, &other.want, &other.by) != (&one.family, &one.want, &one.by)
                })
            });
        }
        !asked.is_empty()
    }

    /// This slot with the requirements of another, filled anew.
    pub(super) fn merged(mut self, other: Slot<'a>, world: &World<'a>) -> Slot<'a> {
        self.soname = self.soname.or(other.soname);
        self.requirements.extend(other.requirements);
        self.strictness = self.strictness.max(other.strictness);
        self.askers.extend(other.askers);
        self.because.extend(other.because);
        self.fill(world);
        self
    }

    /// Judges every installation of the family by the rules that concern it alone.
    pub(super) fn fill(&mut self, world: &World<'a>) {
        let forced = constraints::forced(&self.requirements, world.inventory);
        self.candidates.clear();
        self.rejected.clear();
        for installation in world.installations_of(self.family) {
            // Only a library that must be there is worth an installation.
            if self.strictness < Strictness::Should && world.is_offer(installation) {
                continue;
            }
            let mut reason = constraints::judge(self, installation, &forced, world);
            // For a library that must be there, the search explains what it lacks.
            if reason.is_none() && self.strictness != Strictness::Must {
                let names = self.names();
                reason = dependencies::unloadable(installation, &names, world, dependencies::DEPTH);
            }
            match reason {
                None => self.candidates.push(Candidate {
                    installation,
                    is_forced: !forced.is_empty(),
                }),
                Some(reason) => self.rejected.push(Rejection::new(installation, reason)),
            }
        }
    }
}

/// True if the program is known to use the asker.
fn is_known(requirement: &LibraryRequirement) -> bool {
    requirement.by.certainty == ImportCertainty::Imported
}

/// True for what the user asks for, and for what a certainly imported package needs and does not only try.
fn is_certain(requirement: &LibraryRequirement) -> bool {
    is_known(requirement) && (requirement.need < Need::Named || requirement.is_by_person())
}

fn has_known_asker(requirements: &[LibraryRequirement]) -> bool {
    requirements
        .iter()
        .any(|requirement| is_known(requirement) && requirement.asks_for_family())
}

/// The strictest of the requirements that ask for the family.
fn strictest(requirements: &[LibraryRequirement], world: &World<'_>) -> Option<Strictness> {
    requirements
        .iter()
        .filter(|requirement| requirement.asks_for_family())
        .map(|requirement| match requirement.need {
            Need::Linked => Strictness::Must,
            _ if world.inventory.gpus_hidden || is_for_missing_gpu(requirements, world) => {
                Strictness::Try
            }
            // A framework that silently uses the CPU is a fault where there is a GPU to use.
            Need::Essential if world.inventory.has_gpu() => Strictness::Must,
            Need::Essential | Need::Used => Strictness::Should,
            Need::Named => Strictness::Try,
        })
        .max()
}

/// True if packages would use a GPU with the library, and there is none: they use the CPU. A user who asks for the library
/// is taken at their word.
fn is_for_missing_gpu(requirements: &[LibraryRequirement], world: &World<'_>) -> bool {
    let Some(used) = requirements
        .iter()
        .find(|requirement| matches!(requirement.need, Need::Used | Need::Essential))
    else {
        return false;
    };
    // Those of the whole program, also where a part of them is tried.
    !world.assumes_gpu
        && world.inventory.is_without_gpu()
        && !world
            .program
            .library_requirements()
            .any(|other| other.is_by_person() && other.family == used.family)
}

/// The names of the askers, each once. Guesses count only where no asker is known, recorded versions never.
fn askers(requirements: &[LibraryRequirement]) -> BTreeSet<String> {
    let has_known = has_known_asker(requirements);
    requirements
        .iter()
        .filter(|r| (!has_known || is_known(r)) && !r.is_by_person() && !r.is_recorded())
        .map(|requirement| requirement.by.name.clone())
        .collect()
}
