//! This process: its arguments, and the variables that decide about the looks of its output.
#![allow(
    clippy::disallowed_methods,
    reason = "this is the door that the lint guards"
)]

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal, Read, Seek};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::environment::{Diff, Environment};

/// The arguments that count in the place of those of this process.
static ARGUMENTS: OnceLock<Vec<OsString>> = OnceLock::new();

/// The arguments of this process, the program's name first.
pub fn arguments() -> Vec<OsString> {
    match ARGUMENTS.get() {
        Some(arguments) => arguments.clone(),
        None => std::env::args_os().collect(),
    }
}

/// Sets what [`arguments`] returns from here on, once.
pub fn set_arguments(arguments: Vec<OsString>) {
    let _ = ARGUMENTS.set(arguments);
}

/// The environment of this process.
pub fn environment() -> Environment {
    std::env::vars_os().collect()
}

/// Changes the environment of this process. Only before it has a second thread.
#[allow(unsafe_code, reason = "says what makes it sound")]
pub fn change_environment(diff: &Diff) {
    for (name, value) in &diff.0 {
        // SAFETY: there is one thread.
        unsafe {
            match value {
                Some(value) => std::env::set_var(name, value),
                None => std::env::remove_var(name),
            }
        }
    }
}

/// The first line of a file, or as much of it as the kernel reads for `#!`; `None` if it cannot be read.
pub fn first_line(path: &Path) -> Option<Vec<u8>> {
    const LIMIT: usize = 512;
    let mut start = [0; LIMIT];
    let length = File::open(path).ok()?.read(&mut start).ok()?;
    let line = start[..length].split(|byte| *byte == b'\n').next()?;
    Some(line.to_vec())
}

/// Opens what a person named: a file with its size, a pipe, a device.
pub fn open_named(path: &Path) -> io::Result<(File, Option<u64>)> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    Ok((file, metadata.is_file().then_some(metadata.len())))
}

/// Standard input, and if it is a terminal.
pub fn standard_input() -> (impl Read, bool) {
    let input = std::io::stdin();
    let is_terminal = input.is_terminal();
    (input, is_terminal)
}

/// What standard input is, for a command that can do without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipedInput {
    /// A pipe with data, or a file from which nothing was read yet.
    Data,
    /// Anything else: a terminal, `/dev/null`, a socket, an empty file, a pipe that was closed without data.
    None,
    /// A pipe without data that another process holds open, as launchers give it to their processes.
    Silent,
}

/// Tells what standard input is. Reads nothing from it, and waits for the first data of an open pipe no longer than `patience`.
pub fn piped_input(patience: Duration) -> PipedInput {
    let input = io::stdin();
    let Ok(file) = input.as_fd().try_clone_to_owned().map(File::from) else {
        return PipedInput::None;
    };
    let Ok(metadata) = file.metadata() else {
        return PipedInput::None;
    };
    if metadata.is_file() {
        // A script or a list that somebody has begun to read is no log.
        let is_at_start = (&file).stream_position().is_ok_and(|offset| offset == 0);
        return if is_at_start && metadata.len() > 0 {
            PipedInput::Data
        } else {
            PipedInput::None
        };
    }
    if !metadata.file_type().is_fifo() {
        return PipedInput::None;
    }
    let mut polled = [PollFd::new(file.as_fd(), PollFlags::POLLIN)];
    let timeout = PollTimeout::try_from(patience).unwrap_or(PollTimeout::ZERO);
    let _ = poll(&mut polled, timeout);
    let events = polled[0].revents().unwrap_or(PollFlags::empty());
    if events.contains(PollFlags::POLLIN) {
        PipedInput::Data
    } else if events.is_empty() {
        PipedInput::Silent
    } else {
        PipedInput::None
    }
}

/// A variable of this process; `None` if it is empty.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
