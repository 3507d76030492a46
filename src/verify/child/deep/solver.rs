//! A system of linear equations by cuSOLVER: LU factors with pivots, and the solution. Source of the signatures:
//! cusolverDn.h of 11.4, 11.7 and 12.4.

use std::ffi::{c_int, c_void};

use crate::verify::child::bench::{Bench, Loaded};
use crate::verify::child::call::{Api, Pointer, call};
use crate::verify::child::numbers::{Random, blank, download, int, real, unit_roundoff, upload};
use crate::verify::child::outcome::{ComputationFault, Stop, compare};
use crate::verify::protocol::{Operation, Precision, StepResult};

const SIZE: usize = 64;
/// The range of the unknowns.
const RANGE: u16 = 9;
const NOT_TRANSPOSED: c_int = 0;

pub(super) fn run(
    bench: &Bench<'_>,
    loaded: &Loaded,
    precision: Precision,
) -> Result<StepResult, Stop> {
    let (size_call, factor_call, solve_call) = if precision == Precision::Fp64 {
        (
            "cusolverDnDgetrf_bufferSize",
            "cusolverDnDgetrf",
            "cusolverDnDgetrs",
        )
    } else {
        (
            "cusolverDnSgetrf_bufferSize",
            "cusolverDnSgetrf",
            "cusolverDnSgetrs",
        )
    };
    let api = Api::plain(loaded.library);
    let handle = api.make("cusolverDnCreate", "cusolverDnDestroy")?;
    let driver = bench.driver;
    let system = System::new(bench.seed_of(Operation::LinearSystem, precision));
    let matrix = upload(driver, precision, &system.matrix)?;
    let right = upload(driver, precision, &system.right)?;
    let pivots = driver.upload(&[-1_i32; SIZE])?;
    let info = driver.upload(&[-1_i32])?;
    let size = int(SIZE);
    let mut room = 0;
    // SAFETY: the types that cusolverDn.h declares; the buffer holds what the sizes say; writes one number.
    unsafe {
        call!(
            api, size_call, Pointer: handle.pointer, c_int: size, c_int: size,
            Pointer: matrix.pointer(), c_int: size, *mut c_int: &raw mut room,
        )?;
    }
    let room = blank(driver, precision, usize::try_from(room).unwrap_or(0))?;
    // SAFETY: as above; the buffers are distinct, and live in the current context.
    unsafe {
        call!(
            api, factor_call, Pointer: handle.pointer, c_int: size, c_int: size,
            Pointer: matrix.pointer(), c_int: size, Pointer: room.pointer(),
            Pointer: pivots.pointer(), Pointer: info.pointer(),
        )?;
    }
    check_info(info.download(1)?)?;
    // SAFETY: as above.
    unsafe {
        call!(
            api, solve_call, Pointer: handle.pointer, c_int: NOT_TRANSPOSED, c_int: size, c_int: 1,
            *const c_void: matrix.pointer(), c_int: size, *const c_void: pivots.pointer(),
            Pointer: right.pointer(), c_int: size, Pointer: info.pointer(),
        )?;
    }
    check_info(info.download(1)?)?;
    let solution = download(&right, precision, SIZE)?;
    let allowed = error_bound(precision);
    let pairs = solution.into_iter().zip(system.unknowns);
    Ok(compare(
        pairs.map(|(got, expected)| (got, f64::from(expected), allowed)),
        SIZE,
    )?)
}

/// `info` must be 0. A positive value is a column without a pivot.
fn check_info(info: Vec<i32>) -> Result<(), ComputationFault> {
    compare(info.into_iter().map(|info| (f64::from(info), 0.0, 0.0)), 1).map(drop)
}

/// The norms of the matrix and of its inverse are at most 3n and 1/n, and the factors do not grow. The error of the
/// solution is then at most 3n roundings (Higham, Accuracy and Stability of Numerical Algorithms, 9.4) times a condition
/// of 3. The bound of 16n leaves some room.
fn error_bound(precision: Precision) -> f64 {
    16.0 * real(SIZE) * unit_roundoff(precision) * f64::from(RANGE)
}

/// Whole numbers, so that the right side is exact.
struct System {
    /// By columns.
    matrix: Vec<f32>,
    unknowns: Vec<f32>,
    right: Vec<f32>,
}

impl System {
    /// Each row and each column has one dominant number, none of them on the diagonal, so the solution needs pivots.
    fn new(seed: u32) -> System {
        let mut random = Random::new(seed);
        let mut matrix = random.wholes(1, SIZE * SIZE);
        for column in 0..SIZE {
            matrix[column * SIZE + (column + 1) % SIZE] =
                f32::from(2 * u16::try_from(SIZE).unwrap_or(0));
        }
        let unknowns = random.wholes(RANGE, SIZE);
        let sum = |row: usize| {
            (0..SIZE)
                .map(|column| matrix[column * SIZE + row] * unknowns[column])
                .sum()
        };
        let right = (0..SIZE).map(sum).collect();
        System {
            matrix,
            unknowns,
            right,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_right_side_is_exact_and_the_unknowns_are_apart() {
        let system = System::new(7);
        let most = real(SIZE) * f64::from(RANGE) + 2.0 * real(SIZE) * f64::from(RANGE);
        assert!(
            most < 2.0_f64.powi(24),
            "every sum is a whole number that `float` has"
        );
        for row in 0..SIZE {
            let sum: f64 = (0..SIZE)
                .map(|column| {
                    f64::from(system.matrix[column * SIZE + row])
                        * f64::from(system.unknowns[column])
                })
                .sum();
            assert_eq!(sum, f64::from(system.right[row]));
        }
        assert!(error_bound(Precision::Fp32) < 0.01, "unknowns differ by 1");
    }
}
