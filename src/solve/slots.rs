//! Requirements sorted into slots: one family in one SONAME major, to be filled by one installation.

use std::collections::BTreeMap;

use super::constraints::{self, Candidate};
use super::search::Blame;
use super::world::World;
use super::{Absent, Policy, Rejection, Summary, Unmet};
use crate::catalog::{Family, Group, catalog, soname_number};
use crate::inventory::{Installation, Inventory};
use crate::program::{Asker, First, ImportCertainty, Need, Pin, Requirement, Want};

/// What is to be filled by one installation.
#[derive(Clone, Debug)]
pub(super) struct Slot<'a> {
    pub family: &'static Family,
    pub soname: Option<u32>,
    pub requirements: Vec<Requirement>,
    pub strictness: Strictness,
    /// Those for whom all that they get must be of one CUDA major.
    pub askers: Vec<String>,
    /// The picks that led to it or made it stricter, by their position in the search.
    pub because: Blame,
    /// Nobody asked by name; the driver is always of interest where there is one.
    pub is_implied: bool,
    /// A stronger mode than the view will answer for it before any search path.
    pub is_released: bool,
    pub candidates: Vec<Candidate<'a>>,
    pub rejected: Vec<Rejection>,
}

/// What it means when a slot cannot be filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Strictness {
    /// A library may open it: nothing at all is better than what does not fit.
    May,
    /// One of the names that a program may try: nothing is better than what does not go with the rest.
    Try,
    /// Nothing being there is no fault; something that does not fit is.
    Should,
    Must,
}

/// What the program itself asks for, candidates judged one by one.
#[derive(Debug, Default)]
pub(super) struct Asked<'a> {
    /// To be filled.
    pub slots: Vec<Slot<'a>>,
    /// Asked for and nowhere.
    pub absent: Vec<Absent>,
    /// Something is here and does not fit, and nobody may ever ask for it.
    pub unpinned: Vec<Slot<'a>>,
}

/// The slots of a program; or, when some cannot be filled, all of those.
pub(super) fn of<'a>(world: &World<'a>) -> Result<Asked<'a>, Vec<Unmet>> {
    let (mut asked, mut unfit) = (Asked::default(), Vec::new());
    for mut slot in group(world) {
        slot.fill(world);
        if slot.candidates.is_empty()
            && let Some((known, guessed)) = slot.without_guesses(world)
        {
            asked.unpinned.extend((!known.candidates.is_empty()).then_some(guessed));
            slot = known;
        }
        let something_is_here = slot.rejected.iter().any(Rejection::is_of_concern);
        if !slot.candidates.is_empty() {
            asked.slots.push(slot);
        } else if slot.strictness == Strictness::Must || something_is_here {
            unfit.push(slot);
        } else {
            asked.absent.extend(slot.absent());
        }
    }
    // Of a family that is only tried, another SONAME will do; a guess refuses nobody, and neither does a
    // library for GPUs that are hidden on purpose.
    let is_guess = |slot: &Slot<'_>| !slot.requirements.iter().any(is_known);
    let has_another = |slot: &Slot<'_>| asked.slots.iter().any(|other| other.family.name == slot.family.name);
    let (unpinned, unmet): (Vec<Slot<'a>>, Vec<Slot<'a>>) = unfit.into_iter().partition(|slot| {
        let may_be_left = is_guess(slot) || has_another(slot) || world.inventory.gpus_hidden;
        slot.strictness <= Strictness::Try && may_be_left
    });
    if !unmet.is_empty() {
        return Err(unmet.iter().map(|slot| slot.unmet(slot.rejected.clone())).collect());
    }
    asked.unpinned.extend(unpinned);
    Ok(asked)
}

