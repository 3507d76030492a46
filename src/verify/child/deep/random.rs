//! Uniform random numbers by cuRAND. Source of the signatures: curand.h of 10.3 and 10.4.

use std::ffi::c_int;

use crate::verify::child::bench::{Bench, Loaded};
use crate::verify::child::call::{Api, Pointer, call};
use crate::verify::child::numbers::real;
use crate::verify::child::outcome::{ComputationFault, Stop, compare, compare_exact};
use crate::verify::protocol::{Operation, Precision, StepResult};

const COUNT: usize = 1 << 14;
/// `CURAND_RNG_PSEUDO_DEFAULT`
const DEFAULT_GENERATOR: c_int = 100;

pub(super) fn run(
    bench: &Bench<'_>,
    loaded: &Loaded,
    precision: Precision,
) -> Result<StepResult, Stop> {
    let api = Api::plain(loaded.library);
    let seed = u64::from(bench.seed_of(Operation::RandomNumbers, precision));
    let numbers = generate(bench, &api, seed)?;
    let again = generate(bench, &api, seed)?;
    let others = generate(bench, &api, seed + 1)?;
    // The numbers are above 0 and at most 1.
    compare(
        numbers
            .iter()
            .map(|number| (if *number == 0.0 { f64::NAN } else { *number }, 0.5, 0.5)),
        1,
    )?;
    compare_exact(again, numbers.clone(), 1)?;
    if numbers == others {
        return Err(ComputationFault::Numbers {
            largest_error: None,
            element: 0,
            allowed: 0.0,
        }
        .into());
    }
    let mean = numbers.iter().sum::<f64>() / real(COUNT);
    Ok(compare(std::iter::once((mean, 0.5, mean_bound())), COUNT)?)
}

/// Six standard deviations of the mean, which right numbers exceed once in five hundred million proofs.
fn mean_bound() -> f64 {
    6.0 / (12.0 * real(COUNT)).sqrt()
}

fn generate(bench: &Bench<'_>, api: &Api<'_>, seed: u64) -> Result<Vec<f64>, Stop> {
    let room = bench.driver.upload(&vec![f32::NAN; COUNT])?;
    let mut object = std::ptr::null_mut();
    // SAFETY: the types that curand.h declares; the first writes one pointer, the last as many numbers as there is room.
    let generator = unsafe {
        call!(api, "curandCreateGenerator", *mut Pointer: &raw mut object, c_int: DEFAULT_GENERATOR)?;
        let generator = api.hold(object, "curandDestroyGenerator");
        call!(api, "curandSetPseudoRandomGeneratorSeed", Pointer: object, u64: seed)?;
        call!(api, "curandGenerateUniform", Pointer: object, Pointer: room.pointer(), usize: COUNT)?;
        generator
    };
    let numbers: Vec<f32> = room.download(COUNT)?;
    drop(generator);
    Ok(numbers.into_iter().map(f64::from).collect())
}
