//! The search: slots are filled in order, each with the copy that is preferred among those that fit with
//! what is picked already; what a copy opens in its turn becomes a slot; dead ends are taken back.

use std::path::Path;

use super::constraints::{Candidate, together};
use super::slots::{Slot, Strictness};
use super::{Absent, Criterion, Reason, Rejection, Summary, Unmet};
use crate::catalog::catalog;
use crate::inventory::{Copy, Inventory};
use crate::target::{Target, Want};
use crate::version::Version;

/// A filled slot.
#[derive(Clone, Debug)]
pub(super) struct Filled<'a> {
    pub slot: Slot<'a>,
    pub copy: &'a Copy,
    pub decided_by: Criterion,
    pub rejected: Vec<Rejection>,
}

#[derive(Debug, Default)]
pub(super) struct Solution<'a> {
    pub filled: Vec<Filled<'a>>,
    pub absent: Vec<Absent>,
    /// Slots for which nothing fits and nothing may be taken: their names become tombstones.
    pub blocked: Vec<Slot<'a>>,
}

struct Search<'a, 't> {
    inventory: &'a Inventory,
    target: &'t Target,
    /// The dead end that lay deepest: the one worth explaining.
    deepest: Option<(usize, Unmet)>,
}

/// The best solution by the table of criteria, or what stood in the way.
pub(super) fn best<'a>(
    slots: Vec<Slot<'a>>,
    inventory: &'a Inventory,
    target: &Target,
) -> Result<Solution<'a>, Vec<Unmet>> {
    let mut search = Search { inventory, target, deepest: None };
    let queue: Vec<Slot<'a>> = slots;
    match search.fill(Vec::new(), queue) {
        Some(filled) => Ok(filled),
        None => Err(search.deepest.map(|(_, unmet)| unmet).into_iter().collect()),
    }
}

