//! Output that a person reads.

mod described_machines;
mod export;
mod needs;
mod pages;
mod progress;
mod screens;
mod snapshots;
