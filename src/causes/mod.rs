//! The causes of known messages on one machine: each possible cause of `profiles/errors.toml` is checked, with evidence. Starts
//! and loads nothing. `profiles/faults.toml` and `report/diagnose.rs` have the words.

mod cause;
mod checks;
mod facts;
mod gpus;
mod libraries;
mod rank;
mod tools;

pub use cause::{Cause, Certainty, CheckAnswer};
pub use facts::{Facts, LoaderStart};
pub use rank::{FoundElsewhere, causes, causes_found, contradicts, subject};
