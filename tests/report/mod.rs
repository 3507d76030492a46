//! Output that a person reads.

mod described_machines;
mod export;
mod needs;
mod next_commands;
mod pages;
mod progress;
mod refusals;
mod repaired;
mod screens;
