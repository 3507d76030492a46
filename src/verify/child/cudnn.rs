//! cuDNN 7, 8 and 9, with the signatures that all three share.
#![allow(
    unsafe_code,
    reason = "calls into a C library; each call is checked against NVIDIA's headers"
)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use libloading::os::unix::Library;

use super::call::{Api, find};
use super::outcome::Refused;

pub(super) type Handle = *mut c_void;

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

/// Source of the signatures here and of convolutions: cudnn.h of 7.6, 8.9.7, 9.1.0 and 9.28.0; of gradients: of 8.9.7,
/// 9.10.2 and 9.28.0.
pub(super) struct Cudnn<'l> {
    pub api: Api<'l>,
    get_version: unsafe extern "C" fn() -> usize,
    create: unsafe extern "C" fn(*mut Handle) -> c_int,
    destroy: unsafe extern "C" fn(Handle) -> c_int,
}

impl Cudnn<'_> {
    /// `Err` names a missing function.
    pub(super) fn new(library: &Library) -> Result<Cudnn<'_>, &'static str> {
        let api = Api {
            library,
            naming: "cudnnGetErrorString",
            message,
            is_unsupported,
            has_all: true,
        };
        // SAFETY: these are the types that cuDNN's headers declare for the names.
        unsafe {
            Ok(Cudnn {
                api,
                get_version: find(library, "cudnnGetVersion").ok_or("cudnnGetVersion")?,
                create: find(library, "cudnnCreate").ok_or("cudnnCreate")?,
                destroy: find(library, "cudnnDestroy").ok_or("cudnnDestroy")?,
            })
        }
    }

    /// 91900 is 9.19.0, and 8907 is 8.9.7.
    pub(super) fn version(&self) -> u64 {
        // SAFETY: takes nothing and has no precondition.
        (unsafe { (self.get_version)() }) as u64
    }

    pub(super) fn create(&self) -> Result<Handle, Refused> {
        let mut handle = ptr::null_mut();
        // SAFETY: writes one pointer.
        let status = unsafe { (self.create)(&raw mut handle) };
        self.api.status("cudnnCreate", status)?;
        Ok(handle)
    }

    pub(super) fn destroy(&self, handle: Handle) -> Result<(), Refused> {
        // SAFETY: `handle` came from `create` and is given up here.
        let status = unsafe { (self.destroy)(handle) };
        self.api.status("cudnnDestroy", status)
    }

    /// Runs the sublibraries' checks of each other's versions. cuDNN 7 has no sublibraries.
    pub(super) fn check_versions(&self, library: &Library) -> Result<(), Refused> {
        for call in VERSION_CHECKS {
            // SAFETY: declared as `cudnnStatus_t (void)` in the headers of 8 and 9, absent in those that lack it.
            let check: Option<unsafe extern "C" fn() -> c_int> = unsafe { find(library, call) };
            // SAFETY: takes nothing and has no precondition.
            let status = check.map_or(0, |check| unsafe { check() });
            self.api.status(call, status)?;
        }
        Ok(())
    }
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

/// In 8: not supported, architecture mismatch. In 9: the `NOT_SUPPORTED` codes, without those that report a missing or
/// incompatible driver, runtime or library.
fn is_unsupported(status: c_int) -> bool {
    matches!(status, 6 | 9 | 3000..=3004 | 3007 | 3010..=3014)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_mismatched_parts_are_not_unsupported() {
        for status in [6, 9, 3000, 3003, 3007, 3014] {
            assert!(is_unsupported(status), "{status}");
        }
        for status in [
            0, 1, 3, 8, 11, 1001, 1002, 2000, 3005, 3006, 3008, 3009, 4000, 5000,
        ] {
            assert!(!is_unsupported(status), "{status}");
        }
    }
}
