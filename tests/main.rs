//! One test binary for all that needs the real program, the real loader, or a machine made of text.
//! Real wheels are `tests/real/run.sh`, a real GPU is `tests/gpu/run.sh`.
#![allow(unreachable_pub)]
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::cast_possible_truncation,
    clippy::too_many_lines
)]

mod audit;
mod blocks;
mod children;
mod cli;
mod clusters;
mod config;
mod damage;
mod doctor;
mod documents;
mod exported;
mod frameworks;
mod gpus;
mod helpless;
mod hints;
mod hook;
mod host;
mod interrupted;
mod inventory;
mod launch;
mod layers;
mod loader;
mod locked;
mod machines;
mod manual;
mod modes;
mod others;
mod packages;
mod pinning;
mod places;
mod planted;
mod predicted;
mod problems;
mod progress;
mod proof;
mod proving;
mod reports;
mod saved;
mod shims;
mod snapshots;
mod solver;
mod solving;
mod start;
mod support;
mod target;
mod traced;
mod tracing;
mod turns;
mod undone;
mod wrappers;
