//! Calls into a C library: its functions by their names, and its statuses in its own words. A status is a plain integer,
//! since a release may answer with one that no header here knows.

use std::ffi::{CStr, c_char, c_int, c_void};

use libloading::os::unix::Library;

use super::bench::{Bench, Refused, Tried, Wrong};
use crate::verify::protocol::{Came, Precision};

/// Why a computation came to no numbers.
pub(super) enum Stop {
    /// This release has no such function, or not for that.
    Absent(&'static str),
    /// It is not for this GPU or this release.
    NotSupported(Refused),
    Wrong(Wrong),
}

impl From<Refused> for Stop {
    fn from(refused: Refused) -> Stop {
        Stop::Wrong(refused.into())
    }
}

impl From<Wrong> for Stop {
    fn from(wrong: Wrong) -> Stop {
        Stop::Wrong(wrong)
    }
}

/// Of what every release must be able to do.
impl From<Stop> for Wrong {
    fn from(stop: Stop) -> Wrong {
        match stop {
            Stop::Absent(function) => Wrong::NoFunction(function),
            Stop::NotSupported(refused) => Wrong::Refused(refused),
            Stop::Wrong(wrong) => wrong,
        }
    }
}

/// The verdict on a computation. One in plain `float` can be had everywhere, and its refusal is a failure.
pub(super) fn settle(precision: Precision, came: Result<Came, Stop>) -> Tried {
    match came {
        Err(Stop::Absent(call)) => Ok(Came::NotSupported {
            call: call.to_owned(),
            code: 0,
            name: Some("not in this release".to_owned()),
        }),
        Err(Stop::NotSupported(refused)) if precision != Precision::Fp32 => {
            Ok(Came::NotSupported { call: refused.call.to_owned(), code: refused.code, name: refused.name })
        }
        came => Ok(came?),
    }
}

/// Stops where the GPU is older than what a call is to be asked for: not all releases refuse it.
pub(super) fn needs(bench: &Bench<'_>, capability: (i32, i32), call: &'static str) -> Result<(), Stop> {
    if bench.capability >= capability {
        return Ok(());
    }
    let (major, minor) = bench.capability;
    let name = Some(format!("compute capability {major}.{minor}"));
    Err(Stop::NotSupported(Refused { call, code: 0, name, message: None }))
}

/// A library, and how its statuses are read.
pub(super) struct Api<'l> {
    pub library: &'l Library,
    /// The function that gives the name of a status, `const char* (int)`, where there is one.
    pub naming: &'static str,
    pub message: fn(&Library, c_int) -> Option<String>,
    /// Of which statuses nothing is wrong.
    pub is_unsupported: fn(c_int) -> bool,
    /// Every release that is asked has all the functions: of the others it is known by their versions.
    pub has_all: bool,
}

impl<'l> Api<'l> {
    /// Of a library that says nothing of its statuses, and of which each is a fault.
    pub(super) fn plain(library: &'l Library) -> Api<'l> {
        Api { library, naming: "", message: |_, _| None, is_unsupported: |_| false, has_all: false }
    }
}

impl Api<'_> {
    /// A function of the library.
    ///
    /// # Safety
    /// `F` must be a function pointer of the type that the library's headers declare for the name.
    pub(super) unsafe fn function<F: Copy>(&self, name: &'static str) -> Result<F, Stop> {
        // SAFETY: the caller vouches for the type.
        let found = unsafe { find(self.library, name) };
        found.ok_or(if self.has_all { Stop::Wrong(Wrong::NoFunction(name)) } else { Stop::Absent(name) })
    }

    pub(super) fn check(&self, call: &'static str, status: c_int) -> Result<(), Stop> {
        match self.status(call, status) {
            Err(refused) if (self.is_unsupported)(status) => Err(Stop::NotSupported(refused)),
            answered => Ok(answered?),
        }
    }

    pub(super) fn status(&self, call: &'static str, status: c_int) -> Result<(), Refused> {
        if status == 0 {
            return Ok(());
        }
        let name = text(self.library, self.naming, status);
        Err(Refused { call, code: i64::from(status), name, message: (self.message)(self.library, status) })
    }

    /// What a function without further arguments makes.
    pub(super) fn make(&self, create: &'static str, destroy: &'static str) -> Result<Held, Stop> {
        // SAFETY: all functions that this is asked for are declared as `status (object*)`.
        let make: unsafe extern "C" fn(*mut *mut c_void) -> c_int = unsafe { self.function(create)? };
        let mut object = std::ptr::null_mut();
        // SAFETY: writes one pointer.
        self.check(create, unsafe { make(&raw mut object) })?;
        Ok(self.hold(object, destroy))
    }

    /// An object that was made, to be destroyed with a function that takes nothing else.
    pub(super) fn hold(&self, object: *mut c_void, destroy: &'static str) -> Held {
        // SAFETY: all functions that this is asked for are declared as `status (object)`.
        Held { object, destroy: unsafe { find(self.library, destroy) } }
    }
}

/// An object of a library, destroyed when it is dropped.
pub(super) struct Held {
    pub object: *mut c_void,
    destroy: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(destroy) = self.destroy {
            // SAFETY: the library made it, and it is given up here. A failure shows in the next call.
            unsafe { destroy(self.object) };
        }
    }
}

/// What a function `const char* (int)` of a library says of a status.
pub(super) fn text(library: &Library, function: &str, status: c_int) -> Option<String> {
    if function.is_empty() {
        return None;
    }
    // SAFETY: all functions that this is asked for are declared so, and give a static text for any number, or none.
    unsafe {
        let say: unsafe extern "C" fn(c_int) -> *const c_char = find(library, function)?;
        let text = say(status);
        (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
    }
}

/// What the loader says, which is in the source of such an error.
pub(super) fn loaders_words(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// # Safety
/// `F` must be a function pointer of the type that the library's headers declare for the name.
pub(super) unsafe fn find<F: Copy>(library: &Library, name: &str) -> Option<F> {
    // SAFETY: the caller vouches for the type.
    unsafe { library.get::<F>(name) }.ok().map(|symbol| *symbol)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unsupported_operation_fails_only_in_fp32() {
        let refused = Refused { call: "f", code: 9, name: Some("NO".to_owned()), message: None };
        let refuse = || Err(Stop::NotSupported(refused.clone()));
        let came = Came::NotSupported { call: "f".to_owned(), code: 9, name: Some("NO".to_owned()) };
        assert_eq!(settle(Precision::Fp16, refuse()), Ok(came));
        assert_eq!(settle(Precision::Fp32, refuse()), Err(Wrong::Refused(refused.clone())));
        assert_eq!(settle(Precision::Fp16, Err(refused.clone().into())), Err(Wrong::Refused(refused)));
        let absent = settle(Precision::Fp32, Err(Stop::Absent("g")));
        assert!(matches!(absent, Ok(Came::NotSupported { call, code: 0, .. }) if call == "g"));
    }
}
