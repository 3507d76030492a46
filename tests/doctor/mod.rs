//! Findings of `doctor` and the descriptions that it saves.

mod findings;
mod platform;
mod save;
