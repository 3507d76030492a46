//! A sparse matrix, stored by rows, times a vector by cuSPARSE. Source of the signatures: cusparse.h of 11.7, 12.5 and
//! 12.9, which differ only in `const`.

use std::ffi::c_int;

use libloading::os::unix::Library;

use crate::verify::child::bench::{Bench, Loaded};
use crate::verify::child::call::{Api, Object, Pointer, call, text};
use crate::verify::child::driver::Buffer;
use crate::verify::child::numbers::{Random, blank, download, int, ranges, upload};
use crate::verify::child::outcome::{Stop, compare_exact};
use crate::verify::protocol::{Operation, Precision, StepResult};

const ROWS: usize = 200;
const COLUMNS: usize = 150;
/// The longest row. Some rows are empty.
const LENGTH: usize = 23;

const FLOAT: c_int = 0;
const INDEX_32: c_int = 2;
const BASE_ZERO: c_int = 0;
const NOT_TRANSPOSED: c_int = 0;
const DEFAULT_ALGORITHM: c_int = 0;

pub(super) fn run(
    bench: &Bench<'_>,
    loaded: &Loaded,
    precision: Precision,
) -> Result<StepResult, Stop> {
    let message =
        |library: &Library, status: c_int| text(library, "cusparseGetErrorString", status);
    let naming = "cusparseGetErrorName";
    let api = Api {
        naming,
        message,
        ..Api::plain(loaded.library)
    };
    let handle = api.make("cusparseCreate", "cusparseDestroy")?;
    let driver = bench.driver;
    let product = Product::new(bench.seed_of(Operation::SparseProduct, precision));
    let starts = driver.upload(&product.starts)?;
    let places = driver.upload(&product.places)?;
    let values = upload(driver, precision, &product.values)?;
    let factor = upload(driver, precision, &product.factor)?;
    let result = blank(driver, precision, ROWS)?;
    let mut object = std::ptr::null_mut();
    let (rows, columns, count) = (int(ROWS), int(COLUMNS), int(product.values.len()));
    // SAFETY: the types that cusparse.h declares; writes one pointer; the buffers hold what the sizes and types say.
    unsafe {
        call!(
            api, "cusparseCreateCsr", *mut Pointer: &raw mut object,
            i64: rows.into(), i64: columns.into(), i64: count.into(),
            Pointer: starts.pointer(), Pointer: places.pointer(), Pointer: values.pointer(),
            c_int: INDEX_32, c_int: INDEX_32, c_int: BASE_ZERO, c_int: FLOAT,
        )?;
    }
    let matrix = api.hold(object, "cusparseDestroySpMat");
    let from = vector(&api, COLUMNS, &factor)?;
    let to = vector(&api, ROWS, &result)?;
    let (handle, matrix, from, to) = (handle.pointer, matrix.pointer, from.pointer, to.pointer);
    let (one, zero) = (1.0_f32, 0.0_f32);
    let mut bytes = 0;
    // SAFETY: the types that cusparse.h declares; all objects were made above; writes one size.
    unsafe {
        call!(
            api, "cusparseSpMV_bufferSize", Pointer: handle, c_int: NOT_TRANSPOSED, *const f32: &raw const one,
            Pointer: matrix, Pointer: from, *const f32: &raw const zero, Pointer: to,
            c_int: FLOAT, c_int: DEFAULT_ALGORITHM, *mut usize: &raw mut bytes,
        )?;
    }
    let room = driver.allocate(bytes)?;
    // SAFETY: as above. The buffer has the size that was asked for.
    unsafe {
        call!(
            api, "cusparseSpMV", Pointer: handle, c_int: NOT_TRANSPOSED, *const f32: &raw const one,
            Pointer: matrix, Pointer: from, *const f32: &raw const zero, Pointer: to,
            c_int: FLOAT, c_int: DEFAULT_ALGORITHM, Pointer: room.pointer(),
        )?;
    }
    let results = download(&result, precision, ROWS)?;
    Ok(compare_exact(results, product.expected, LENGTH)?)
}

fn vector(api: &Api<'_>, size: usize, numbers: &Buffer<'_>) -> Result<Object, Stop> {
    let mut object = std::ptr::null_mut();
    // SAFETY: the types that cusparse.h declares; writes one pointer, and the buffer holds as many numbers.
    unsafe {
        call!(
            api, "cusparseCreateDnVec", *mut Pointer: &raw mut object, i64: int(size).into(),
            Pointer: numbers.pointer(), c_int: FLOAT,
        )?;
    }
    Ok(api.hold(object, "cusparseDestroyDnVec"))
}

/// A sparse matrix of whole numbers, a vector, and their expected product.
struct Product {
    /// The index of each row's first value, and the number of values.
    starts: Vec<i32>,
    /// The column of each value.
    places: Vec<i32>,
    values: Vec<f32>,
    factor: Vec<f32>,
    expected: Vec<f64>,
}

impl Product {
    fn new(seed: u32) -> Product {
        let (large, small) = ranges(Precision::Fp32, LENGTH);
        let mut random = Random::new(seed);
        let factor = random.wholes(small, COLUMNS);
        let (mut starts, mut places, mut values) = (vec![0], Vec::new(), Vec::new());
        let mut expected = Vec::with_capacity(ROWS);
        for _ in 0..ROWS {
            let length = random.next() as usize % (LENGTH + 1);
            let first = random.next() as usize % (COLUMNS / LENGTH);
            let mut sum = 0.0;
            for step in 0..length {
                let place = first + step * (COLUMNS / LENGTH);
                let value = random.whole(large);
                sum += f64::from(value) * f64::from(factor[place]);
                places.push(int(place));
                values.push(value);
            }
            starts.push(int(values.len()));
            expected.push(sum);
        }
        Product {
            starts,
            places,
            values,
            factor,
            expected,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::child::numbers::fits;

    #[test]
    fn rows_are_sorted_within_the_matrix_and_some_are_empty() {
        let product = Product::new(7);
        assert_eq!(product.starts.len(), ROWS + 1);
        let mut lengths = Vec::new();
        for ends in product.starts.windows(2) {
            let row = &product.places
                [usize::try_from(ends[0]).unwrap()..usize::try_from(ends[1]).unwrap()];
            assert!(row.is_sorted_by(|a, b| a < b));
            assert!(row.iter().all(|place| (0..int(COLUMNS)).contains(place)));
            lengths.push(row.len());
        }
        assert!(lengths.contains(&0) && lengths.contains(&LENGTH));
        let (large, small) = ranges(Precision::Fp32, LENGTH);
        assert!(fits(LENGTH, large, small, 24));
    }
}
