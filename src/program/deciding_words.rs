//! The words of a command and the settings that decide which program it will run.

use std::ffi::OsStr;
use std::path::Path;

use super::arguments::{CommandLine, PythonCode};
use super::model::Command;
use super::{python, wrapper};
use crate::host::Host;

/// The inputs that decide the program, besides those that count for every program.
pub struct DecidingWords {
    /// The number of arguments that count.
    pub arguments: usize,
    /// The one of them that is code of Python, in which numbers do not count: see [`without_numbers`].
    pub code: Option<usize>,
    /// True if the current directory counts.
    pub directory: bool,
    /// True if the variables count that only wrappers read: `wrapper_variables`.
    pub wrapper: bool,
}

/// The inputs that decide which program a command will run; PATH leads the command to `program`. Uses names alone
/// and reads no file: a cached start is found by the result.
pub fn deciding_words(host: &Host, program: &Path, command: &Command) -> DecidingWords {
    let every = DecidingWords {
        arguments: command.arguments.len(),
        code: None,
        directory: true,
        wrapper: true,
    };
    if wrapper::is_possible(program) {
        return every;
    }
    // The name may be a link to another wrapper, or to Python.
    let real = host
        .read_link(program)
        .ok()
        .and_then(|_| host.canonical(program).ok());
    if real.as_ref().is_some_and(|real| wrapper::is_possible(real)) {
        return every;
    }
    if python::is_python(program) || real.is_some_and(|real| python::is_python(&real)) {
        let line = CommandLine::parse(&command.arguments);
        if let PythonCode::Module(module) = &line.run
            && wrapper::is_possible(Path::new(module))
        {
            return every;
        }
        let is_code = matches!(line.run, PythonCode::Code(_));
        return DecidingWords {
            arguments: line.consumed,
            code: line.consumed.checked_sub(1).filter(|_| is_code),
            directory: true,
            wrapper: false,
        };
    }
    // A shim looks its program up from the current directory.
    let is_shim = program.parent().and_then(Path::file_name) == Some(OsStr::new("shims"));
    DecidingWords {
        arguments: 0,
        code: None,
        directory: is_shim,
        wrapper: false,
    }
}

/// Code of Python in which each number is 0, if it has no text: a number is then no part of a name, and cannot change
/// what is imported. A pool of processes starts each with the numbers of its own pipes.
pub fn without_numbers(code: &[u8]) -> Vec<u8> {
    if code.iter().any(|byte| matches!(byte, b'\'' | b'"')) {
        return code.to_vec();
    }
    code.chunk_by(|one, next| is_of_name(*one) == is_of_name(*next))
        .flat_map(|word| {
            let is_number = word.iter().all(u8::is_ascii_digit);
            if is_number { b"0" } else { word }
        })
        .copied()
        .collect()
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_code_do_not_count_unless_they_can_be_part_of_a_name() {
        for (code, kept) in [
            ("print(17)", "print(0)"),
            (
                "spawn_main(tracker_fd=5, pipe_handle=1234)",
                "spawn_main(tracker_fd=0, pipe_handle=0)",
            ),
            (
                "import torch2, a3 as b; f(1.5)",
                "import torch2, a3 as b; f(0.0)",
            ),
            ("import lib12", "import lib12"),
            (
                "ctypes.CDLL('libcudnn.so.9')",
                "ctypes.CDLL('libcudnn.so.9')",
            ),
            ("x = \"a\" * 3", "x = \"a\" * 3"),
            ("", ""),
        ] {
            assert_eq!(without_numbers(code.as_bytes()), kept.as_bytes());
        }
    }
}
