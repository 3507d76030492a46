//! The files that a wrapper reads before it starts its program, and what they say of the variables of the loader. Runs
//! nothing, and knows no language: a file that names one of them may set it.

use std::path::{Path, PathBuf};

use super::Program;
use super::options::Start;
use crate::catalog::{Runs, Wrapper};
use crate::host::Host;

const NAMES: &[&[u8]] = &[b"LD_LIBRARY_PATH", b"LD_PRELOAD", b"LD_AUDIT"];
/// With one of these in it, code may do what does not stand in it.
const FOLLOWED: &[&[u8]] = &[b"source ", b". ", b"eval ", b"PATH="];

/// What files say.
pub(super) enum Says {
    Nothing,
    /// This one names a variable of the loader.
    Sets(PathBuf),
    /// It reads more, or changes what is found.
    Unclear,
}

/// What the files say that it reads at every start.
pub(super) fn at_start(host: &Host, row: &Wrapper, start: &Start, program: &mut Program) -> Says {
    let own = row.startup_home.as_ref().and_then(|name| host.env.non_empty(name)).map(PathBuf::from);
    let Some(home) = own.or_else(|| host.home()) else { return Says::Nothing };
    let without: Vec<&str> = row.startup_without.iter().map(String::as_str).collect();
    if start.option(&without).is_some() {
        return Says::Nothing;
    }
    let files: Vec<PathBuf> = row.startup.iter().map(|file| host.absolute(&home).join(file)).collect();
    if let Some(file) = files.iter().find(|file| sets(host, file, program)) {
        return Says::Sets(file.clone());
    }
    let is_unclear = |file: &PathBuf| file.starts_with(&home) && has(host, file, FOLLOWED);
    if row.runs == Runs::Shell && files.iter().any(is_unclear) {
        return Says::Unclear;
    }
    Says::Nothing
}

/// Whether a file names a variable of the loader.
pub(super) fn sets(host: &Host, file: &Path, program: &mut Program) -> bool {
    program.watched.insert(file.to_owned());
    has(host, file, NAMES)
}

/// Whether a file of assignments changes what is found.
pub(super) fn moves(host: &Host, file: &Path) -> bool {
    let text = host.read_text(file).unwrap_or_default();
    let name = |line: &str| {
        let line = line.trim();
        line.strip_prefix("export ").unwrap_or(line).split('=').next().unwrap_or_default().trim().to_owned()
    };
    text.lines().any(|line| matches!(name(line).as_str(), "PATH" | "VIRTUAL_ENV"))
}

fn has(host: &Host, file: &Path, words: &[&[u8]]) -> bool {
    let text = host.read(file).unwrap_or_default();
    words.iter().any(|word| memchr::memmem::find(&text, word).is_some())
}
