//! A sum over all GPUs by NCCL. Source of the signatures: nccl.h of 2.21 and 2.32.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use cudarc::driver::sys::CUcontext;
use libloading::os::unix::Library;

use crate::verify::child::call::{Api, CallFailure, call, find, text};
use crate::verify::child::driver::Driver;
use crate::verify::child::numbers::{Random, compare, int};
use crate::verify::protocol::StepResult;

const COUNT: usize = 10_000;
/// Sums over 4096 GPUs are exact with this range.
const RANGE: u16 = 4095;
const FLOAT: c_int = 7;
const SUM: c_int = 0;

type Communicator = *mut c_void;

/// The algorithm is left to NCCL and to the environment.
pub(in crate::verify::child) fn all_reduce(
    driver: &Driver,
    library: &Library,
    devices: &[(u32, CUcontext)],
    seed: u32,
) -> Result<StepResult, CallFailure> {
    let api = Api {
        library,
        name: |library, status| text(library, "ncclGetErrorString", status),
        message: last_error,
    };
    let mut random = Random::new(seed);
    let mut expected = vec![0.0; COUNT];
    let mut buffers = Vec::new();
    for (_, context) in devices {
        driver.set_current(*context)?;
        let numbers = random.wholes(RANGE, COUNT);
        for (sum, number) in expected.iter_mut().zip(&numbers) {
            *sum += f64::from(*number);
        }
        buffers.push((
            driver.upload(&numbers)?,
            driver.upload(&vec![f32::NAN; COUNT])?,
        ));
    }
    let gpus: Vec<c_int> = devices
        .iter()
        .map(|(gpu, _)| c_int::try_from(*gpu).unwrap_or(c_int::MAX))
        .collect();
    let mut communicators = vec![ptr::null_mut(); gpus.len()];
    // SAFETY: the types that nccl.h declares; there is room for as many communicators as there are GPUs.
    unsafe {
        call!(
            api, "ncclCommInitAll", *mut Communicator: communicators.as_mut_ptr(), c_int: int(gpus.len()),
            *const c_int: gpus.as_ptr(),
        )?;
    }
    // After a failure from here on, the communicators stay, since to destroy them could wait for ever.
    // SAFETY: takes nothing and has no precondition.
    unsafe { call!(api, "ncclGroupStart")? };
    for (((_, context), communicator), (input, output)) in
        devices.iter().zip(&communicators).zip(&buffers)
    {
        driver.set_current(*context)?;
        // SAFETY: both buffers are of the communicator's GPU, and hold as many numbers.
        unsafe {
            call!(
                api, "ncclAllReduce", *const c_void: input.pointer(), *mut c_void: output.pointer(), usize: COUNT,
                c_int: FLOAT, c_int: SUM, Communicator: *communicator, *mut c_void: ptr::null_mut(),
            )?;
        }
    }
    // SAFETY: ends the group that was started above.
    unsafe { call!(api, "ncclGroupEnd")? };
    for ((_, context), (_, output)) in devices.iter().zip(&buffers) {
        driver.set_current(*context)?;
        compare(output.download::<f32>(COUNT)?, expected.iter().copied())?;
    }
    for communicator in communicators {
        // SAFETY: it was made above, has done its work, and is given up here.
        unsafe { call!(api, "ncclCommDestroy", Communicator: communicator)? };
    }
    Ok(StepResult::Right)
}

/// Since 2.13 NCCL has more than the name of a status.
fn last_error(library: &Library, _: c_int) -> Option<String> {
    // SAFETY: declared as `const char* (comm)`; without a communicator it gives the last error of this process, as a
    // text that ends with NUL, or none.
    unsafe {
        let get: unsafe extern "C" fn(Communicator) -> *const c_char =
            find(library, "ncclGetLastError")?;
        let text = get(ptr::null_mut());
        let text =
            (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().trim().to_owned());
        text.filter(|text| !text.is_empty())
    }
}
