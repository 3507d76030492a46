//! The GPU and the libraries that computations use.

use libloading::os::unix::Library;

use super::call::CallFailure;
use super::driver::Driver;
use crate::verify::protocol::{ChildStep, ProofStep, StepResult};

/// A GPU with its current context, the loaded libraries, and the seed of random numbers.
pub(super) struct Bench<'a> {
    pub driver: &'a Driver,
    pub libraries: &'a [OpenLibrary],
    /// The number that CUDA gives it in the program.
    pub gpu: u32,
    pub capability: (i32, i32),
    pub seed: u32,
}

impl Bench<'_> {
    pub(super) fn step(&self, step: ChildStep, library: &OpenLibrary) -> ProofStep {
        ProofStep::at(step).with(&library.soname).on(self.gpu)
    }
}

/// A loaded library. It is never closed, since its destructors may crash.
pub(super) struct OpenLibrary {
    pub family: String,
    pub soname: String,
    pub library: &'static Library,
}

/// Makes a computation with a library.
pub(super) type Compute = fn(&Bench<'_>, &OpenLibrary) -> Result<StepResult, CallFailure>;
