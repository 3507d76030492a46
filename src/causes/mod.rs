//! The causes of known messages on one machine: each possible cause of `profiles/errors.toml` is checked, with evidence. Starts
//! and loads nothing. `profiles/faults.toml` and `report/diagnosed.rs` have the words.

mod checks;
mod facts;
mod gpus;
mod libraries;
mod model;
mod rank;
mod tools;

pub use facts::{Facts, LoaderStart};
pub use model::{Cause, Certainty, CheckAnswer};
pub use rank::{FoundElsewhere, causes, causes_found, contradicts, subject};
