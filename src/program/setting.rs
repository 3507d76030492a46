//! The files that a wrapper reads before it starts its program. Runs nothing, and knows no language: a file that names a
//! variable of the loader may set it.

use std::path::{Path, PathBuf};

use super::model::Program;
use super::note::Note;
use super::options::Start;
use crate::catalog::{Meaning, Part, Wrapper};
use crate::host::Host;

const NAMES: &[&[u8]] = &[b"LD_LIBRARY_PATH", b"LD_PRELOAD", b"LD_AUDIT"];
/// Code with one of these words may run other code.
const FOLLOWED: &[&[u8]] = &[b"source ", b". ", b"eval ", b"PATH="];

/// Returns the first file that a wrapper reads at every start and that names a variable of the loader.
pub(super) fn at_start(
    host: &Host,
    row: &Wrapper,
    start: &Start,
    program: &mut Program,
) -> Result<Option<PathBuf>, Note> {
    if start.has(Meaning::NoStartup) {
        return Ok(None);
    }
    let below_variable = |file: &String| {
        let (name, file) = file.strip_prefix('$')?.split_once('/')?;
        let directory = host
            .env
            .non_empty(name)
            .map(PathBuf::from)
            .or_else(|| host.home())?;
        Some(host.absolute(&directory).join(file))
    };
    let own: Vec<PathBuf> = row.startup.iter().filter_map(below_variable).collect();
    let general = row
        .startup
        .iter()
        .filter(|file| file.starts_with('/'))
        .map(PathBuf::from);
    let sets = own
        .iter()
        .cloned()
        .chain(general)
        .find(|file| sets(host, file, program));
    if sets.is_none() && row.has(&Part::Shell) && own.iter().any(|file| has(host, file, FOLLOWED)) {
        return Err(Note::StartsAnother);
    }
    Ok(sets)
}

/// True if a file names a variable of the loader.
pub(super) fn sets(host: &Host, file: &Path, program: &mut Program) -> bool {
    program.watched.insert(file.to_owned());
    has(host, file, NAMES)
}

/// True if a file of assignments changes which program or environment is found.
pub(super) fn moves(host: &Host, file: &Path) -> bool {
    let text = host.read_text(file).unwrap_or_default();
    let name = |line: &str| {
        let line = line.trim();
        line.strip_prefix("export ")
            .unwrap_or(line)
            .split('=')
            .next()
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    text.lines()
        .any(|line| matches!(name(line).as_str(), "PATH" | "VIRTUAL_ENV"))
}

fn has(host: &Host, file: &Path, words: &[&[u8]]) -> bool {
    let text = host.read(file).unwrap_or_default();
    words
        .iter()
        .any(|word| memchr::memmem::find(&text, word).is_some())
}
