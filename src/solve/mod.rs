//! The decision: an inventory and the requirements of a program give one compatible set, or the reasons why there is
//! none. Pure: no files, no environment, no clock. Equal inputs give equal results.
//!
//! An example: PyTorch is linked against `libcudnn.so.9` and was compiled with cuDNN 9.1. Four installations of cuDNN are here.
//!
//! ```text
//! requirements  Name(libcudnn.so.9), by torch      AtLeast(9.1), by torch
//! slot          cuDNN with SONAME 9, which must be filled: both requirements
//! candidates    9.5 in site-packages               9.8 in /usr/local/cuda/lib64
//! rejected      8.9 in /opt/cudnn: OtherName       9.0 in /usr/lib: TooOld
//! pick          9.5, decided by CameWithTarget     9.8 becomes a rejection: LessPreferred
//! next slot     cuBLAS with SONAME 12, against which that libcudnn is linked: its pick must fit the first
//! ```
//!
//! `slots` groups requirements and judges each installation alone (`constraints`), `search` fills the slots one after the other
//! (`preference`, `dependencies`), `plan` adds what the environment needs. Where that fails, `explain` finds the
//! `contradiction`, and `hints` what helps.
//!
//! If a program tries several names of one family, at least one of them must meet `--pin`, `--require` and
//! `[requires]`. If no library of the program names a CUDA, hints and `fetch` offer those for the CUDA of the NVIDIA
//! wheels in its environment. Links on an element of LD_LIBRARY_PATH count for "another user could have put it there".

use crate::inventory::Inventory;
use crate::program::Program;
use crate::requirements::Requirement;

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
mod newer;
mod offers;
mod outcome;
mod plan;
mod policy;
mod preference;
mod reason;
mod remedy;
mod search;
mod slot;
mod slots;
mod world;

pub use hint::{Hint, Wanted};
pub use machine::{Broken, Judged, MachineFacts, judge};
pub use missing::{FamilyRange, Lack, lack, lack_and_wanted, wheels_of, wheels_of_toolkit};
pub use outcome::{
    Absent, Caution, Conflict, Contradiction, ContradictionSide, ForcedCopy, KeptPreload,
    MissingWheel, Outcome, PathElement, Pick, Plan, Rejection, Removal, Summary, Unmet, Unpinned,
};
pub use policy::{FailedProof, Policy};
pub use reason::{Criterion, Reason};

use remedy::Remedied;
use slot::Slot;
use slots::Slots;
use world::World;

/// Decides. A plan breaks no rule and leaves no requirement of a certain asker unmet; among several, the first by
/// [`Criterion`] is taken, slot by slot. A conflict names what cannot be met and the smallest sets of requirements that exclude
/// each other; its hint and its wheels were tried and lead to a plan. What is only tried or guessed refuses nothing. Gives up
/// after a fixed number of steps, with the deepest dead end so far as the conflict.
pub fn solve(inventory: &Inventory, program: &Program, policy: &Policy) -> Outcome {
    let world = World::new(inventory, program, policy);
    let mut outcome = decide(&world);
    if let Outcome::Conflict(conflict) = &mut outcome {
        conflict.hint = hint(conflict, &world);
        let lack = lack(&outcome, inventory, program, policy);
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
    // The driver always has a slot where there is a GPU.
    if to_fill
        .iter()
        .all(|slot| slot.family.is_driver() && slot.requirements.is_empty())
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

/// The conflict between what the user asks for and what packages use, if that is why libraries are left out. Without a GPU
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

/// The first hint after which there is a solution, or two of them one after the other.
fn hint(conflict: &Conflict, world: &World<'_>) -> Option<Hint> {
    if let Some(hint) = hints::hints(conflict, world).find(|hint| helps(hint, world)) {
        return Some(hint);
    }
    for first in hints::hints(conflict, world).take(FIRST_STEPS) {
        let remedied = Remedied::after(&first, world);
        let remedied = remedied.world();
        if let Outcome::Conflict(next) = decide(&remedied)
            && let Some(second) = hints::hints(&next, &remedied).find(|hint| helps(hint, &remedied))
        {
            let steps = Box::new([first, second]);
            return Some(Hint::Both { steps });
        }
    }
    Some(Hint::HideGpus).filter(|hint| helps(hint, world))
}

fn helps(hint: &Hint, world: &World<'_>) -> bool {
    Remedied::after(hint, world).has_set()
}

/// Each costs a solution.
const FIRST_STEPS: usize = 3;
