//! The decision: an inventory and the requirements of a program give one compatible set, or the reasons why there is
//! none. Pure: no files, no environment, no clock. Equal inputs give equal results.

use crate::inventory::Inventory;
use crate::program::{Program, Requirement};

mod cautions;
mod constraints;
mod contradiction;
mod dependencies;
mod explain;
mod fitting;
mod gpus;
mod hint;
mod hints;
mod machine;
mod missing;
mod offers;
mod outcome;
mod plan;
mod preference;
mod reason;
mod remedy;
mod search;
mod slot;
mod slots;
mod world;

pub use hint::{Hint, Wanted};
pub use machine::{Broken, Judged, MachineFacts, judge};
pub use missing::{FamilyWish, Lack, lack, wheels_of, wheels_of_toolkit};
pub use outcome::{
    Absent, Caution, Conflict, Contradiction, ContradictionSide, FailedProof, ForcedCopy,
    KeptPreload, MissingWheel, Outcome, PathElement, Pick, Plan, Policy, Rejection, Removal,
    Summary, Unmet, Unpinned,
};
pub use reason::{Criterion, Reason};

use remedy::Remedied;
use slot::Slot;
use slots::Slots;
use world::World;

/// Decides.
pub fn solve(inventory: &Inventory, program: &Program, policy: &Policy) -> Outcome {
    let world = World::new(inventory, program, policy);
    let mut outcome = decide(&world);
    if let Outcome::Conflict(conflict) = &mut outcome {
        conflict.hint = hint(conflict, &world);
        let lack = lack(&outcome, inventory, program, policy, false);
        if let (Outcome::Conflict(conflict), Lack::Wheels(wheels)) = (&mut outcome, lack) {
            conflict.to_fetch = wheels;
        }
    }
    outcome
}

fn decide(world: &World<'_>) -> Outcome {
    let broken = machine::broken(world);
    let Slots {
        to_fill,
        absent,
        unpinned,
    } = match slots::slots(world) {
        Ok(slots) if broken.is_empty() => slots,
        Ok(_) => return Outcome::Conflict(explain::each_unmet(Vec::new(), broken, world)),
        Err(unmet) => return Outcome::Conflict(explain::each_unmet(unmet, broken, world)),
    };
    // Only the driver, which always has a slot where there is a GPU.
    if to_fill
        .iter()
        .all(|slot| slot.family.name == "driver" && slot.requirements.is_empty())
    {
        let unpinned = unpinned
            .iter()
            .filter_map(|slot| plan::unpinned(slot, world.inventory))
            .collect();
        return Outcome::Nothing {
            absent: plan::merged(absent),
            unpinned,
        };
    }
    match search::best(to_fill, world) {
        Ok(mut solution) => {
            solution.absent.extend(absent);
            solution.unpinned.extend(unpinned);
            excluded_by_person(&solution.unpinned, world)
                .unwrap_or_else(|| Outcome::Plan(plan::plan(solution, world)))
        }
        Err(dead_end) => Outcome::Conflict(explain::together_unmet(dead_end, world)),
    }
}

/// Returns the conflict between what the user asks for and what packages use, if that is why libraries are left out. Without a GPU
/// they may be left out for any other reason.
fn excluded_by_person(left: &[Slot<'_>], world: &World<'_>) -> Option<Outcome> {
    let (settings, others): (Vec<&Requirement>, Vec<&Requirement>) =
        world.requirements.iter().copied().partition(|one| {
            one.library()
                .is_some_and(|one| one.asks_for_family() && one.is_by_person())
        });
    let is_excused = world.assumes_gpu || world.inventory.gpus_hidden || settings.is_empty();
    if is_excused || !left.iter().any(Slot::has_certain_asker) {
        return None;
    }
    let with_gpu = world.assuming_gpu();
    if !contradiction::has_solution(&with_gpu.with_only(others)) {
        return None;
    }
    let outcome = decide(&with_gpu);
    matches!(outcome, Outcome::Conflict(_)).then_some(outcome)
}

/// Returns the first hint after which there is a solution, or two of them one after the other.
fn hint(conflict: &Conflict, world: &World<'_>) -> Option<Hint> {
    let helps = |hint: &Hint| Remedied::after(hint, world).has_set();
    let then = |first: Hint| {
        let copy = Remedied::after(&first, world);
        let world = copy.world();
        let Outcome::Conflict(next) = decide(&world) else {
            return None;
        };
        let second =
            hints::hints(&next, &world).find(|hint| Remedied::after(hint, &world).has_set())?;
        Some(Hint::Both {
            steps: Box::new([first, second]),
        })
    };
    let hints = || hints::hints(conflict, world);
    hints()
        .find(helps)
        .or_else(|| hints().take(FIRST_STEPS).find_map(then))
        .or_else(|| Some(Hint::HideGpus).filter(helps))
}

/// Each costs a solution.
const FIRST_STEPS: usize = 3;
