//! Calls into a C library: functions by name, and statuses with the library's own names. A status is a plain integer,
//! since a release may return one that no known header declares.

use std::ffi::{CStr, c_char, c_int, c_void};

use libloading::os::unix::Library;

/// Calls a function of a library, `status (...)`, and checks its status. Each argument follows the type that the library's
/// header declares for it, so that the call itself is the declaration.
macro_rules! call {
    ($api:expr, $name:expr $(, $kind:ty: $value:expr)* $(,)?) => {{
        let name: &'static str = $name;
        let function = $api.function::<unsafe extern "C" fn($($kind),*) -> std::ffi::c_int>(name);
        function.and_then(|function| $api.check(name, function($($value),*)))
    }};
}
pub(super) use call;

/// A pointer to an object of a library, or into the memory of a GPU.
pub(super) type Pointer = *mut c_void;

/// The fault of a step.
#[derive(Debug)]
pub(super) enum CallFailure {
    /// The library of the step does not load, or is another one.
    NotLoaded(String),
    /// A call failed.
    Refused {
        call: &'static str,
        code: i64,
        name: Option<String>,
        message: Option<String>,
    },
    /// The first wrong number: its error if that is finite, and its index.
    Numbers {
        largest_error: Option<f64>,
        element: usize,
    },
}

impl CallFailure {
    pub(super) fn missing(function: &str) -> CallFailure {
        CallFailure::NotLoaded(format!("no function {function}"))
    }
}

/// A library, and the texts that it has for a status.
pub(super) struct Api<'l> {
    pub library: &'l Library,
    pub name: fn(&Library, c_int) -> Option<String>,
    pub message: fn(&Library, c_int) -> Option<String>,
}

impl<'l> Api<'l> {
    /// A library without texts for its statuses.
    pub(super) fn plain(library: &'l Library) -> Api<'l> {
        Api {
            library,
            name: |_, _| None,
            message: |_, _| None,
        }
    }
}

impl Api<'_> {
    /// A function of the library.
    ///
    /// # Safety
    /// `F` must be a function pointer of the type that the library's headers declare for the name.
    pub(super) unsafe fn function<F: Copy>(&self, name: &'static str) -> Result<F, CallFailure> {
        // SAFETY: the caller vouches for the type.
        let found = unsafe { find(self.library, name) };
        found.ok_or_else(|| CallFailure::missing(name))
    }

    pub(super) fn check(&self, call: &'static str, status: c_int) -> Result<(), CallFailure> {
        if status == 0 {
            return Ok(());
        }
        Err(CallFailure::Refused {
            call: plain_name(call),
            code: i64::from(status),
            name: (self.name)(self.library, status),
            message: (self.message)(self.library, status),
        })
    }

    /// Calls a function `status (object*)`. What it makes is destroyed only where that is a part of the proof, since this
    /// process ends at once, and a library may crash at it after a failed call.
    pub(super) fn make(&self, create: &'static str) -> Result<Pointer, CallFailure> {
        let mut object = std::ptr::null_mut();
        // SAFETY: all these functions are declared so. Writes one pointer.
        unsafe { call!(self, create, *mut Pointer: &raw mut object)? };
        Ok(object)
    }

    /// Calls a function `status (object)`.
    pub(super) fn destroy(
        &self,
        destroy: &'static str,
        object: Pointer,
    ) -> Result<(), CallFailure> {
        // SAFETY: all these functions are declared so. The library made the object, which is given up here.
        unsafe { call!(self, destroy, Pointer: object) }
    }
}

/// Fails if a function that the proof calls is missing, so that the fault is that of this library.
pub(super) fn require(library: &Library, functions: &[&'static str]) -> Result<(), CallFailure> {
    for name in functions {
        // SAFETY: it is a function, which is not called here.
        if unsafe { find::<unsafe extern "C" fn()>(library, name) }.is_none() {
            return Err(CallFailure::missing(name));
        }
    }
    Ok(())
}

/// A call as programs write it: headers add the version of its ABI.
fn plain_name(call: &'static str) -> &'static str {
    call.trim_end_matches("_v2")
}

/// The text of a status, from a function `const char* (int)` of the library.
pub(super) fn text(library: &Library, function: &str, status: c_int) -> Option<String> {
    // SAFETY: all functions that this is asked for are declared so, and give a static text for any number, or none.
    unsafe {
        let say: unsafe extern "C" fn(c_int) -> *const c_char = find(library, function)?;
        let text = say(status);
        (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
    }
}

/// # Safety
/// `F` must be a function pointer of the type that the library's headers declare for the name.
pub(super) unsafe fn find<F: Copy>(library: &Library, name: &str) -> Option<F> {
    // SAFETY: the caller vouches for the type.
    unsafe { library.get::<F>(name) }.ok().map(|symbol| *symbol)
}
