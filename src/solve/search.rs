//! Fills slots in order, each with the preferred installation among those that fit the picks so far. Libraries that an
//! installation opens in its turn become slots. A dead end knows the picks that it is due to, and the search goes back to
//! the last of those at once (backjumping).

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use super::constraints::{self, together};
use super::dependencies::{self, Obstacle};
use super::outcome::{Absent, Rejection, Unmet};
use super::preference;
use super::reason::{Criterion, Reason};
use super::slot::{Blame, Candidate, Picked, Slot, Strictness};
use super::world::World;
use crate::inventory::Installation;
use crate::requirements::LibraryRequirement;

/// After this many steps the search gives up, with the best explanation so far.
const STEP_LIMIT: usize = 20_000;

/// A slot in a solution.
#[derive(Debug)]
pub(super) struct Filled<'a> {
    pub slot: Rc<Slot<'a>>,
    pub installation: &'a Installation,
    pub decided_by: Criterion,
    pub rejected: Vec<Rejection>,
}

#[derive(Debug, Default)]
pub(super) struct Solution<'a> {
    pub filled: Vec<Filled<'a>>,
    pub absent: Vec<Absent>,
    /// Slots for which something is installed and nothing fits.
    pub unpinned: Vec<Slot<'a>>,
}

impl Solution<'_> {
    /// True if a picked installation has a file of this name.
    pub(super) fn offers(&self, name: &str) -> bool {
        let mut filled = self.filled.iter();
        filled.any(|filled| filled.installation.offers(name))
    }
}

/// Why there is no solution.
#[derive(Debug, Default)]
pub(super) struct DeadEnd {
    pub unmet: Vec<Unmet>,
    /// Every family that was part of a dead end.
    pub families: BTreeSet<String>,
}

struct Search<'a, 'w> {
    world: &'w World<'a>,
    /// The dead end with the most picks, which explains most.
    deepest: Option<(usize, Unmet)>,
    families: BTreeSet<String>,
    steps: usize,
    limit: usize,
}

/// The best solution by the table of criteria.
pub(super) fn best<'a>(slots: Vec<Slot<'a>>, world: &World<'a>) -> Result<Solution<'a>, DeadEnd> {
    Search::new(world).run(slots)
}

impl<'a, 'w> Search<'a, 'w> {
    fn new(world: &'w World<'a>) -> Search<'a, 'w> {
        Search {
            world,
            deepest: None,
            families: BTreeSet::new(),
            steps: 0,
            limit: STEP_LIMIT,
        }
    }

