//! The key of a kept start: the binary, the program, its arguments, and the variables that decide its requirements.

use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::builds;
use crate::environment::depends_on_directory;
use crate::host::Host;
use crate::program::{Command, deciding_words, is_at_terminal, without_numbers, wrapper_variables};
use crate::settings::files;
use crate::settings::keys::KEYS;
use crate::variables::{self, DECISIVE_PATHS, DECISIVE_VALUES, reaches_libraries};

/// Identifies a kept start or answer. Two keys are equal when all their parts are.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct StartKey(pub(super) Vec<u8>);

impl StartKey {
    pub fn new() -> StartKey {
        StartKey(Vec::with_capacity(1024))
    }

    /// Adds a part; `None` differs from an empty value.
    pub fn push(&mut self, value: Option<&[u8]>) {
        let length = value.map_or(u32::MAX, |value| {
            u32::try_from(value.len()).unwrap_or(u32::MAX - 1)
        });
        self.0.extend_from_slice(&length.to_le_bytes());
        self.0.extend_from_slice(value.unwrap_or_default());
    }

    pub(super) fn file_name(&self) -> String {
        let mut hasher = DefaultHasher::new();
        self.0.hash(&mut hasher);
        // A formatter would take as long as the hash.
        let digit =
            |shift: u32| char::from(b"0123456789abcdef"[(hasher.finish() >> shift & 15) as usize]);
        (0..16).rev().map(|place| digit(place * 4)).collect()
    }
}

/// Variables of settings that may hold relative paths, or mean the lock of the current directory.
const PATHS_OF_SETTINGS: [&str; 3] = [variables::ALSO, variables::LOCKED, variables::PIN];

/// The variables that a plan depends on.
fn of_plan() -> impl Iterator<Item = &'static str> {
    let of_settings = KEYS.iter().map(|row| row.variable);
    let of_settings = of_settings.filter(|name| !name.is_empty());
    DECISIVE_PATHS
        .iter()
        .chain(DECISIVE_VALUES)
        .copied()
        .chain(of_settings)
}

/// The key of a start: equal keys may share a kept decision. `program` is the file that PATH gives for the command.
/// `None` if the file of cudarun itself cannot be found.
pub fn start_key(
    host: &Host,
    program: &Path,
    command: &Command,
    is_build: bool,
) -> Option<StartKey> {
    let own = host.stat(Path::new("/proc/self/exe")).ok()?;
    let deciding = deciding_words(host, program, command);
    // A build is for the framework in the project's `.venv`.
    let needs_directory =
        is_build || deciding.directory || program.is_relative() || has_relative_paths(host);
    let mut key = StartKey::new();
    let mut part = |value: Option<&[u8]>| key.push(value);
    for number in [
        own.id.device,
        own.id.inode,
        own.modified.0.cast_unsigned(),
        own.modified.1.cast_unsigned(),
    ] {
        part(Some(&number.to_le_bytes()));
    }
    part(Some(&host.uid.to_le_bytes()));
    part(Some(program.as_os_str().as_bytes()));
    part(Some(command.program.as_bytes()));
    for (place, argument) in command
        .arguments
        .iter()
        .take(deciding.arguments)
        .enumerate()
    {
        if deciding.code == Some(place) {
            part(Some(&without_numbers(argument.as_bytes())));
        } else {
            part(Some(argument.as_bytes()));
        }
    }
    part(None);
    part(needs_directory.then(|| host.cwd.as_os_str().as_bytes()));
    for name in of_plan() {
        part(host.env.get(name).map(OsStr::as_bytes));
    }
    for (name, value) in host.env.iter() {
        if reaches_libraries(name) {
            part(Some(name.as_bytes()));
            part(Some(value.as_bytes()));
        }
    }
    part(None);
    // A program that compiles while it runs gets a toolkit as well.
    for name in builds::VARIABLES {
        part(host.env.get(name).map(OsStr::as_bytes));
    }
    part(is_build.then_some(&[][..]));
    // The project's file depends on the current directory.
    part(
        files::nearest(host)
            .as_deref()
            .map(|path| path.as_os_str().as_bytes()),
    );
    // A trace keeps the audit module loaded; the file that it writes to does not matter.
    part(host.env.non_empty(variables::TRACE).map(|_| &[][..]));
    for name in wrapper_variables().filter(|_| deciding.wrapper) {
        part(host.env.get(name).map(OsStr::as_bytes));
    }
    if deciding.wrapper {
        // A shell without arguments reads commands from its input; bash imports functions from the environment.
        part(Some(&[u8::from(is_at_terminal())]));
        for (name, value) in host
            .env
            .iter()
            .filter(|(name, _)| name.as_bytes().starts_with(b"BASH_FUNC_"))
        {
            part(Some(name.as_bytes()));
            part(Some(value.as_bytes()));
        }
    }
    Some(key)
}

/// True if a plan depends on this variable.
pub fn decides(name: &str) -> bool {
    of_plan().any(|variable| variable == name)
}

/// True if a variable holds a path that is relative to the current directory. An empty variable holds no path, except
/// `PATH`, where it means the current directory.
fn has_relative_paths(host: &Host) -> bool {
    DECISIVE_PATHS.iter().chain(&PATHS_OF_SETTINGS).any(|name| {
        let value = host.env.get(name).unwrap_or(OsStr::new("/"));
        let separators: &[u8] = match *name {
            variables::ALSO | "PATH" | "PYTHONPATH" => b":",
            variables::LIBRARY_PATH => b":;",
            variables::PRELOAD => b": ",
            _ => b"",
        };
        let mut parts = value.as_bytes().split(|byte| separators.contains(byte));
        (*name == "PATH" || !value.is_empty()) && parts.any(depends_on_directory)
    })
}
