//! The proof in a child process.

mod clusters;
mod kept_proofs;
mod on_start;
mod required_gpu;
mod signals;
mod verdicts;
