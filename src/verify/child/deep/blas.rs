//! A product of matrices by cuBLAS. Source of the signatures: cublas_api.h of 11.11, 12.8 and 13.10.

use std::ffi::{c_int, c_void};

use libloading::os::unix::Library;

use crate::catalog::soname_number;
use crate::verify::child::bench::{Bench, Loaded};
use crate::verify::child::call::{Api, Pointer, call, text};
use crate::verify::child::driver::{Buffer, Driver};
use crate::verify::child::numbers::{Random, blank, download, int, ranges, upload};
use crate::verify::child::outcome::{ComputationFault, Stop, compare_exact};
use crate::verify::protocol::{Operation, Precision, StepResult};

/// All different, so that a swap shows, and multiples of 16 for tensor cores.
pub(super) const ROWS: usize = 96;
pub(super) const COLUMNS: usize = 80;
pub(super) const LENGTH: usize = 64;

const DEFAULT_MATH: c_int = 0;
const PEDANTIC_MATH: c_int = 2;
const TF32_TENSOR_OP_MATH: c_int = 3;
/// `CUBLAS_COMPUTE_32F`, new in CUDA 11.
pub(super) const COMPUTE_32F: c_int = 68;
const GEMM_DEFAULT: c_int = -1;
const NOT_TRANSPOSED: c_int = 0;

pub(super) fn run(
    bench: &Bench<'_>,
    loaded: &Loaded,
    precision: Precision,
) -> Result<StepResult, Stop> {
    let call = if is_half(precision) {
        "cublasGemmEx"
    } else {
        "cublasSgemm_v2"
    };
    let is_old = version_of(&loaded.soname) < 11;
    if is_old && precision != Precision::Fp32 {
        return Err(Stop::Absent("cublasGemmEx"));
    }
    if matches!(precision, Precision::Tf32 | Precision::Bf16) {
        bench.needs((8, 0), call)?;
    }
    let api = api(loaded.library);
    if !is_old {
        // libcublas is linked against libcublasLt, which has most of its kernels.
        api.make("cublasLtCreate", "cublasLtDestroy")?;
    }
    let handle = api.make("cublasCreate_v2", "cublasDestroy_v2")?;
    let math = match precision {
        Precision::Fp32 if !is_old => PEDANTIC_MATH,
        Precision::Tf32 => TF32_TENSOR_OP_MATH,
        _ => DEFAULT_MATH,
    };
    // SAFETY: the types that cublas_api.h declares; the handle was made above.
    unsafe { call!(api, "cublasSetMathMode", Pointer: handle.pointer, c_int: math)? };
    let product = Product::new(
        bench.driver,
        precision,
        bench.seed_of(Operation::Gemm, precision),
    )?;
    let [rows, columns, length] = [ROWS, COLUMNS, LENGTH].map(int);
    let (a, b, c) = (
        product.a.pointer(),
        product.b.pointer(),
        product.c.pointer(),
    );
    let (one, zero) = (1.0_f32, 0.0_f32);
    let kind = data_type(precision);
    let (no, handle) = (NOT_TRANSPOSED, handle.pointer);
    let (one, zero) = (&raw const one, &raw const zero);
    // SAFETY: the types that cublas_api.h declares; the buffers hold what the sizes say, and are distinct.
    unsafe {
        if is_half(precision) {
            call!(
                api, call, Pointer: handle, c_int: no, c_int: no, c_int: rows, c_int: columns, c_int: length,
                *const f32: one, *const c_void: a, c_int: kind, c_int: rows,
                *const c_void: b, c_int: kind, c_int: length,
                *const f32: zero, Pointer: c, c_int: kind, c_int: rows,
                c_int: COMPUTE_32F, c_int: GEMM_DEFAULT,
            )?;
        } else {
            call!(
                api, call, Pointer: handle, c_int: no, c_int: no, c_int: rows, c_int: columns, c_int: length,
                *const f32: one, *const c_void: a, c_int: rows, *const c_void: b, c_int: length,
                *const f32: zero, Pointer: c, c_int: rows,
            )?;
        }
    }
    Ok(product.compare()?)
}

pub(super) fn api(library: &Library) -> Api<'_> {
    // Not supported; not on this architecture.
    let is_unsupported = |status: c_int| matches!(status, 8 | 15);
    let message = |library: &Library, status: c_int| text(library, "cublasGetStatusString", status);
    Api {
        naming: "cublasGetStatusName",
        message,
        is_unsupported,
        ..Api::plain(library)
    }
}

fn is_half(precision: Precision) -> bool {
    matches!(precision, Precision::Fp16 | Precision::Bf16)
}

/// `cudaDataType`
pub(super) fn data_type(precision: Precision) -> c_int {
    match precision {
        Precision::Fp32 | Precision::Tf32 | Precision::None => 0,
        Precision::Fp64 => 1,
        Precision::Fp16 => 2,
        Precision::Bf16 => 14,
    }
}

/// 12 of `libcublas.so.12`
pub(super) fn version_of(soname: &str) -> u32 {
    soname_number(soname).unwrap_or(0)
}

/// Two matrices of whole numbers, memory for their product, and the expected product. All are stored by columns.
pub(super) struct Product<'d> {
    precision: Precision,
    pub a: Buffer<'d>,
    pub b: Buffer<'d>,
    pub c: Buffer<'d>,
    expected: Vec<f64>,
}

impl Product<'_> {
    pub(super) fn new(
        driver: &Driver,
        precision: Precision,
        seed: u32,
    ) -> Result<Product<'_>, Stop> {
        let (large, small) = ranges(precision, LENGTH);
        let mut random = Random::new(seed);
        let a = random.wholes(large, ROWS * LENGTH);
        let b = random.wholes(small, LENGTH * COLUMNS);
        Ok(Product {
            precision,
            a: upload(driver, precision, &a)?,
            b: upload(driver, precision, &b)?,
            c: blank(driver, precision, ROWS * COLUMNS)?,
            expected: product(&a, &b),
        })
    }

    pub(super) fn compare(self) -> Result<StepResult, ComputationFault> {
        let results = download(&self.c, self.precision, self.expected.len())?;
        compare_exact(results, self.expected, LENGTH)
    }
}

fn product(a: &[f32], b: &[f32]) -> Vec<f64> {
    let number = |at: usize| {
        let (row, column) = (at % ROWS, at / ROWS);
        let products =
            (0..LENGTH).map(|k| f64::from(a[k * ROWS + row]) * f64::from(b[column * LENGTH + k]));
        products.sum()
    };
    (0..ROWS * COLUMNS).map(number).collect()
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
