//! The GPU and the libraries that computations use.

use libloading::os::unix::Library;

use super::driver::Driver;
use super::outcome::{Refused, Stop};
use crate::verify::protocol::{Operation, Precision, StepResult};

/// A GPU with its current context, the loaded libraries, and the seed of random numbers.
pub(super) struct Bench<'a> {
    pub driver: &'a Driver,
    pub libraries: &'a [Loaded],
    /// The number that CUDA gives it in the program.
    pub gpu: u32,
    pub capability: (i32, i32),
    pub seed: u32,
}

/// A loaded library. It is never closed, since its destructors may crash.
pub(super) struct Loaded {
    pub family: String,
    pub soname: String,
    pub library: &'static Library,
}

/// Makes a computation with a library, in one precision.
pub(super) type Run = fn(&Bench<'_>, &Loaded, Precision) -> Result<StepResult, Stop>;

impl Bench<'_> {
    /// A different seed for each GPU and each row.
    pub(super) fn seed_of(&self, operation: Operation, precision: Precision) -> u32 {
        let mix = |seed: u32, part: u32| (seed ^ part).wrapping_mul(0x9e37_79b1).rotate_left(15);
        [self.gpu, operation as u32, precision as u32]
            .into_iter()
            .fold(self.seed, mix)
    }

    /// Stops if the GPU is too old for a call, since not all releases refuse it.
    pub(super) fn needs(&self, capability: (i32, i32), call: &'static str) -> Result<(), Stop> {
        if self.capability >= capability {
            return Ok(());
        }
        let (major, minor) = self.capability;
        let name = Some(format!("compute capability {major}.{minor}"));
        Err(Stop::NotSupported(Refused {
            call,
            code: 0,
            name,
            message: None,
        }))
    }
}
