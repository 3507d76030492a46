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
use crate::program::{Asker, EarlierDirectory, ImportCertainty, LibraryRequirement, Need, Want};

/// The slots of a program, each candidate judged by itself.
#[derive(Debug, Default)]
pub(super) struct Slots<'a> {
    pub to_fill: Vec<Slot<'a>>,
    /// Nothing is installed for these.
    pub absent: Vec<Absent>,
    /// Something is installed and does not fit, and the program may never ask for it.
    pub unpinned: Vec<Slot<'a>>,
}

/// Returns the slots of the program. Fails with every slot that has requirements and no candidate.
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

/// Returns unfilled slots: the driver first, since all else depends on it, then in the order of the catalog, the newer
/// major first; names that are only tried come last, with a GPU and without.
fn group<'a>(world: &World<'a>) -> Vec<Slot<'a>> {
    let families = &catalog().families;
    let has_gpu = world.inventory.has_gpu();
    // By position of the family in the catalog, and number in the SONAME.
    let mut by_key: BTreeMap<(usize, Option<u32>), Vec<LibraryRequirement>> = BTreeMap::new();
    let mut unkeyed = Vec::new();
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
        let requirement = requirement.clone();
        match (
            families[position].group,
            requirement.want.soname(&families[position]),
        ) {
            (GroupedBy::Soname, None) => unkeyed.push((position, requirement)),
            (_, soname) => by_key
                .entry((position, soname))
                .or_default()
                .push(requirement),
        }
    }
    // A name without a version, and a version without a name, belong to the names of the same asker; failing that to
    // all names of the family. A version alone is no wish to have the family.
    for (position, requirement) in unkeyed {
        let is_wished = |key: &(usize, Option<u32>)| {
            by_key[key].iter().any(LibraryRequirement::asks_for_family)
        };
        let mut keys: Vec<_> = by_key
            .keys()
            .copied()
            .filter(|key| key.0 == position && is_wished(key))
            .collect();
        let is_of_asker = |key: &(usize, Option<u32>)| {
            by_key[key].iter().any(|r| r.by.name == requirement.by.name)
        };
        if keys.iter().any(is_of_asker) {
            keys.retain(is_of_asker);
        }
        if keys.is_empty() && requirement.asks_for_family() {
            by_key
                .entry((position, None))
                .or_default()
                .push(requirement);
            continue;
        }
        // The user's requirement need hold for only one of several names that a program tries.
        let is_any = keys.len() > 1 && requirement.is_by_person();
        for key in keys {
            let slot = by_key.entry(key).or_default();
            let is_tried = is_any
                && slot
                    .iter()
                    .all(|other| !other.asks_for_family() || other.need == Need::Named);
            let need = if is_tried {
                Need::Named
            } else {
                requirement.need
            };
            slot.push(LibraryRequirement {
                need,
                ..requirement.clone()
            });
        }
    }
    // A machine with a GPU always gets a slot for the driver.
    if has_gpu {
        by_key.entry((0, None)).or_default();
    }
    let mut slots: Vec<(usize, Slot<'a>)> = by_key
        .into_iter()
        .filter(|((position, _), requirements)| {
            *position == 0 || requirements.iter().any(LibraryRequirement::asks_for_family)
        })
        .map(|((position, soname), requirements)| {
            let slot = Slot::of_program(&families[position], soname, requirements, world);
            (position, slot.ignoring_rpath(world.policy))
        })
        .collect();
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

    /// Returns the slot of a library that a picked installation asks for by `name`, on behalf of `askers`.
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
            standing: ImportCertainty::Possible,
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
            .filter(|one| !one.is_by_person())
            .any(|one| one.asks_for_family() && is_certain(one));
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
        if rest.is_empty() || !kept.iter().any(LibraryRequirement::asks_for_family) {
            return None;
        }
        let with = |requirements: Vec<LibraryRequirement>| {
            let strictness = strictest(&requirements, world).unwrap_or(Strictness::Try);
            Slot {
                strictness,
                askers: askers(&requirements),
                requirements,
                ..self.clone()
            }
        };
        let (mut kept, rest) = (with(kept), with(rest));
        kept.fill(world);
        Some((kept, rest))
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
    pub(super) fn is_last_for_person<'s>(
        &self,
        mut others: impl Iterator<Item = &'s Slot<'a>>,
    ) -> bool
    where
        'a: 's,
    {
        let asks = |slot: &Slot<'_>, one: &LibraryRequirement| {
            slot.requirements.iter().any(|other| {
                (&other.family, &other.want, &other.by) == (&one.family, &one.want, &one.by)
            })
        };
        let mut asked: Vec<&LibraryRequirement> = self
            .requirements
            .iter()
            .filter(|one| one.asks_for_family() && one.is_by_person())
            .collect();
        while let Some(other) = others.next().filter(|_| !asked.is_empty()) {
            asked.retain(|one| !asks(other, one));
        }
        !asked.is_empty()
    }

    /// Returns this slot with the requirements of another, filled anew.
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
        // Only a library that must be there is worth an installation.
        for installation in world.installations_of(self.family).filter(|installation| {
            self.strictness >= Strictness::Should || !world.is_offer(installation)
        }) {
            // For a library that must be there, the search explains what it lacks.
            let unloadable = || match self.strictness {
                Strictness::Must => None,
                _ => dependencies::unloadable(
                    installation,
                    &self.names(),
                    world,
                    dependencies::DEPTH,
                ),
            };
            match constraints::judge(self, installation, &forced, world).or_else(unloadable) {
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
    requirement.by.standing == ImportCertainty::Imported
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

/// Returns the strictest of the requirements that ask for the family.
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

/// Returns the names of the askers, each once. Guesses count only where no asker is known, recorded versions never.
fn askers(requirements: &[LibraryRequirement]) -> BTreeSet<String> {
    let has_known = has_known_asker(requirements);
    requirements
        .iter()
        .filter(|r| (!has_known || is_known(r)) && !r.is_by_person() && !r.is_recorded())
        .map(|requirement| requirement.by.name.clone())
        .collect()
}
