//! This process: its arguments, and the variables that decide about the looks of its output.
#![allow(clippy::disallowed_methods, reason = "this is the door that the lint guards")]

use std::ffi::OsString;

/// The arguments of this process, the program's name first.
pub fn arguments() -> Vec<OsString> {
    std::env::args_os().collect()
}

/// A variable of this process; `None` if it is empty.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
