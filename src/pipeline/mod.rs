//! The flow, from a command line to the program. Each stage is a method that takes the results of the stages before it, so a
//! verb calls them in this order and stops where its answer is known. None of them prints anything but the progress of long
//! stages.
//!
//! ```text
//! let mut settings = request.settings()?;               options, variables and files become one value
//! let mut facts = request.facts(&mut settings)?;        what will run, what it needs, what is installed
//! let outcome = facts.solve();                          a plan, or the smallest conflict
//! let mut decision = facts.decide(outcome)?;            the least intrusive mode in which the loader uses the plan
//! let change = facts.publish(&mut decision)?;           the view, the audit module, the change of environment
//! let proven = facts.prove(&mut decision, &options)?;   published, and proved in a child process
//! launch::exec(…)                                       this process becomes the program
//! ```
//!
//! `commands/run.rs` calls all of them. `request.decision(&mut settings)?` is short for the first stages up to the decision.

mod baseline;
mod builds;
mod keep;
mod program;
pub mod progress;
mod proofs;
mod publish;
mod request;
mod scan;
mod stages;
mod start_facts;
mod watching;

pub use baseline::{given_by_loader, given_to_program};
pub use keep::{has_deciding_options, is_kept, keep};
pub use proofs::{ProofOptions, Proven, prove_once};
pub use publish::{Change, change, following, started_later};
pub use request::{Exit, Request};
pub use scan::{any_program, everywhere, own_views, scan};
pub use start_facts::{FailedStart, StartFacts};
pub use watching::{WatchedRun, can_be_watched, expected, watch_gpus};
