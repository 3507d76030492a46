//! The command line that was probably meant by a wrong one.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::cli::{self, Cli, VERBS};
use crate::diagnose::LogReader;
use crate::error::Error;
use crate::host::Host;
use crate::program::locate;
use crate::report;
use crate::text::nearest;

/// Pythons, in the order in which they are tried for `python`.
const PYTHONS: &[&str] = &[".venv/bin/python", "venv/bin/python", "python3", "python"];

/// Returns the words after `cudarun` that were probably meant, after the error of a program that is not found or cannot be run.
pub fn after_error(host: &Host, error: &Error, arguments: &[OsString]) -> Option<Vec<OsString>> {
    let (Error::NotFound { name } | Error::NotExecutable { path: name, .. }) = error else {
        return None;
    };
    let at = arguments.iter().position(|word| word == name.as_os_str())?;
    let (before, command) = (arguments.get(1..at)?, &arguments[at..]);
    let (typed, rest) = (name.to_str()?, &command[1..]);
    let text = command.join(OsStr::new(" "));
    let mut reader = LogReader::default();
    reader.take(text.as_encoded_bytes());
    if typed.contains(": ") || !reader.messages().is_empty() {
        let diagnose = [OsString::from("diagnose")];
        let is_diagnose = before.contains(&diagnose[0]);
        let before = if is_diagnose { before } else { &diagnose };
        return Some([before, &["--text".into(), text]].concat());
    }
    if cli::first_word(arguments) == Some(at)
        && let Some(verb) = nearest(typed, VERBS.iter().copied())
    {
        let line = [&arguments[..at], &[verb.into()], rest].concat();
        return Cli::parse_words(&line).is_ok().then(|| line[1..].to_vec());
    }
    Some([before, &started(host, name, command)?].concat())
}

/// The command that starts a script without its interpreter or without `./`, or a Python by another name.
fn started(host: &Host, path: &Path, command: &[OsString]) -> Option<Vec<OsString>> {
    let python = || {
        let is_there = |name: &&&str| locate(host, OsStr::new(name)).is_ok();
        PYTHONS.iter().find(is_there).copied()
    };
    // Only a name without a slash is looked up in PATH.
    if path.file_name() == Some(path.as_os_str()) && host.is_executable(path) {
        let program = Path::new(".").join(path).into();
        return Some([&[program], &command[1..]].concat());
    }
    let runner = match path.extension().and_then(OsStr::to_str) {
        Some("py") if host.is_file(path) => python()?,
        Some("sh") if host.is_file(path) => "bash",
        _ if host.is_file(&path.join("__main__.py")) => python()?,
        _ => {
            let name = path.to_str()?.to_lowercase();
            let stem = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
            let is_python = stem == "python" || nearest(stem, ["python"].into_iter()).is_some();
            let python = is_python.then(python)??;
            return Some([&[python.into()], &command[1..]].concat());
        }
    };
    Some([&[runner.into()], command].concat())
}

/// The verbs that have the unknown option of an error, in words; empty for another error.
pub fn owners(error: &clap::Error) -> String {
    let (ErrorKind::UnknownArgument, Some(ContextValue::String(wrong))) =
        (error.kind(), error.get(ContextKind::InvalidArg))
    else {
        return String::new();
    };
    let command = Cli::command();
    let has_it = |verb: &&clap::Command| {
        let mut longs = verb.get_arguments().filter_map(clap::Arg::get_long);
        longs.any(|long| wrong.strip_prefix("--") == Some(long))
    };
    let owners = command.get_subcommands().filter(has_it);
    let owners: Vec<String> = owners.map(|verb| verb.get_name().to_owned()).collect();
    report::option_of(wrong, &owners)
}
