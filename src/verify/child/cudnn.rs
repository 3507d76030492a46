//! cuDNN 7, 8 and 9, with the signatures that all three share. Source of the signatures here and of the convolution:
//! cudnn.h of 7.6, 8.9.7, 9.1.0 and 9.28.0.
#![allow(
    unsafe_code,
    reason = "calls into a C library; each call is checked against NVIDIA's headers"
)]

use std::ffi::{CStr, c_char, c_int};

use libloading::os::unix::Library;

use super::call::{Api, CallFailure, find, text};

/// The checks of 8, then of 9, each in the order in which the sublibraries depend on each other.
const VERSION_CHECKS: &[&str] = &[
    "cudnnOpsInferVersionCheck",
    "cudnnOpsTrainVersionCheck",
    "cudnnCnnInferVersionCheck",
    "cudnnCnnTrainVersionCheck",
    "cudnnAdvInferVersionCheck",
    "cudnnAdvTrainVersionCheck",
    "cudnnGraphVersionCheck",
    "cudnnOpsVersionCheck",
    "cudnnCnnVersionCheck",
    "cudnnAdvVersionCheck",
    "cudnnSubquadraticOpsVersionCheck",
];

pub(super) fn api(library: &Library) -> Api<'_> {
    Api {
        library,
        name: |library, status| text(library, "cudnnGetErrorString", status),
        message,
    }
}

/// The functions of every proof.
pub(super) const NEEDED: &[&str] = &["cudnnGetVersion", "cudnnCreate", "cudnnDestroy"];

/// 91900 is 9.19.0, and 8907 is 8.9.7.
pub(super) fn version(library: &Library) -> Result<u64, CallFailure> {
    let name = "cudnnGetVersion";
    // SAFETY: declared as `size_t (void)`; has no precondition.
    let version =
        unsafe { find::<unsafe extern "C" fn() -> usize>(library, name).map(|get| get()) };
    version
        .map(|version| version as u64)
        .ok_or_else(|| CallFailure::missing(name))
}

/// Runs the sublibraries' checks of each other's versions. cuDNN 7 has no sublibraries.
pub(super) fn check_versions(library: &Library) -> Result<(), CallFailure> {
    for call in VERSION_CHECKS {
        // SAFETY: declared as `cudnnStatus_t (void)` in the headers of 8 and 9, absent in those that lack it.
        let check: Option<unsafe extern "C" fn() -> c_int> = unsafe { find(library, call) };
        // SAFETY: takes nothing and has no precondition.
        let status = check.map_or(0, |check| unsafe { check() });
        api(library).check(call, status)?;
    }
    Ok(())
}

/// Since 9.0 a library has more than the name of a status.
fn message(library: &Library, _: c_int) -> Option<String> {
    // SAFETY: declared as `void (char*, size_t)`; writes at most that many bytes, NUL included.
    let buffer = unsafe {
        let get: unsafe extern "C" fn(*mut c_char, usize) =
            find(library, "cudnnGetLastErrorString")?;
        let mut buffer = [0_u8; 1024];
        get(buffer.as_mut_ptr().cast(), buffer.len());
        buffer
    };
    let text = CStr::from_bytes_until_nul(&buffer)
        .ok()?
        .to_string_lossy()
        .trim()
        .to_owned();
    (!text.is_empty()).then_some(text)
}