    fn run(&mut self, slots: Vec<Slot<'a>>) -> Result<Solution<'a>, DeadEnd> {
        let queue = slots.into_iter().map(Rc::new).collect();
        match self.fill(&[], queue) {
            Ok(mut solution) => {
                // The innermost call pushes first.
                solution.filled.reverse();
                Ok(solution)
            }
            Err(_) => Err(DeadEnd {
                unmet: Vec::from_iter(self.deepest.take().map(|(_, unmet)| unmet)),
                families: std::mem::take(&mut self.families),
            }),
        }
    }

    /// Fills the slots of `queue`, first to last, on top of what is `done`.
    fn fill(
        &mut self,
        done: &[Picked<'a>],
        mut queue: VecDeque<Rc<Slot<'a>>>,
    ) -> Result<Solution<'a>, Blame> {
        let Some(slot) = queue.pop_front() else {
            return Ok(Solution::default());
        };
        self.steps += 1;
        if self.steps > self.limit {
            self.deepest
                .get_or_insert_with(|| (done.len(), slot.unmet(slot.rejected.clone())));
            return Err(Blame::new());
        }
        let (level, mut blame) = (done.len(), slot.because.clone());
        let mut rejected = slot.rejected.clone();
        let viable = self.viable(&slot, done, &mut rejected, &mut blame);
        for (index, candidate) in viable.iter().enumerate() {
            let pick = Picked {
                slot: slot.clone(),
                installation: candidate.installation,
                is_forced: candidate.is_forced,
            };
            let next = match dependencies::with(&pick, done, &queue, self.world) {
                Ok(next) => next,
                Err(Obstacle { name, due_to }) => {
                    blame.extend(due_to);
                    rejected.push(Rejection::new(
                        candidate.installation,
                        Reason::NeedsAbsent { name },
                    ));
                    continue;
                }
            };
            let picks: Vec<Picked<'a>> = done.iter().cloned().chain([pick]).collect();
            match self.fill(&picks, next) {
                Ok(mut solution) => {
                    solution
                        .filled
                        .push(self.filled(slot, &viable[index..], rejected, done));
                    return Ok(solution);
                }
                // Another installation for this slot would not change that dead end.
                Err(due_to) if !due_to.contains(&level) => return Err(due_to),
                Err(due_to) => {
                    blame.extend(due_to.into_iter().filter(|position| *position != level));
                    rejected.push(Rejection::new(candidate.installation, Reason::DeadEnd));
                }
            }
        }
        self.give_up(&slot, rejected, done, queue, blame)
    }

    /// The candidates that fit the picks so far, best first. Adds the others to `rejected`, and the picks that
    /// they clash with to `blame`.
    fn viable(
        &self,
        slot: &Slot<'a>,
        done: &[Picked<'a>],
        rejected: &mut Vec<Rejection>,
        blame: &mut Blame,
    ) -> Vec<Candidate<'a>> {
        let mut viable = Vec::new();
        let share_asker: Vec<bool> = done
            .iter()
            .map(|picked| constraints::share_asker(slot, &picked.slot))
            .collect();
        for candidate in &slot.candidates {
            let clash = done.iter().enumerate().find_map(|(position, picked)| {
                let why = together(
                    candidate.installation,
                    picked.installation,
                    share_asker[position],
                    self.world,
                )?;
                Some((
                    position,
                    Reason::Clash {
                        with: picked.installation.title(),
                        why: Box::new(why),
                    },
                ))
            });
            match clash {
                None => viable.push(*candidate),
                Some((position, reason)) => {
                    blame.insert(position);
                    rejected.push(Rejection::new(candidate.installation, reason));
                }
            }
        }
        viable.sort_by_cached_key(|candidate| preference::rank(slot, *candidate, done, self.world));
        viable
    }

    /// The slot with its pick, the first of `viable`.
    fn filled(
        &self,
        slot: Rc<Slot<'a>>,
        viable: &[Candidate<'a>],
        mut rejected: Vec<Rejection>,
        done: &[Picked<'a>],
    ) -> Filled<'a> {
        let picked = viable[0];
        let mut decided_by = None;
        for other in &viable[1..] {
            let criterion = preference::deciding(&slot, picked, *other, done, self.world);
            decided_by.get_or_insert(criterion);
            let reason = Reason::LessPreferred { criterion };
            rejected.push(Rejection::new(other.installation, reason));
        }
        let decided_by = match decided_by {
            _ if slot.requirements.iter().any(LibraryRequirement::is_pinned) => Criterion::Pinned,
            Some(criterion) => criterion,
            None if picked.is_forced => Criterion::LoaderTakesIt,
            None => Criterion::OnlyOne,
        };
        Filled {
            installation: picked.installation,
            decided_by,
            rejected,
            slot,
        }
    }

    /// Nothing fits this slot beside the picks so far: a dead end, or the slot stays empty.
    fn give_up(
        &mut self,
        slot: &Slot<'a>,
        rejected: Vec<Rejection>,
        done: &[Picked<'a>],
        queue: VecDeque<Rc<Slot<'a>>>,
        mut blame: Blame,
    ) -> Result<Solution<'a>, Blame> {
        let something_is_here = rejected.iter().any(Rejection::is_of_concern);
        let is_fault = match slot.strictness {
            Strictness::Must => true,
            Strictness::Should => rejected.iter().any(Rejection::is_obstacle),
            Strictness::May | Strictness::Try => {
                let filled = done.iter().map(|picked| &*picked.slot);
                slot.is_last_for_person(filled.chain(queue.iter().map(|slot| &**slot)))
            }
        };
        if is_fault {
            self.families.insert(slot.family.name.clone());
            self.families.extend(
                blame
                    .iter()
                    .map(|position| done[*position].slot.family.name.clone()),
            );
            if self
                .deepest
                .as_ref()
                .is_none_or(|(depth, _)| *depth < done.len())
            {
                self.deepest = Some((done.len(), slot.unmet(rejected)));
            }
            return Err(blame);
        }
        match self.fill(done, queue) {
            Ok(mut solution) if something_is_here => {
                solution.unpinned.push(Slot {
                    rejected,
                    ..slot.clone()
                });
                Ok(solution)
            }
            Ok(mut solution) => {
                solution.absent.extend(slot.absent());
                Ok(solution)
            }
            Err(due_to) => {
                blame.extend(due_to);
                Err(blame)
            }
        }
    }
}

#[cfg(test)]
#[path = "../../tests/support/solver_inputs.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "most of it is for the tests of the whole solver"
)]
mod solver_inputs;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::Inventory;
    use crate::program::Program;
    use crate::solve::Policy;
    use crate::solve::slots;

    const FAMILIES: &str =
        "cudart cublas cufft curand cusolver cusparse cusparselt nvjitlink cupti nccl npp nvjpeg";

    /// Twelve families of twenty installations each. The last family is for another CUDA than all others.
    fn world() -> (Inventory, Program) {
        let installations = FAMILIES.split(' ').flat_map(|family| {
            let cuda = if family == "nvjpeg" { 13 } else { 12 };
            (0..20).map(move |number| {
                let directory = format!("/opt/{number:02}/{family}");
                solver_inputs::installation(family, 12, &[12, number, 1], cuda, &directory)
            })
        });
        let by = solver_inputs::asker("app", None);
        let requirements = FAMILIES
            .split(' ')
            .map(|family| solver_inputs::names(family, 12, &by))
            .collect();
        (
            solver_inputs::machine(installations.collect(), None, None),
            solver_inputs::program(requirements, Vec::new()),
        )
    }

    #[test]
    fn a_dead_end_goes_back_to_its_cause() {
        let ((inventory, program), policy) = (world(), Policy::default());
        let world = World::new(&inventory, &program, &policy);
        let slots = slots::slots(&world).unwrap().to_fill;
        let mut search = Search::new(&world);
        let unmet = search.run(slots).unwrap_err().unmet;
        assert!(search.steps <= 12 * 20 + 1, "{} steps", search.steps);
        assert_eq!(unmet[0].family, "nvjpeg");
        assert_eq!(
            unmet[0].candidates.len(),
            20,
            "every installation has its reason"
        );
    }

    #[test]
    fn a_search_that_takes_too_long_still_explains_itself() {
        let ((inventory, program), policy) = (world(), Policy::default());
        let world = World::new(&inventory, &program, &policy);
        let slots = slots::slots(&world).unwrap().to_fill;
        let mut search = Search {
            limit: 5,
            ..Search::new(&world)
        };
        assert_eq!(search.run(slots).unwrap_err().unmet.len(), 1);
        assert_eq!(search.steps, 6);
    }
}
