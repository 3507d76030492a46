//! Which words of a command decide what it will run.

use std::ffi::OsStr;
use std::path::Path;

use super::arguments::{CommandLine, Run};
use super::model::Command;
use super::{python, wrapper};
use crate::host::Host;

/// What decides what will run, besides what does so for every program.
pub struct Significant {
    /// How many of the arguments.
    pub arguments: usize,
    /// Whether the current directory does.
    pub directory: bool,
    /// Whether the variables do that only wrappers read: `wrapper_variables`.
    pub wrapper: bool,
    /// Whether standard input is a terminal, for wrappers alone.
    pub at_terminal: bool,
}

/// What decides what a command will run; `program` is what PATH says of it. Read from names alone, before any
/// file: this is what a cached plan is found by.
pub fn significant(host: &Host, program: &Path, command: &Command) -> Significant {
    let is_python = |path: &Path| path.file_name().is_some_and(python::is_name);
    let every = || Significant {
        arguments: command.arguments.len(),
        directory: true,
        wrapper: true,
        at_terminal: wrapper::is_at_terminal(),
    };
    if wrapper::is_possible(program) {
        return every();
    }
    // A tool may be a link to Python, and find by its own name what it is to run; or to another wrapper.
    let real = host.read_link(program).ok().and_then(|_| host.canonical(program).ok());
    if real.as_ref().is_some_and(|real| wrapper::is_possible(real)) {
        return every();
    }
    if is_python(program) || real.is_some_and(|real| is_python(&real)) {
        let line = CommandLine::parse(&command.arguments);
        if matches!(&line.run, Run::Module(module) if wrapper::is_possible(Path::new(module))) {
            return every();
        }
        return Significant { arguments: line.consumed, directory: true, wrapper: false, at_terminal: false };
    }
    // What a shim starts is looked up from the current directory.
    let is_shim = program.parent().and_then(Path::file_name) == Some(OsStr::new("shims"));
    Significant { arguments: 0, directory: is_shim, wrapper: false, at_terminal: false }
}
