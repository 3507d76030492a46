//! Output that a person reads.

mod described_machines;
mod export;
mod progress;
mod screens;
mod snapshots;
