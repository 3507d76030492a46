//! The causes of known messages on one machine: answers to the questions of `profiles/errors.toml`, each with its evidence.
//! Starts and loads nothing. `profiles/causes.toml` and `report/diagnosed.rs` have the words.

mod facts;
mod gpus;
mod libraries;
mod model;
mod questions;
mod rank;
mod tools;

pub use facts::{Facts, Start};
pub use model::{Answer, Cause, Certainty};
pub use rank::{causes, contradicts, subject};
