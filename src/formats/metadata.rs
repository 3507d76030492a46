//! Python's text files: METADATA and RECORD of a distribution, `pyvenv.cfg`, `.pth` files.

use std::collections::{BTreeMap, BTreeSet};

mod requires;

pub use requires::{Requires, normalised};

/// Returns the requirements in the header of a `METADATA` file. The header ends at the first empty line.
pub fn requirements(text: &str) -> Vec<Requires> {
    let fields = text
        .lines()
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_once(':'));
    let required = fields.filter(|(field, _)| field.eq_ignore_ascii_case("requires-dist"));
    required
        .filter_map(|(_, value)| requires::read(value.trim()))
        .collect()
}

/// Returns path and size (bytes, if recorded) of each wanted shared object in a `RECORD`. Lines without `.so`, most of the
/// longest records, are skipped.
pub fn record(bytes: &[u8], is_wanted: &dyn Fn(&str) -> bool) -> Vec<(String, Option<u64>)> {
    let mut found = Vec::new();
    let mut end = 0;
    for at in memchr::memmem::find_iter(bytes, b".so") {
        if at < end {
            continue;
        }
        let start = memchr::memrchr(b'\n', &bytes[..at]).map_or(0, |before| before + 1);
        end = memchr::memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |length| at + length);
        let Ok(line) = std::str::from_utf8(&bytes[start..end]) else {
            continue;
        };
        let fields = line
            .rsplit_once(',')
            .and_then(|(rest, size)| Some((rest.rsplit_once(',')?.0, size)));
        let Some((path, size)) = fields else { continue };
        let path = path.trim_matches('"');
        if is_wanted(path) {
            found.push((path.to_owned(), size.trim().parse().ok()));
        }
    }
    found
}

/// Returns the hash of a file in a `RECORD`, with the name of its algorithm.
pub fn recorded_hash<'r>(record: &'r [u8], path: &str) -> Option<&'r str> {
    let lines = record
        .split(|byte| *byte == b'\n')
        .filter_map(|line| std::str::from_utf8(line).ok());
    lines.into_iter().find_map(|line| {
        let (rest, _) = line.rsplit_once(',')?;
        let (name, hash) = rest.rsplit_once(',')?;
        (name.trim_matches('"') == path && !hash.is_empty()).then_some(hash)
    })
}

/// Returns the top-level modules that a `RECORD` lists: packages, source files, extensions.
pub fn top_level(record: &str) -> BTreeSet<String> {
    record
        .lines()
        .filter_map(|line| {
            let path = line.trim_start_matches('"').split([',', '"']).next()?;
            let first = path.split('/').next()?;
            let is_directory = path.len() > first.len();
            let is_module = is_directory || first.ends_with(".py") || first.ends_with(".so");
            let module = first.split('.').next()?;
            let is_name =
                !module.is_empty() && !first.ends_with(".dist-info") && module != "__pycache__";
            (is_module && is_name && !(is_directory && first.contains('.')))
                .then(|| module.to_owned())
        })
        .collect()
}

/// Returns the `key = value` lines of a `pyvenv.cfg`, keys in lower case.
pub fn pyvenv(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .filter_map(|line| line.split_once('='))
        .map(|(key, value)| (key.trim().to_ascii_lowercase(), value.trim().to_owned()))
        .collect()
}

/// Returns the directories that a `.pth` file adds. Lines of code are skipped.
pub fn pth_directories(text: &str) -> Vec<&str> {
    text.lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty() && !line.starts_with('#') && !is_code(line))
        .collect()
}

/// Returns the code that a `.pth` file runs. Its lines keep their numbers.
pub fn pth_code(text: &str) -> String {
    text.lines()
        .flat_map(|line| [if is_code(line) { line } else { "" }, "\n"])
        .collect()
}

fn is_code(line: &str) -> bool {
    line.starts_with("import ") || line.starts_with("import\t")
}
