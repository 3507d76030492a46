//! A Fourier transform and its inverse by cuFFT. Source of the signatures: cufft.h of 10.9, 11.4 and 12.5.

use std::ffi::c_int;

use crate::verify::child::bench::{Bench, Loaded};
use crate::verify::child::call::{Api, Pointer, call, find};
use crate::verify::child::driver::Buffer;
use crate::verify::child::numbers::{Random, int, real, unit_roundoff};
use crate::verify::child::outcome::{Stop, compare};
use crate::verify::protocol::{Operation, Precision, StepResult};

/// 2^6 times 3 times 5, so that several kinds of steps are used.
const POINTS: usize = 960;
/// The range of the transformed numbers.
const RANGE: u16 = 100;

const COMPLEX_TO_COMPLEX: c_int = 0x29;
const FORWARD: c_int = -1;
const INVERSE: c_int = 1;

type Complex = (f64, f64);
pub(super) fn run(
    bench: &Bench<'_>,
    loaded: &Loaded,
    precision: Precision,
) -> Result<StepResult, Stop> {
    let api = Api::plain(loaded.library);
    let plan = Plan::new(&api)?;
    let driver = bench.driver;
    let signal = Random::new(bench.seed_of(Operation::FourierTransform, precision))
        .wholes(RANGE, 2 * POINTS);
    let there = driver.upload(&signal)?;
    let spectrum = driver.upload(&vec![f32::NAN; 2 * POINTS])?;
    let back = driver.upload(&vec![f32::NAN; 2 * POINTS])?;
    plan.execute(&api, &there, &spectrum, FORWARD)?;
    let transformed: Vec<f32> = spectrum.download(2 * POINTS)?;
    plan.execute(&api, &spectrum, &back, INVERSE)?;
    let returned: Vec<f32> = back.download(2 * POINTS)?;

    let expected = dft(&signal);
    let norm = |numbers: &[f64]| {
        numbers
            .iter()
            .map(|number| number * number)
            .sum::<f64>()
            .sqrt()
    };
    let points = real(POINTS);
    let spectrum_error = error_bound(norm(&expected));
    let pairs = transformed.iter().zip(&expected);
    compare(
        pairs.map(|(got, expected)| (f64::from(*got), *expected, spectrum_error)),
        POINTS,
    )?;
    // cuFFT scales neither transform.
    let signal: Vec<f64> = signal.into_iter().map(f64::from).collect();
    let signal_error = 2.0 * error_bound(norm(&signal));
    let pairs = returned.iter().zip(signal);
    Ok(compare(
        pairs.map(|(got, expected)| (f64::from(*got) / points, expected, signal_error)),
        POINTS,
    )?)
}

/// A transform in steps of 2 has an error of 6.7 roundings of its norm in each of log2(n) steps (Higham, Accuracy and
/// Stability of Numerical Algorithms, 24.1). Here there are fewer steps, and 8 leaves room for inexact factors. One wrong
/// number differs by about norm / sqrt(n), four hundred times as much.
fn error_bound(norm: f64) -> f64 {
    8.0 * libm::log2(real(POINTS)) * unit_roundoff(Precision::Fp32) * norm
}

/// The transform by its definition, in double precision.
fn dft(signal: &[f32]) -> Vec<f64> {
    let count = signal.len() / 2;
    let turn = |k: usize| libm::sincos(-std::f64::consts::TAU * real(k) / real(count));
    let factors: Vec<Complex> = (0..count).map(turn).map(|(sin, cos)| (cos, sin)).collect();
    let point = |k: usize| {
        let products = signal.chunks_exact(2).enumerate().map(|(j, z)| {
            let (re, im) = (f64::from(z[0]), f64::from(z[1]));
            let (cos, sin) = factors[j * k % count];
            (re * cos - im * sin, re * sin + im * cos)
        });
        products.fold((0.0, 0.0), |(re, im): Complex, z| (re + z.0, im + z.1))
    };
    (0..count)
        .map(point)
        .flat_map(|(re, im)| [re, im])
        .collect()
}

struct Plan {
    plan: c_int,
    destroy: Option<unsafe extern "C" fn(c_int) -> c_int>,
}

impl Plan {
    fn new(api: &Api<'_>) -> Result<Plan, Stop> {
        let mut plan = 0;
        // SAFETY: the types that cufft.h declares; writes one number.
        unsafe {
            call!(api, "cufftPlan1d", *mut c_int: &raw mut plan, c_int: int(POINTS), c_int: COMPLEX_TO_COMPLEX, c_int: 1)?;
            Ok(Plan {
                plan,
                destroy: find(api.library, "cufftDestroy"),
            })
        }
    }

    fn execute(
        &self,
        api: &Api<'_>,
        from: &Buffer<'_>,
        to: &Buffer<'_>,
        direction: c_int,
    ) -> Result<(), Stop> {
        // SAFETY: the type that cufft.h declares; the plan was made for as many points as both buffers hold.
        unsafe {
            call!(
                api, "cufftExecC2C", c_int: self.plan, Pointer: from.pointer(), Pointer: to.pointer(),
                c_int: direction,
            )
        }
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        if let Some(destroy) = self.destroy {
            // SAFETY: the plan was made, and is given up here.
            unsafe { destroy(self.plan) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wave_has_one_frequency() {
        let wave = (0..8_u8).flat_map(|n| {
            let (sin, cos) = (std::f32::consts::FRAC_PI_4 * f32::from(n) * 3.0).sin_cos();
            [cos, sin]
        });
        let spectrum = dft(&wave.collect::<Vec<f32>>());
        for (at, number) in spectrum.iter().enumerate() {
            let expected = if at == 6 { 8.0 } else { 0.0 };
            assert!((number - expected).abs() < 1e-5, "{at}: {number}");
        }
    }

    #[test]
    fn the_bound_lets_no_wrong_number_through() {
        assert!(error_bound(1.0) * real(POINTS).sqrt() < 1.0 / 400.0);
    }
}
