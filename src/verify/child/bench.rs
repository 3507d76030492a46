//! What a computation has to work with, and what can come of it.

use libloading::os::unix::Library;

use super::driver::Driver;
use crate::verify::protocol::{Came, Computation, Measure, Operation, Precision};

/// A GPU whose context is current, the libraries that are loaded, and what random numbers are made from.
pub(super) struct Bench<'a> {
    pub driver: &'a Driver,
    pub libraries: &'a [Loaded],
    /// As CUDA counts them in the program.
    pub gpu: u32,
    pub capability: (i32, i32),
    pub seed: u32,
}

/// A library that programs ask for.
pub(super) struct Loaded {
    pub family: String,
    pub soname: String,
    pub library: Library,
}

/// A call that did not answer with success.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Refused {
    pub call: &'static str,
    pub code: i64,
    pub name: Option<String>,
    pub message: Option<String>,
}

/// Why a computation is no proof.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Wrong {
    Refused(Refused),
    /// The library has no such function.
    NoFunction(&'static str),
    /// The largest error, if it is a number, where it is, and what rounding explains.
    Numbers {
        largest_error: Option<f64>,
        element: usize,
        allowed: f64,
    },
}

pub(super) type Tried = Result<Came, Wrong>;

/// A row of the table of what is computed at the level `deep`.
pub(super) struct Row {
    pub operation: Operation,
    pub precision: Precision,
    /// The family whose main library is asked; a plan without it is not asked.
    pub family: &'static str,
    pub run: fn(&Bench<'_>, &Loaded, Precision) -> Tried,
}

impl Row {
    pub(super) fn computation(&self) -> Computation {
        Computation { operation: self.operation, precision: self.precision }
    }
}

impl Bench<'_> {
    pub(super) fn of_family(&self, family: &str) -> Option<&Loaded> {
        self.libraries.iter().find(|loaded| loaded.family == family)
    }

    /// Different numbers on each GPU and in each row.
    pub(super) fn seed_of(&self, operation: Operation, precision: Precision) -> u32 {
        let mix = |seed: u32, part: u32| (seed ^ part).wrapping_mul(0x9e37_79b1).rotate_left(15);
        [self.gpu, operation as u32, precision as u32].into_iter().fold(self.seed, mix)
    }
}

impl From<Refused> for Wrong {
    fn from(refused: Refused) -> Wrong {
        Wrong::Refused(refused)
    }
}

/// The verdict on numbers: each result beside what it must be and by how much it may differ from that. What is not a
/// number is infinitely wrong.
pub(super) fn compare(results: impl Iterator<Item = (f64, f64, f64)>, length: usize) -> Tried {
    let mut worst = (0.0, 0.0);
    for (element, (got, expected, allowed)) in results.enumerate() {
        let error = (got - expected).abs();
        if error.is_nan() || error > allowed {
            let largest_error = error.is_finite().then_some(error);
            return Err(Wrong::Numbers { largest_error, element, allowed });
        }
        worst = (error.max(worst.0), allowed.max(worst.1));
    }
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    Ok(Came::Right(Measure { largest_error: worst.0, allowed: worst.1, length }))
}
