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
pub(super) enum Fault {
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
    pub(super) unsafe fn function<F: Copy>(&self, name: &'static str) -> Result<F, Fault> {
        // SAFETY: the caller vouches for the type.
        let found = unsafe { find(self.library, name) };
        found.ok_or_else(|| Fault::Refused {
            call: plain_name(name),
            code: 0,
            name: Some("no such function".to_owned()),
            message: None,
        })
    }

    pub(super) fn check(&self, call: &'static str, status: c_int) -> Result<(), Fault> {
        if status == 0 {
            return Ok(());
        }
        Err(Fault::Refused {
            call: plain_name(call),
            code: i64::from(status),
            name: (self.name)(self.library, status),
            message: (self.message)(self.library, status),
        })
    }

    /// Calls a function `status (object*)`.
    pub(super) fn make(
        &self,
        create: &'static str,
        destroy: &'static str,
    ) -> Result<Object, Fault> {
        let mut object = std::ptr::null_mut();
        // SAFETY: all these functions are declared so. Writes one pointer.
        unsafe { call!(self, create, *mut Pointer: &raw mut object)? };
        Ok(self.hold(object, destroy))
    }

    /// Takes over an object that a function `status (object)` destroys.
    pub(super) fn hold(&self, object: *mut c_void, destroy: &'static str) -> Object {
        // SAFETY: all functions that this is asked for are declared as `status (object)`.
        let destroy = unsafe { find(self.library, destroy) };
        Object {
            pointer: object,
            destroy,
        }
    }
}

/// A call as programs write it: headers add the version of its ABI.
fn plain_name(call: &'static str) -> &'static str {
    call.trim_end_matches("_v2")
}

/// An object of a library, destroyed when it is dropped.
pub(super) struct Object {
    pub pointer: *mut c_void,
    destroy: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
}

impl Drop for Object {
    fn drop(&mut self) {
        if let Some(destroy) = self.destroy {
            // SAFETY: the library made it, and it is given up here. A failure shows in the next call.
            unsafe { destroy(self.pointer) };
        }
    }
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
