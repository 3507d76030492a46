//! The command that was probably meant by one whose program is not found or cannot be run.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use strsim::osa_distance;

use crate::host::Host;
use crate::program::locate;
use crate::text::nearest;

/// Programs that run files with these endings.
const RUNNERS: &[(&str, &str)] = &[
    ("py", "python"),
    ("sh", "bash"),
    ("bash", "bash"),
    ("pl", "perl"),
    ("jl", "julia"),
    ("R", "Rscript"),
];
/// Pythons, in the order in which they are tried for `python`.
const PYTHONS: &[&str] = &[".venv/bin/python", "venv/bin/python", "python3", "python"];
/// Each correction is of one word, so a few are enough.
const STEPS: usize = 4;

/// Returns the command with the program that was meant, which can be found; the command itself if it needs no correction.
pub(super) fn command(host: &Host, words: &[OsString]) -> Option<Vec<OsString>> {
    corrected(host, words, STEPS)
}

/// Returns a Python that can be found.
pub(super) fn python(host: &Host) -> Option<&'static str> {
    PYTHONS
        .iter()
        .copied()
        .find(|name| locate(host, name.as_ref()).is_ok())
}

fn corrected(host: &Host, words: &[OsString], steps: usize) -> Option<Vec<OsString>> {
    let (first, rest) = words.split_first()?;
    if locate(host, first).is_ok() {
        return Some(words.to_vec());
    }
    let (name, path, steps) = (first.to_str()?, Path::new(first), steps.checked_sub(1)?);
    let instead = |program: &str| {
        let words: Vec<OsString> = std::iter::once(program.into())
            .chain(rest.iter().cloned())
            .collect();
        corrected(host, &words, steps)
    };
    let with = |runner: &str| {
        let runner = if runner == "python" {
            python(host)?
        } else {
            runner
        };
        let found = locate(host, runner.as_ref()).is_ok();
        found.then(|| {
            std::iter::once(runner.into())
                .chain(words.iter().cloned())
                .collect()
        })
    };
    if host.is_file(path) {
        if host.is_executable(path) {
            return instead(&format!("./{name}"));
        }
        let ending = path.extension()?;
        let (_, runner) = RUNNERS.iter().find(|(known, _)| ending == *known)?;
        return with(runner);
    }
    if host.is_file(&path.join("__main__.py")) {
        return with("python");
    }
    if let Some((variable, _)) = name.split_once('=')
        && variable
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_')
    {
        let command = corrected(host, rest, steps)?;
        let found = locate(host, "env".as_ref()).is_ok();
        return found.then(|| {
            ["env".into(), first.clone()]
                .into_iter()
                .chain(command)
                .collect()
        });
    }
    if name.contains(char::is_whitespace) {
        let parts = name
            .split_whitespace()
            .map(OsString::from)
            .chain(rest.iter().cloned());
        return corrected(host, &parts.collect::<Vec<_>>(), steps);
    }
    let lower = name.to_lowercase();
    if lower.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.') == "python" {
        return instead(python(host)?);
    }
    // `pyhton3` means `python3`, where there is one.
    let stem = lower.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    if nearest(stem, std::iter::once("python")).is_some() {
        let named = format!("python{}", &lower[stem.len()..]);
        let is_there = locate(host, named.as_ref()).is_ok();
        return instead(if is_there { &named } else { "python" });
    }
    // Short names are like many others, and a hint must not start an unrelated program.
    let names = if lower.len() > 3 {
        programs(host)
    } else {
        Vec::new()
    };
    instead(names.iter().find(|name| osa_distance(&lower, name) == 1)?)
}

/// Returns the names of the files in the directories of PATH.
fn programs(host: &Host) -> Vec<String> {
    let path = host.env.get("PATH").unwrap_or_default().as_bytes();
    let directories = path
        .split(|byte| *byte == b':')
        .filter(|directory| directory.starts_with(b"/"));
    let listed = |directory| {
        host.list(Path::new(OsStr::from_bytes(directory)))
            .unwrap_or_default()
    };
    let names = directories.flat_map(listed);
    names
        .filter_map(|entry| entry.name.into_string().ok())
        .collect()
}
