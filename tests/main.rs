//! One test binary for all that needs the real program, the real loader, or a machine made of text.
//! Real wheels are `tests/real/run.sh`, a real GPU is `tests/gpu/run.sh`.
#![allow(unreachable_pub)]
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::cast_possible_truncation,
    clippy::too_many_lines
)]

mod advise;
mod audit;
mod builds;
mod catalog;
mod cli;
mod diagnose;
mod doctor;
mod documents;
mod fetch;
mod fleet;
mod follow;
mod formats;
mod host;
mod image;
mod inventory;
mod launch;
mod loader;
mod pin;
mod predict;
mod program;
mod report;
mod running;
mod settings;
mod shell;
mod solve;
mod source;
mod storage;
mod support;
mod verify;
