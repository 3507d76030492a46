//! This process: its arguments, and the variables that decide about the looks of its output.
#![allow(clippy::disallowed_methods, reason = "this is the door that the lint guards")]

use std::ffi::OsString;
use std::io::{IsTerminal, Read};

/// The arguments of this process, the program's name first.
pub fn arguments() -> Vec<OsString> {
    std::env::args_os().collect()
}

/// Standard input, and if it is a terminal.
pub fn standard_input() -> (impl Read, bool) {
    let input = std::io::stdin();
    let is_terminal = input.is_terminal();
    (input, is_terminal)
}

/// A variable of this process; `None` if it is empty.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
