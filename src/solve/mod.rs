//! The decision: what is installed and what is asked for become one compatible set, or the reasons why
//! there is none. Pure: no files, no environment, no clock. The same inputs give the same answer.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::host::FileId;
use crate::inventory::{Inventory, Origin};
use crate::program::Program;

mod cautions;
mod conditions;
mod constraints;
mod contradiction;
mod derived;
mod explain;
mod gpus;
mod hint;
mod hints;
mod model;
mod planned;
mod preference;
mod reason;
mod search;
mod slots;
mod world;

pub use cautions::Caution;
pub use conditions::{Broken, Has};
pub use contradiction::{Contradiction, Member};
pub use hint::{Hint, Wanted};
pub use model::{
    Absent, Conflict, Criterion, ForcedCopy, Kept, KeptPreload, Outcome, Pick, Plan, Rejection, Removal,
    Summary, Unmet, Unpinned,
};
pub use reason::Reason;

use slots::Asked;
use world::World;

/// What the caller wants beyond what the program needs.
#[derive(Debug, Default)]
pub struct Policy {
    /// Directories whose children are views of our own: never an input.
    pub views: Vec<PathBuf>,
    /// Families for which search paths that come before `LD_LIBRARY_PATH` do not count, since a stronger mode will
    /// answer before them.
    pub released: BTreeSet<String>,
    /// Origins that a person would rather have, the dearest first.
    pub origins: Vec<Origin>,
    /// How many sets to pass over: the best ones, in their order.
    pub passed: usize,
    /// Installations of which a proof has shown that they do not work here.
    pub failed_proofs: Vec<FailedProof>,
    /// The files that the program maps without cudarun.
    pub mapped: BTreeSet<FileId>,
}

/// An installation that did not stand its proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedProof {
    pub family: String,
    pub directory: PathBuf,
}

/// Decides.
pub fn solve(inventory: &Inventory, program: &Program, policy: &Policy) -> Outcome {
    let world = World::new(inventory, program, policy);
    let broken = conditions::broken(&world);
    let Asked { slots, absent, unpinned } = match slots::of(&world) {
        Ok(asked) => asked,
        Err(unmet) => return Outcome::Conflict(explain::apart(unmet, broken, &world)),
    };
    if !broken.is_empty() {
        return Outcome::Conflict(explain::apart(Vec::new(), broken, &world));
    }
    if slots.iter().all(|slot| slot.family.name == "driver" && slot.is_implied) {
        let unpinned = unpinned.iter().filter_map(planned::unpinned).collect();
        return Outcome::Nothing { absent: planned::merged(absent), unpinned };
    }
    match search::best(slots, &world) {
        Ok(mut found) => {
            found.absent.extend(absent);
            found.unpinned.extend(unpinned);
            Outcome::Plan(planned::plan(found, &world))
        }
        Err(dead_end) => Outcome::Conflict(explain::together(dead_end, &world)),
    }
}