/// By family and SONAME major, in the order of the catalog.
fn group<'a>(world: &World<'a>) -> Vec<Slot<'a>> {
    let inventory = world.inventory;
    let mut by_key: BTreeMap<(usize, Option<u32>), Vec<Requirement>> = BTreeMap::new();
    let mut unkeyed = Vec::new();
    // Without a GPU to reach, the driver's libraries are not ours to choose.
    let has_gpu = inventory.has_gpu();
    let is_ours = |r: &&'a Requirement| has_gpu || r.family != "driver" || r.is_pinned();
    for requirement in world.requirements.iter().copied().filter(is_ours) {
        let Some(position) = catalog().families.iter().position(|family| family.name == requirement.family)
        else {
            continue;
        };
        let family = &catalog().families[position];
        match (family.group, soname_of(family, &requirement.want)) {
            (Group::Place, _) => by_key.entry((position, None)).or_default().push(requirement.clone()),
            (Group::Soname, Some(soname)) => {
                by_key.entry((position, Some(soname))).or_default().push(requirement.clone());
            }
            (Group::Soname, None) => unkeyed.push((position, requirement.clone())),
        }
    }
    // A name without a version, and a version without a name, go with what the same asker names; failing
    // that with what anybody names. A version alone is no wish to have the family.
    for (position, requirement) in unkeyed {
        let is_wished = |key: &(usize, Option<u32>)| by_key[key].iter().any(Requirement::is_wish);
        let of_family = |key: &(usize, Option<u32>)| key.0 == position && is_wished(key);
        let keys: Vec<_> = by_key.keys().copied().filter(of_family).collect();
        let same: Vec<_> = keys
            .iter()
            .filter(|key| by_key[*key].iter().any(|r| r.by.name == requirement.by.name))
            .copied()
            .collect();
        let goes_with = if same.is_empty() { keys } else { same };
        if goes_with.is_empty() && requirement.is_wish() {
            by_key.entry((position, None)).or_default().push(requirement);
        } else {
            // Of several names that a program only tries, what a person wants need hold for one.
            let is_any = goes_with.len() > 1 && requirement.is_by_person();
            for key in goes_with {
                let slot = by_key.entry(key).or_default();
                let is_tried = is_any && slot.iter().all(|it| !it.is_wish() || it.need == Need::Named);
                let need = if is_tried { Need::Named } else { requirement.need };
                slot.push(Requirement { need, ..requirement.clone() });
            }
        }
    }
    if has_gpu {
        by_key.entry((0, None)).or_default();
    }
    let wished = by_key
        .into_iter()
        .filter(|((position, _), wants)| *position == 0 || wants.iter().any(Requirement::is_wish));
    let mut slots: Vec<(usize, Slot<'a>)> = wished
        .map(|((position, soname), requirements)| {
            (position, Slot::new(position, soname, requirements, inventory).released_by(world.policy))
        })
        .collect();
    // The driver first, since all else depends on it; what is only tried last; the newer major first.
    slots.sort_by_key(|(position, slot)| {
        (*position != 0, slot.strictness == Strictness::Try, *position, std::cmp::Reverse(slot.soname))
    });
    slots.into_iter().map(|(_, slot)| slot).collect()
}

/// The number in the SONAME that a requirement means.
fn soname_of(family: &Family, want: &Want) -> Option<u32> {
    match want {
        Want::Name(name) => soname_number(name),
        Want::Symbols(symbols) => soname_number(&symbols.first()?.file),
        Want::AtLeast(version) | Want::Exactly(version) | Want::Rest(version) | Want::Recorded(version) => {
            family.soname_is_version.then(|| version.major())
        }
        Want::Pinned(Pin::Version(version)) => family.soname_is_version.then(|| version.major()),
        Want::Within(range) => range.major().filter(|_| family.soname_is_version),
        Want::BuildIds(files) => soname_number(files.keys().next()?),
        Want::Preferred(_) | Want::Pinned(Pin::Directory(_)) => None,
    }
}

