//! Follows a typed name to the executable that the kernel will run: PATH, links, `#!` lines, shims.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::model::{Program, Running, StepKind};
use super::note::Note;
use super::options;
use super::shim::{self, ToolShim};
use crate::catalog::{Meaning, wrappers};
use crate::error::{Error, ExecRefusal};
use crate::host::Host;

/// POSIX `execvp` uses this when PATH is not set.
const DEFAULT_PATH: &str = "/bin:/usr/bin";
/// The kernel follows no more `#!` lines than this.
const INTERPRETER_LIMIT: usize = 5;
/// The kernel reads no more of a `#!` line, in bytes.
const LINE_LIMIT: u64 = 256;
/// Two paths of the greatest length, in bytes.
const SCRIPT_LIMIT: u64 = 8192;
/// Set in a `#!` line, these variables change which program runs or which files it finds. So do those of the loader.
const DECIDING: &[&str] = &["PATH", "PYTHONHOME", "PYTHONPATH"];

/// The file that `execvp` would run.
pub fn locate(host: &Host, name: &OsStr) -> Result<PathBuf, Error> {
    let typed = Path::new(name);
    if name.as_bytes().contains(&b'/') {
        // A wrapper may start it in another directory than that of cudarun.
        let path = host.absolute(typed);
        return match host.stat(&path) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Err(refused(typed, ExecRefusal::PermissionDenied))
            }
            Err(_) => Err(Error::NotFound {
                name: typed.to_owned(),
            }),
            Ok(stat) if stat.is_directory() => Err(refused(typed, ExecRefusal::IsDirectory)),
            Ok(_) if !host.is_executable(&path) => Err(refused(typed, ExecRefusal::NotExecutable)),
            Ok(_) => Ok(typed.to_owned()),
        };
    }
    if let Some(found) = candidates(host, name).find(|file| host.is_executable(file)) {
        return Ok(found);
    }
    // Like a shell, tells a missing file from one that cannot be run.
    Err(
        match candidates(host, name).find(|file| host.is_file(file)) {
            Some(file) => refused(&file, ExecRefusal::NotExecutable),
            None => Error::NotFound {
                name: typed.to_owned(),
            },
        },
    )
}

/// Follows links, `#!` lines and shims from the program to an executable. If the way is not known, a note is
/// added, and the result is `None`.
pub(super) fn follow(
    host: &Host,
    path: &Path,
    arguments: &[OsString],
    program: &mut Program,
) -> Result<Option<Running>, Error> {
    let mut running = Running {
        executable: host.absolute(path),
        arguments: arguments.to_vec(),
    };
    program.watched.insert(running.executable.clone());
    for _ in 0..INTERPRETER_LIMIT {
        let file = running.executable.clone();
        let real = match host.canonical(&file) {
            Ok(real) => real,
            Err(error) => return Err(cannot_run(host, path, file, error)),
        };
        if real != file {
            program.step(StepKind::Link, &real);
        }
        let start = match host.read_start(&real, LINE_LIMIT) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                program.notes.push(Note::NotReadable);
                return Ok(None);
            }
            Err(error) => return Err(cannot_run(host, path, file, error)),
            Ok(start) => start,
        };
        if shim::is_of_mise(&file, &real) {
            program.notes.push(Note::ShimOfMise);
            return Ok(None);
        }
        match shim::resolve(host, &real, &start, program) {
            ToolShim::No => {}
            ToolShim::Of(actual) => {
                program.step(StepKind::Shim, &actual);
                running.executable = actual;
                continue;
            }
            ToolShim::Unresolved => {
                program.notes.push(Note::ShimNotResolved);
                return Ok(None);
            }
        }
        if let Some(python) = python_of_script(host, &real, &start) {
            program.step(StepKind::Interpreter, &python);
            running.arguments.insert(0, file.into_os_string());
            running.executable = python;
            continue;
        }
        let Some((interpreter, argument)) = interpreter_line(&start) else {
            return Ok(Some(running));
        };
        let (interpreter, how, mut arguments) = through_env(host, interpreter, argument, program)?;
        program.step(how, &interpreter);
        arguments.push(file.into_os_string());
        arguments.append(&mut running.arguments);
        running = Running {
            executable: interpreter,
            arguments,
        };
    }
    Err(refused(path, ExecRefusal::Circle))
}

/// The error where `file`, the program or its interpreter, cannot be executed.
fn cannot_run(host: &Host, path: &Path, file: PathBuf, error: io::Error) -> Error {
    if file == host.absolute(path) {
        refused(&file, ExecRefusal::System { error })
    } else {
        refused(path, ExecRefusal::Interpreter { file, error })
    }
}

