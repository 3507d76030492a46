//! This process: its arguments, and the variables that decide about the looks of its output.
#![allow(
    clippy::disallowed_methods,
    reason = "this is the door that the lint guards"
)]

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::Path;

/// The arguments of this process, the program's name first.
pub fn arguments() -> Vec<OsString> {
    std::env::args_os().collect()
}

/// Opens what a person named: a file with its size, a pipe, a device.
pub fn open_named(path: &Path) -> io::Result<(File, Option<u64>)> {
    let file = File::open(path)?;
    let found = file.metadata()?;
    Ok((file, found.is_file().then_some(found.len())))
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
