//! A sum over all GPUs by NCCL. Source of the signatures: nccl.h of 2.21 and 2.32.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use libloading::os::unix::Library;

use crate::verify::child::call::{Api, find};
use crate::verify::child::driver::{Context, Driver};
use crate::verify::child::numbers::Random;
use crate::verify::child::outcome::{Stop, compare};
use crate::verify::protocol::{Came, Measure};

const COUNT: usize = 10_000;
/// Sums over 4096 GPUs are exact with this range.
const RANGE: u16 = 4095;
const FLOAT: c_int = 7;
const SUM: c_int = 0;

type Communicator = *mut c_void;
type InitAll = unsafe extern "C" fn(*mut Communicator, c_int, *const c_int) -> c_int;
type Destroy = unsafe extern "C" fn(Communicator) -> c_int;
type Group = unsafe extern "C" fn() -> c_int;
type AllReduce =
    unsafe extern "C" fn(*const c_void, *mut c_void, usize, c_int, c_int, Communicator, *mut c_void) -> c_int;

/// The algorithm is left to NCCL and to the environment.
pub(in crate::verify::child) fn all_reduce(
    driver: &Driver,
    library: &Library,
    devices: &[(u32, Context)],
    seed: u32,
) -> Result<Came, Stop> {
    let api = Api { naming: "ncclGetErrorString", message: last_error, ..Api::plain(library) };
    // SAFETY: these are the types that nccl.h declares for the names.
    let (init, destroy, start, end, all_reduce): (InitAll, Destroy, Group, Group, AllReduce) = unsafe {
        (
            api.function("ncclCommInitAll")?,
            api.function("ncclCommDestroy")?,
            api.function("ncclGroupStart")?,
            api.function("ncclGroupEnd")?,
            api.function("ncclAllReduce")?,
        )
    };
    let mut random = Random::new(seed);
    let mut expected = vec![0.0; COUNT];
    let mut buffers = Vec::new();
    for (_, context) in devices {
        driver.set_current(*context)?;
        let numbers = random.wholes(RANGE, COUNT);
        expected.iter_mut().zip(&numbers).for_each(|(sum, number)| *sum += f64::from(*number));
        buffers.push((driver.upload(&numbers)?, driver.upload(&vec![f32::NAN; COUNT])?));
    }
    let gpus: Vec<c_int> =
        devices.iter().map(|(gpu, _)| c_int::try_from(*gpu).unwrap_or(c_int::MAX)).collect();
    let count = c_int::try_from(gpus.len()).unwrap_or(c_int::MAX);
    let mut communicators = vec![ptr::null_mut(); gpus.len()];
    // SAFETY: there is room for as many communicators as there are GPUs.
    api.check("ncclCommInitAll", unsafe { init(communicators.as_mut_ptr(), count, gpus.as_ptr()) })?;
    // After a failure from here on, the communicators stay, since to destroy them could wait for ever.
    // SAFETY: takes nothing and has no precondition.
    api.check("ncclGroupStart", unsafe { start() })?;
    for (((_, context), communicator), (from, to)) in devices.iter().zip(&communicators).zip(&buffers) {
        driver.set_current(*context)?;
        let (from, to, stream) = (from.pointer(), to.pointer(), ptr::null_mut());
        // SAFETY: both buffers are of the GPU that the communicator is for, and hold as many numbers.
        let status = unsafe { all_reduce(from, to, COUNT, FLOAT, SUM, *communicator, stream) };
        api.check("ncclAllReduce", status)?;
    }
    // SAFETY: ends the group that was started above.
    api.check("ncclGroupEnd", unsafe { end() })?;
    let mut worst = Measure { largest_error: 0.0, allowed: 0.0, length: 0 };
    for ((_, context), (_, to)) in devices.iter().zip(&buffers) {
        driver.set_current(*context)?;
        let results: Vec<f32> = to.download(COUNT)?;
        let pairs = results.iter().zip(&expected);
        let pairs = pairs.map(|(got, expected)| (f64::from(*got), *expected, 0.0));
        if let Came::Right(measure) = compare(pairs, gpus.len())? {
            worst = measure;
        }
    }
    for communicator in communicators {
        // SAFETY: it was made above, has done its work, and is given up here.
        api.check("ncclCommDestroy", unsafe { destroy(communicator) })?;
    }
    Ok(Came::Right(worst))
}

/// Since 2.13 NCCL has more than the name of a status.
fn last_error(library: &Library, _: c_int) -> Option<String> {
    // SAFETY: declared as `const char* (comm)`; without a communicator it gives the last error of this process, as a
    // text that ends with NUL, or none.
    unsafe {
        let get: unsafe extern "C" fn(Communicator) -> *const c_char = find(library, "ncclGetLastError")?;
        let text = get(ptr::null_mut());
        let text = (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().trim().to_owned());
        text.filter(|text| !text.is_empty())
    }
}