impl<'a> Search<'a, '_> {
    /// Fills the slots of `queue`, first to last, on top of what is `done`.
    fn fill(&mut self, done: Vec<Filled<'a>>, mut queue: Vec<Slot<'a>>) -> Option<Solution<'a>> {
        if queue.is_empty() {
            return Some(Solution { filled: done, ..Solution::default() });
        }
        let slot = queue.remove(0);
        let mut viable = Vec::new();
        let mut rejected = slot.rejected.clone();
        for candidate in &slot.candidates {
            let clash = done.iter().find_map(|filled| {
                let why = together((&slot, candidate.copy), (&filled.slot, filled.copy)).err()?;
                Some(Reason::Clash { with: filled.copy.title(), why: Box::new(why) })
            });
            match clash {
                None => viable.push(*candidate),
                Some(reason) => rejected.push(Rejection { copy: Summary::of(candidate.copy), reason }),
            }
        }
        viable.sort_by_key(|candidate| self.rank(&slot, *candidate, &done));
        for (index, candidate) in viable.iter().enumerate() {
            let derived = match self.derived(&slot, candidate.copy, &done, &queue) {
                Ok(derived) => derived,
                Err(name) => {
                    rejected.push(Rejection {
                        copy: Summary::of(candidate.copy),
                        reason: Reason::NeedsAbsent { name },
                    });
                    continue;
                }
            };
            let mut next = done.clone();
            let others = &viable[index + 1..];
            next.push(Filled {
                slot: slot.clone(),
                copy: candidate.copy,
                decided_by: others
                    .first()
                    .map_or(only(*candidate), |other| self.deciding(&slot, *candidate, *other, &done)),
                rejected: rejected
                    .iter()
                    .cloned()
                    .chain(others.iter().map(|other| self.passed_over(&slot, *candidate, *other, &done)))
                    .collect(),
            });
            let queue = queue.iter().cloned().chain(derived).collect();
            if let Some(solution) = self.fill(next, queue) {
                return Some(solution);
            }
            rejected.push(Rejection { copy: Summary::of(candidate.copy), reason: Reason::DeadEnd });
        }
        self.give_up(slot, rejected, done, queue)
    }

    /// Nothing fits this slot on top of what is done.
    fn give_up(
        &mut self,
        mut slot: Slot<'a>,
        rejected: Vec<Rejection>,
        done: Vec<Filled<'a>>,
        queue: Vec<Slot<'a>>,
    ) -> Option<Solution<'a>> {
        slot.rejected = rejected;
        if slot.strictness <= Strictness::Try {
            let mut solution = self.fill(done, queue)?;
            if slot.must_be_blocked() {
                solution.blocked.push(slot);
            } else {
                solution.absent.extend(slot.absent());
            }
            return Some(solution);
        }
        if !slot.is_unfit() {
            let mut solution = self.fill(done, queue)?;
            solution.absent.extend(slot.absent());
            return Some(solution);
        }
        if self.deepest.as_ref().is_none_or(|(depth, _)| *depth < done.len()) {
            self.deepest = Some((done.len(), slot.unmet()));
        }
        None
    }

    /// What a copy needs and opens in its turn, as far as no slot covers it yet; or the name that it is
    /// linked against and that is nowhere.
    fn derived(
        &self,
        slot: &Slot<'a>,
        copy: &'a Copy,
        done: &[Filled<'a>],
        queue: &[Slot<'a>],
    ) -> Result<Vec<Slot<'a>>, String> {
        let mut names: Vec<(String, Strictness)> = Vec::new();
        for needed in copy.files.iter().flat_map(|member| &member.needed) {
            if catalog().family_of(needed).is_some_and(|(family, _)| family.name != copy.family) {
                names.push((needed.clone(), Strictness::Must));
            }
        }
        if let Some(family) = catalog().family(&copy.family) {
            let soname = copy.soname.unwrap_or(0);
            for stem in family.opens(soname) {
                let other = catalog().families.iter().find(|family| family.has_member(stem));
                let suffix = other.and_then(|other| other.suffix(copy.cuda.unwrap_or(0)));
                names.extend(suffix.map(|suffix| (format!("{stem}.so.{suffix}"), Strictness::May)));
            }
            names.extend(family.opens_bare(soname).iter().map(|name| (name.clone(), Strictness::May)));
        }
        let mut derived: Vec<Slot<'a>> = Vec::new();
        for (name, strictness) in names {
            let Some((family, _)) = catalog().family_of(&name) else { continue };
            if family.name == copy.family || family.name == "driver" && !self.inventory.has_gpu() {
                continue;
            }
            let covers = |copy: &Copy| copy.family == family.name && copy.offers(&name);
            let waiting = |slot: &&Slot<'_>| {
                slot.family.name == family.name && slot.candidates.iter().any(|c| covers(c.copy))
            };
            if done.iter().any(|filled| covers(filled.copy))
                || queue.iter().any(|slot| waiting(&slot))
                || derived.iter().any(|slot| waiting(&slot))
            {
                continue;
            }
            let Some(mut wanted) = Slot::asked_by_copy(&name, copy, &slot.askers, strictness) else {
                continue;
            };
            wanted.fill(self.inventory, self.target);
            if wanted.candidates.is_empty() && strictness == Strictness::Must {
                return Err(name);
            }
            derived.push(wanted);
        }
        Ok(derived)
    }

    /// The columns of the comparison, strongest first: smaller is better.
    fn rank(&self, slot: &Slot<'a>, candidate: Candidate<'a>, done: &[Filled<'a>]) -> impl Ord + use<'a> {
        let columns = self.columns(slot, candidate, done);
        (columns, candidate.copy.directory.clone())
    }

    fn columns(
        &self,
        slot: &Slot<'a>,
        candidate: Candidate<'a>,
        done: &[Filled<'a>],
    ) -> [(Criterion, std::cmp::Reverse<i64>); 6] {
        let copy = candidate.copy;
        let recorded = self.recorded(slot);
        let score = |yes: bool| i64::from(yes);
        let version = copy.version.unwrap_or_default();
        let newest = i64::from(version.major()) << 48
            | version
                .numbers()
                .iter()
                .skip(1)
                .zip([32, 16, 0])
                .map(|(part, shift)| i64::from(*part) << shift)
                .sum::<i64>();
        [
            (Criterion::LoaderTakesIt, score(candidate.is_forced || self.is_given(slot, copy))),
            (Criterion::CameWithTarget, score(self.came_with_target(copy))),
            (Criterion::Neighbours, neighbours(copy, done)),
            (Criterion::Recorded, score(recorded.is_some_and(|recorded| version.agrees_with(&recorded)))),
            (
                Criterion::NearestNewer,
                recorded.map_or(0, |recorded| if version >= recorded { -newest } else { i64::MIN + 1 }),
            ),
            (Criterion::Newest, newest),
        ]
        .map(|(criterion, score)| (criterion, std::cmp::Reverse(score)))
    }

    /// The driver's libraries that the environment gives anyway need nothing to be taken.
    fn is_given(&self, slot: &Slot<'_>, copy: &Copy) -> bool {
        slot.family.name == "driver"
            && self.inventory.file_by_default("libcuda.so.1").is_some_and(|file| copy.has_file(file))
    }

    fn came_with_target(&self, copy: &Copy) -> bool {
        let in_site =
            |directory: &Path| self.target.site_packages.iter().any(|site| directory.starts_with(site));
        copy.directories()
            .any(|directory| in_site(directory) || self.target.own_directories.contains(directory))
    }

    /// The version that upstream tested with.
    fn recorded(&self, slot: &Slot<'_>) -> Option<Version> {
        let wants =
            self.target.requirements.iter().filter(|requirement| requirement.family == slot.family.name);
        wants.filter_map(|r| if let Want::Recorded(version) = r.want { Some(version) } else { None }).max()
    }

    /// The first column in which two candidates differ.
    fn deciding(
        &self,
        slot: &Slot<'a>,
        better: Candidate<'a>,
        other: Candidate<'a>,
        done: &[Filled<'a>],
    ) -> Criterion {
        let (better, other) = (self.columns(slot, better, done), self.columns(slot, other, done));
        better.iter().zip(&other).find(|(a, b)| a != b).map_or(Criterion::Path, |(column, _)| column.0)
    }

    fn passed_over(
        &self,
        slot: &Slot<'a>,
        picked: Candidate<'a>,
        other: Candidate<'a>,
        done: &[Filled<'a>],
    ) -> Rejection {
        let criterion = self.deciding(slot, picked, other, done);
        Rejection { copy: Summary::of(other.copy), reason: Reason::LessPreferred { criterion } }
    }
}

impl Slot<'_> {
    /// Whether a copy is here that would be taken and must not be.
    fn must_be_blocked(&self) -> bool {
        self.rejected.iter().any(|rejection| !super::explain::is_of_no_concern(&rejection.reason))
    }
}

fn only(candidate: Candidate<'_>) -> Criterion {
    if candidate.is_forced { Criterion::LoaderTakesIt } else { Criterion::OnlyOne }
}

/// How near it stands to the picks so far: in one directory with them, or of one origin.
fn neighbours(copy: &Copy, done: &[Filled<'_>]) -> i64 {
    let near = done.iter().filter(|filled| filled.copy.family != "driver").map(|filled| {
        if filled.copy.directory == copy.directory {
            100
        } else {
            i64::from(filled.copy.origin == copy.origin)
        }
    });
    near.sum()
}
