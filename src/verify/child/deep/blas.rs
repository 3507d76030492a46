//! A product of matrices by cuBLAS. Source of the signatures: cublas_api.h of 11.11, 12.8 and 13.10.

use std::ffi::{c_int, c_void};

use crate::catalog::soname_number;
use crate::verify::child::bench::{Bench, OpenLibrary};
use crate::verify::child::call::{Api, CallFailure, Pointer, call, text};
use crate::verify::child::numbers::{Random, compare, fits, int};
use crate::verify::protocol::StepResult;

/// All different, so that a swap shows.
const ROWS: usize = 96;
const COLUMNS: usize = 80;
const LENGTH: usize = 64;
/// The largest numbers in the two matrices. TF32 would round the first, so wrong sums show that a library used it.
const RANGES: (u16, u16) = (4095, 8);
const _: () = assert!(fits(LENGTH, RANGES.0, RANGES.1));

const PEDANTIC_MATH: c_int = 2;
const NOT_TRANSPOSED: c_int = 0;

pub(super) fn run(bench: &Bench<'_>, loaded: &OpenLibrary) -> Result<StepResult, CallFailure> {
    let api = Api {
        library: loaded.library,
        name: |library, status| text(library, "cublasGetStatusName", status),
        message: |library, status| text(library, "cublasGetStatusString", status),
    };
    // 12 of `libcublas.so.12`
    let is_old = soname_number(&loaded.soname).is_none_or(|number| number < 11);
    let handle = api.make("cublasCreate_v2")?;
    if !is_old {
        // libcublas is linked against libcublasLt, which has most of its kernels.
        let light = api.make("cublasLtCreate")?;
        api.destroy("cublasLtDestroy", light)?;
        // SAFETY: the types that cublas_api.h declares; the handle was made above.
        unsafe { call!(api, "cublasSetMathMode", Pointer: handle, c_int: PEDANTIC_MATH)? };
    }
    let mut random = Random::new(bench.seed);
    let a = random.wholes(RANGES.0, ROWS * LENGTH);
    let b = random.wholes(RANGES.1, LENGTH * COLUMNS);
    let a_data = bench.driver.upload(&a)?;
    let b_data = bench.driver.upload(&b)?;
    let c_data = bench.driver.upload(&vec![f32::NAN; ROWS * COLUMNS])?;
    let [rows, columns, length] = [ROWS, COLUMNS, LENGTH].map(int);
    let (one, zero) = (1.0_f32, 0.0_f32);
    // SAFETY: the types that cublas_api.h declares; the handle was made above; the buffers hold what the sizes say, and
    // are distinct.
    unsafe {
        call!(
            api, "cublasSgemm_v2", Pointer: handle, c_int: NOT_TRANSPOSED, c_int: NOT_TRANSPOSED,
            c_int: rows, c_int: columns, c_int: length, *const f32: &raw const one,
            *const c_void: a_data.pointer(), c_int: rows, *const c_void: b_data.pointer(), c_int: length,
            *const f32: &raw const zero, Pointer: c_data.pointer(), c_int: rows,
        )?;
    }
    let result = compare(c_data.download::<f32>(ROWS * COLUMNS)?, product(&a, &b))?;
    api.destroy("cublasDestroy_v2", handle)?;
    Ok(result)
}

/// All matrices are stored by columns.
fn product(a: &[f32], b: &[f32]) -> Vec<f64> {
    let mut sums = Vec::with_capacity(ROWS * COLUMNS);
    for column in 0..COLUMNS {
        for row in 0..ROWS {
            let mut sum = 0.0;
            for k in 0..LENGTH {
                sum += f64::from(a[k * ROWS + row]) * f64::from(b[column * LENGTH + k]);
            }
            sums.push(sum);
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_one_picks_a_column() {
        let a: Vec<f32> = (0..u16::try_from(ROWS * LENGTH).unwrap())
            .map(f32::from)
            .collect();
        let mut b = vec![0.0; LENGTH * COLUMNS];
        b[2 * LENGTH + 5] = 1.0;
        let c = product(&a, &b);
        assert_eq!(c[2 * ROWS + 7], f64::from(a[5 * ROWS + 7]));
        assert_eq!(c[3 * ROWS + 7], 0.0);
    }
}
