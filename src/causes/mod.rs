//! The causes of known messages on one machine: each possible cause of `profiles/errors.toml` is checked, with evidence. Starts
//! and loads nothing. `profiles/faults.toml` and `report/diagnose.rs` have the words.

mod cause;
mod checks;
mod facts;
mod gpu_checks;
mod library_checks;
mod rank;
mod tool_checks;

pub use cause::{Cause, Certainty};
pub use facts::{Facts, LoaderStart, TextOrigin};
pub use rank::{FoundElsewhere, causes, causes_found, contradicts, subject};