impl<'a> Slot<'a> {
    fn new(
        position: usize,
        soname: Option<u32>,
        mut requirements: Vec<Requirement>,
        inventory: &Inventory,
    ) -> Slot<'a> {
        // Where somebody is known to ask, what only may ask decides nothing by how it would search.
        if has_known_wish(&requirements) {
            let guesses = requirements.iter_mut().filter(|requirement| !is_known(requirement));
            guesses.for_each(|requirement| requirement.search_first.clear());
        }
        let strictness = strictest(&requirements, inventory).unwrap_or(Strictness::Should);
        let askers = askers(&requirements);
        let is_implied = requirements.is_empty();
        let slot = Slot::empty(&catalog().families[position], soname, requirements, strictness, askers);
        Slot { is_implied, ..slot }
    }

    /// Nobody is judged yet.
    fn empty(
        family: &'static Family,
        soname: Option<u32>,
        requirements: Vec<Requirement>,
        strictness: Strictness,
        askers: Vec<String>,
    ) -> Slot<'a> {
        Slot {
            family,
            soname,
            requirements,
            strictness,
            askers,
            because: Blame::new(),
            is_implied: false,
            is_released: false,
            candidates: Vec::new(),
            rejected: Vec::new(),
        }
    }

    /// Where a stronger mode answers for the family, no search path comes first.
    pub(super) fn released_by(mut self, policy: &Policy) -> Slot<'a> {
        self.is_released = policy.released.contains(&self.family.name);
        if self.is_released {
            self.requirements.iter_mut().for_each(|requirement| requirement.search_first.clear());
        }
        self
    }

    /// What a picked installation asks for in its turn.
    pub(super) fn asked_by_copy(
        name: &str,
        installation: &Installation,
        askers: &[String],
        strictness: Strictness,
        search_first: Vec<First>,
    ) -> Option<Slot<'a>> {
        let (family, _) = catalog().family_of(name)?;
        let by = Asker {
            name: installation.title(),
            file: installation.directory.clone(),
            line: None,
            cuda: installation.cuda,
            standing: ImportCertainty::Possible,
        };
        let requirement = Requirement {
            family: family.name.clone(),
            want: Want::Name(name.to_owned()),
            need: if strictness == Strictness::Must { Need::Linked } else { Need::Used },
            by,
            search_first,
        };
        let soname = match family.group {
            Group::Soname => soname_of(family, &requirement.want),
            Group::Place => None,
        };
        let mut askers = askers.to_vec();
        askers.push(installation.title());
        Some(Slot::empty(family, soname, vec![requirement], strictness, askers))
    }

    /// Where some ask for it and others only perhaps: what the former alone would get, and the rest.
    fn without_guesses(&self, world: &World<'a>) -> Option<(Slot<'a>, Slot<'a>)> {
        let (known, guessed): (Vec<Requirement>, Vec<Requirement>) =
            self.requirements.iter().cloned().partition(is_known);
        let is_mixed = !guessed.is_empty() && known.iter().any(Requirement::is_wish);
        let of = |requirements: Vec<Requirement>, rejected: &[Rejection]| {
            let strictness = strictest(&requirements, world.inventory).unwrap_or(Strictness::Try);
            let (askers, rejected) = (askers(&requirements), rejected.to_vec());
            Slot { requirements, strictness, askers, rejected, ..self.clone() }
        };
        is_mixed.then(|| {
            let mut known = of(known, &[]);
            known.fill(world);
            (known, of(guessed, &self.rejected))
        })
    }

    /// This slot once it must serve what another is for as well.
    pub(super) fn with(mut self, other: Slot<'a>, world: &World<'a>) -> Slot<'a> {
        self.soname = self.soname.or(other.soname);
        self.requirements.extend(other.requirements);
        self.strictness = self.strictness.max(other.strictness);
        self.askers.extend(other.askers);
        self.askers.sort();
        self.askers.dedup();
        self.because.extend(other.because);
        self.is_implied = false;
        self.fill(world);
        self
    }

    /// Whether an installation is one that this slot could mean at all.
    pub(super) fn concerns(&self, installation: &Installation) -> bool {
        installation.family == self.family.name
            && (self.soname.is_none() || installation.soname.is_none() || installation.soname == self.soname)
    }

    /// Judges every installation of the family by the rules that need no other pick.
    pub(super) fn fill(&mut self, world: &World<'a>) {
        let inventory = world.inventory;
        let forced = constraints::forced(&self.requirements, inventory);
        self.candidates.clear();
        self.rejected.clear();
        for installation in world.installations.get(self.family.name.as_str()).into_iter().flatten().copied()
        {
            match constraints::judge(self, installation, &forced, world) {
                Ok(()) => self.candidates.push(Candidate { installation, is_forced: !forced.is_empty() }),
                Err(reason) => {
                    self.rejected.push(Rejection { installation: Summary::of(installation), reason })
                }
            }
        }
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
        let names: Vec<String> = self.names();
        let mut asked_by: Vec<Asker> =
            self.requirements.iter().map(|requirement| requirement.by.clone()).collect();
        asked_by.sort();
        asked_by.dedup_by(|a, b| a.name == b.name);
        let essential = self.requirements.iter().any(|requirement| requirement.need == Need::Essential);
        (!names.is_empty()).then(|| Absent { family: self.family.name.clone(), names, asked_by, essential })
    }

    /// The names that are asked for, each once.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.requirements.iter().filter_map(Requirement::named).map(str::to_owned).collect();
        names.sort();
        names.dedup();
        names
    }
}

/// Whether it is asked for by what is known to be used.
fn is_known(requirement: &Requirement) -> bool {
    requirement.by.standing == ImportCertainty::Imported
}

fn has_known_wish(requirements: &[Requirement]) -> bool {
    requirements.iter().any(|requirement| is_known(requirement) && requirement.is_wish())
}

/// The strictest of what is asked for, if the family is asked for at all.
fn strictest(requirements: &[Requirement], inventory: &Inventory) -> Option<Strictness> {
    let wished = requirements.iter().filter(|requirement| requirement.is_wish());
    wished.map(|requirement| strictness(requirement, inventory)).max()
}

/// Those who ask, each once; those who only may, where nobody else does.
fn askers(requirements: &[Requirement]) -> Vec<String> {
    let has_known = has_known_wish(requirements);
    let asking = requirements.iter().filter(|r| (!has_known || is_known(r)) && !r.is_by_person());
    let mut askers: Vec<String> = asking.map(|requirement| requirement.by.name.clone()).collect();
    askers.sort();
    askers.dedup();
    askers
}

/// A framework that silently uses the CPU is a fault where there is a GPU to use.
fn strictness(requirement: &Requirement, inventory: &Inventory) -> Strictness {
    match requirement.need {
        Need::Linked => Strictness::Must,
        _ if inventory.gpus_hidden => Strictness::Try,
        Need::Essential if inventory.has_gpu() => Strictness::Must,
        Need::Essential | Need::Used => Strictness::Should,
        Need::Named => Strictness::Try,
    }
}
