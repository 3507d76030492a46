//! The proof in a child process.

mod clusters;
mod on_start;
mod signals;
mod verdicts;
