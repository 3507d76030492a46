//! The words of a command and the settings that decide which program it will run.

use std::ffi::OsStr;
use std::path::Path;

use super::arguments::{CommandLine, Run};
use super::model::Command;
use super::{python, wrapper};
use crate::host::Host;

/// The inputs that decide the program, besides those that count for every program.
pub struct Significant {
    /// The number of arguments that count.
    pub arguments: usize,
    /// True if the current directory counts.
    pub directory: bool,
    /// True if the variables count that only wrappers read: `wrapper_variables`.
    pub wrapper: bool,
}

/// Returns the inputs that decide which program a command will run; PATH leads the command to `program`. Uses names alone
/// and reads no file: a cached start is found by the result.
pub fn significant(host: &Host, program: &Path, command: &Command) -> Significant {
    let is_python = |path: &Path| path.file_name().is_some_and(python::is_name);
    let every = || Significant {
        arguments: command.arguments.len(),
        directory: true,
        wrapper: true,
    };
    if wrapper::is_possible(program) {
        return every();
    }
    // The name may be a link to another wrapper, or to Python.
    let real = host
        .read_link(program)
        .ok()
        .and_then(|_| host.canonical(program).ok());
    if real.as_ref().is_some_and(|real| wrapper::is_possible(real)) {
        return every();
    }
    if is_python(program) || real.is_some_and(|real| is_python(&real)) {
        let line = CommandLine::parse(&command.arguments);
        if matches!(&line.run, Run::Module(module) if wrapper::is_possible(Path::new(module))) {
            return every();
        }
        return Significant {
            arguments: line.consumed,
            directory: true,
            wrapper: false,
        };
    }
    // A shim looks its program up from the current directory.
    let is_shim = program.parent().and_then(Path::file_name) == Some(OsStr::new("shims"));
    Significant {
        arguments: 0,
        directory: is_shim,
        wrapper: false,
    }
}