/// The Python of a script that pip wrote for a shell, because a `#!` line would be too long, relative, or would have
/// a blank. The shell executes the second line, which Python takes for a text.
fn python_of_script(host: &Host, script: &Path, start: &[u8]) -> Option<PathBuf> {
    const OWN_DIRECTORY: &str = r#""$(dirname -- "$(realpath -- "$0")")"/"#;
    if !start.starts_with(b"#!/bin/sh\n'''exec' ") {
        return None;
    }
    let text = host.read_start(script, SCRIPT_LIMIT).ok()?;
    let command = std::str::from_utf8(text.split(|byte| *byte == b'\n').nth(1)?)
        .ok()?
        .strip_prefix("'''exec' ")?
        .strip_suffix(r#" "$0" "$@""#)?;
    match command.strip_prefix(OWN_DIRECTORY) {
        Some(name) => Some(script.parent()?.join(unquoted(name)?)),
        None => Some(PathBuf::from(unquoted(command)?)).filter(|path| path.is_absolute()),
    }
}

/// A word of a shell without its quotes; `None` where the shell would change it.
fn unquoted(text: &str) -> Option<&str> {
    let plain = ['"', '\'']
        .iter()
        .find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote))
        .unwrap_or(text);
    (!plain.contains(['"', '\'', '$', '`', '\\'])).then_some(plain)
}

/// The interpreter of a `#!` line and its arguments. `#!/usr/bin/env python3` looks the interpreter up in PATH.
fn through_env(
    host: &Host,
    interpreter: PathBuf,
    argument: Option<OsString>,
    program: &mut Program,
) -> Result<(PathBuf, StepKind, Vec<OsString>), Error> {
    let is_env = interpreter.file_name() == Some(OsStr::new("env"));
    let Some(argument) = argument.filter(|argument| !argument.is_empty()) else {
        return Ok((interpreter, StepKind::Interpreter, Vec::new()));
    };
    let mut words = if is_env {
        words_of_env(&argument).into_iter()
    } else {
        Vec::new().into_iter()
    };
    let Some(name) = words.next() else {
        return Ok((interpreter, StepKind::Interpreter, vec![argument]));
    };
    program.located.extend(candidates(host, &name));
    Ok((
        host.absolute(&locate(host, &name)?),
        StepKind::Env,
        words.collect(),
    ))
}

/// The command in an argument of env; empty where another environment or directory decides what runs.
fn words_of_env(argument: &OsStr) -> Vec<OsString> {
    let start = wrappers()
        .iter()
        .find(|row| row.is_named("env"))
        .and_then(|row| options::read(row, &[argument.to_owned()], false).ok());
    let Some(start) = start else {
        return Vec::new();
    };
    let sets_deciding = start.set.iter().any(|(name, _)| {
        DECIDING.iter().any(|known| name == known) || name.as_bytes().starts_with(b"LD_")
    });
    let has_more = [Meaning::Clears, Meaning::Unsets, Meaning::Directory]
        .into_iter()
        .any(|meaning| start.has(meaning));
    if has_more || sets_deciding {
        Vec::new()
    } else {
        start.words
    }
}

/// The interpreter and its one argument, as the kernel reads them.
pub fn interpreter_line(start: &[u8]) -> Option<(PathBuf, Option<OsString>)> {
    let line = start.strip_prefix(b"#!")?;
    let line = line[..memchr::memchr(b'\n', line).unwrap_or(line.len())].trim_ascii();
    let cut = line
        .iter()
        .position(|byte| matches!(byte, b' ' | b'\t'))
        .unwrap_or(line.len());
    let (interpreter, argument) = (&line[..cut], line[cut..].trim_ascii());
    if interpreter.is_empty() {
        return None;
    }
    let argument = (!argument.is_empty()).then(|| OsString::from_vec(argument.to_vec()));
    Some((
        PathBuf::from(OsString::from_vec(interpreter.to_vec())),
        argument,
    ))
}

/// The value of PATH, or else the directories in which the C library looks.
pub fn path_of(host: &Host) -> &OsStr {
    host.env.get("PATH").unwrap_or(OsStr::new(DEFAULT_PATH))
}

/// The files of this name in the directories of PATH, in order. An empty element is the current directory.
pub fn candidates(host: &Host, name: &OsStr) -> impl Iterator<Item = PathBuf> {
    path_of(host)
        .as_bytes()
        .split(|byte| *byte == b':')
        .map(move |directory| {
            host.absolute(Path::new(OsStr::from_bytes(directory)))
                .join(name)
        })
}

fn refused(path: &Path, why: ExecRefusal) -> Error {
    Error::NotExecutable {
        path: path.to_owned(),
        why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_interpreter_lines_as_the_kernel_does() {
        for (text, expected) in [
            ("#!/bin/sh\necho", Some(("/bin/sh".into(), None))),
            (
                "#! /usr/bin/env  -S python3 -I \nx",
                Some(("/usr/bin/env".into(), Some("-S python3 -I".into()))),
            ),
            ("#!\n", None),
            ("\x7fELF", None),
            ("#!/no/newline", Some(("/no/newline".into(), None))),
        ] {
            assert_eq!(interpreter_line(text.as_bytes()), expected, "{text}");
        }
    }
}
