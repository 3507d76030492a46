//! A product of matrices by cuBLASLt, with the algorithm that its heuristics choose, as in frameworks. Source of the
//! signatures: cublasLt.h of 11.11, 12.8 and 13.10.

use std::ffi::{c_int, c_void};
use std::ptr;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use super::blas::{self, COLUMNS, COMPUTE_32F, LENGTH, Product, ROWS};
use crate::verify::child::bench::{Bench, Loaded};
use crate::verify::child::call::{Api, Object, Pointer, call, loaders_words, text};
use crate::verify::child::numbers::int;
use crate::verify::child::outcome::{Refused, Stop};
use crate::verify::protocol::{Operation, Precision, StepResult};

const COMPUTE_32F_PEDANTIC: c_int = 69;
const COMPUTE_32F_FAST_TF32: c_int = 77;
const MAX_WORKSPACE_BYTES: c_int = 1;
/// PyTorch's limit before Hopper, in bytes.
const WORKSPACE: usize = 1 << 20;
/// `CUBLAS_STATUS_NOT_SUPPORTED`
const NOT_SUPPORTED: c_int = 15;

/// `cublasLtMatmulHeuristicResult_t`
#[repr(C)]
#[derive(Default)]
struct Choice {
    algorithm: [u64; 8],
    workspace: usize,
    status: c_int,
    waves: f32,
    reserved: [c_int; 4],
}

pub(super) fn run(
    bench: &Bench<'_>,
    loaded: &Loaded,
    precision: Precision,
) -> Result<StepResult, Stop> {
    // Before CUDA 11 it has other arguments.
    if blas::version_of(&loaded.soname) < 11 {
        return Err(Stop::Absent("cublasLtMatmul"));
    }
    if matches!(precision, Precision::Tf32 | Precision::Bf16) {
        bench.needs((8, 0), "cublasLtMatmul")?;
    }
    let library = open(&loaded.soname.replacen("libcublas.", "libcublasLt.", 1))?;
    let message =
        |library: &Library, status: c_int| text(library, "cublasLtGetStatusString", status);
    let lt = Api {
        naming: "cublasLtGetStatusName",
        message,
        ..blas::api(&library)
    };
    let handle = lt.make("cublasLtCreate", "cublasLtDestroy")?;
    let compute = match precision {
        Precision::Fp32 => COMPUTE_32F_PEDANTIC,
        Precision::Tf32 => COMPUTE_32F_FAST_TF32,
        _ => COMPUTE_32F,
    };
    let description = describe_product(&lt, compute)?;
    let matrix = |rows, columns| describe_matrix(&lt, blas::data_type(precision), rows, columns);
    let (a, b, c) = (
        matrix(ROWS, LENGTH)?,
        matrix(LENGTH, COLUMNS)?,
        matrix(ROWS, COLUMNS)?,
    );
    let preference = lt.make(
        "cublasLtMatmulPreferenceCreate",
        "cublasLtMatmulPreferenceDestroy",
    )?;
    let mut choice = Choice::default();
    let mut count = 0;
    // SAFETY: the types that cublasLt.h declares; all objects were made above, and there is room for one choice.
    unsafe {
        call!(
            lt, "cublasLtMatmulPreferenceSetAttribute", Pointer: preference.pointer, c_int: MAX_WORKSPACE_BYTES,
            *const c_void: (&raw const WORKSPACE_BYTES).cast(), usize: size_of::<u64>(),
        )?;
        let call = "cublasLtMatmulAlgoGetHeuristic";
        call!(
            lt, call, Pointer: handle.pointer, Pointer: description.pointer,
            Pointer: a.pointer, Pointer: b.pointer, Pointer: c.pointer, Pointer: c.pointer,
            Pointer: preference.pointer, c_int: 1, *mut Choice: &raw mut choice, *mut c_int: &raw mut count,
        )?;
        lt.check(
            call,
            if count == 0 {
                NOT_SUPPORTED
            } else {
                choice.status
            },
        )?;
    }
    let product = Product::new(
        bench.driver,
        precision,
        bench.seed_of(Operation::GemmLt, precision),
    )?;
    let workspace = bench.driver.allocate(WORKSPACE)?;
    let (one, zero) = (1.0_f32, 0.0_f32);
    // SAFETY: as above. The buffers hold what the descriptions say. C and D may be one matrix.
    unsafe {
        call!(
            lt, "cublasLtMatmul", Pointer: handle.pointer, Pointer: description.pointer, *const f32: &raw const one,
            *const c_void: product.a.pointer(), Pointer: a.pointer,
            *const c_void: product.b.pointer(), Pointer: b.pointer, *const f32: &raw const zero,
            *const c_void: product.c.pointer(), Pointer: c.pointer, Pointer: product.c.pointer(), Pointer: c.pointer,
            *const [u64; 8]: &raw const choice.algorithm, Pointer: workspace.pointer(), usize: WORKSPACE,
            Pointer: ptr::null_mut(),
        )?;
    }
    Ok(product.compare()?)
}

static WORKSPACE_BYTES: u64 = WORKSPACE as u64;

fn open(soname: &str) -> Result<Library, Stop> {
    // SAFETY: libcublas needs this file, so that it is loaded already and no constructors run.
    unsafe { Library::open(Some(soname), RTLD_NOW | RTLD_LOCAL) }.map_err(|error| {
        let message = Some(loaders_words(&error));
        Refused {
            call: "dlopen",
            code: 0,
            name: Some(soname.to_owned()),
            message,
        }
        .into()
    })
}

fn describe_product(lt: &Api<'_>, compute: c_int) -> Result<Object, Stop> {
    let (mut object, scale) = (ptr::null_mut(), blas::data_type(Precision::Fp32));
    // SAFETY: the types that cublasLt.h declares; writes one pointer.
    unsafe {
        call!(lt, "cublasLtMatmulDescCreate", *mut Pointer: &raw mut object, c_int: compute, c_int: scale)?;
    }
    Ok(lt.hold(object, "cublasLtMatmulDescDestroy"))
}

fn describe_matrix(lt: &Api<'_>, kind: c_int, rows: usize, columns: usize) -> Result<Object, Stop> {
    let mut object = ptr::null_mut();
    // SAFETY: the types that cublasLt.h declares; writes one pointer.
    unsafe {
        call!(
            lt, "cublasLtMatrixLayoutCreate", *mut Pointer: &raw mut object, c_int: kind,
            u64: rows as u64, u64: columns as u64, i64: int(rows).into(),
        )?;
    }
    Ok(lt.hold(object, "cublasLtMatrixLayoutDestroy"))
}
