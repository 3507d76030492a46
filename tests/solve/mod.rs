//! The solver.

mod certain_needs;
mod classic_reports;
mod decisions;
mod declared;
mod gpus;
mod hints;
mod naive_solver;
mod remedies;
