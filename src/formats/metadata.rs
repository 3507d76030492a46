//! Python's text files: METADATA and RECORD of a distribution, `pyvenv.cfg`, `.pth` files.

use std::collections::{BTreeMap, BTreeSet};

mod requires;

pub use requires::{Requires, normalised};

/// The requirements in the header of a `METADATA` file. The header ends at the first empty line.
pub fn requirements(text: &str) -> Vec<Requires> {
    let mut requirements = Vec::new();
    for line in text.lines().take_while(|line| !line.is_empty()) {
        if let Some((field, value)) = line.split_once(':')
            && field.eq_ignore_ascii_case("requires-dist")
        {
            requirements.extend(requires::read(value.trim()));
        }
    }
    requirements
}

/// Path and size (bytes, if recorded) of each wanted shared object in a `RECORD`. Lines without `.so`, most of the
/// longest records, are skipped.
pub fn record(bytes: &[u8], is_wanted: &dyn Fn(&str) -> bool) -> Vec<(String, Option<u64>)> {
    let mut files = Vec::new();
    let mut end = 0;
    for position in memchr::memmem::find_iter(bytes, b".so") {
        if position < end {
            continue;
        }
        let start = memchr::memrchr(b'\n', &bytes[..position]).map_or(0, |before| before + 1);
        end = memchr::memchr(b'\n', &bytes[position..])
            .map_or(bytes.len(), |length| position + length);
        if let Some(line) = record_line(&bytes[start..end])
            && is_wanted(line.path)
        {
            files.push((line.path.to_owned(), line.size.trim().parse().ok()));
        }
    }
    files
}

/// The hash of a file in a `RECORD`, with the name of its algorithm.
pub fn recorded_hash<'r>(record: &'r [u8], path: &str) -> Option<&'r str> {
    record
        .split(|byte| *byte == b'\n')
        .filter_map(record_line)
        .find(|line| line.path == path && !line.hash.is_empty())
        .map(|line| line.hash)
}

/// `PATH,HASH,SIZE`.
struct RecordLine<'r> {
    path: &'r str,
    hash: &'r str,
    size: &'r str,
}

fn record_line(bytes: &[u8]) -> Option<RecordLine<'_>> {
    let (rest, size) = std::str::from_utf8(bytes).ok()?.rsplit_once(',')?;
    let (path, hash) = rest.rsplit_once(',')?;
    let path = path.trim_matches('"');
    Some(RecordLine { path, hash, size })
}

/// The top-level modules that a `RECORD` lists: packages, source files, extensions.
pub fn top_level(record: &str) -> BTreeSet<String> {
    let mut modules = BTreeSet::new();
    for line in record.lines() {
        let path = line.trim_start_matches('"').split([',', '"']).next();
        let path = path.unwrap_or_default();
        let first = path.split('/').next().unwrap_or_default();
        let is_directory = path.len() > first.len();
        let module = first.split('.').next().unwrap_or_default();
        let is_module = if is_directory {
            !first.contains('.')
        } else {
            first.ends_with(".py") || first.ends_with(".so")
        };
        if is_module && !matches!(module, "" | "__pycache__") {
            modules.insert(module.to_owned());
        }
    }
    modules
}

/// The `key = value` lines of a `pyvenv.cfg`, keys in lower case.
pub fn pyvenv(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .filter_map(|line| line.split_once('='))
        .map(|(key, value)| (key.trim().to_ascii_lowercase(), value.trim().to_owned()))
        .collect()
}

/// The directories that a `.pth` file adds. Lines of code are skipped.
pub fn pth_directories(text: &str) -> Vec<&str> {
    text.lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty() && !line.starts_with('#') && !is_code(line))
        .collect()
}

/// The code that a `.pth` file runs. Its lines keep their numbers.
pub fn pth_code(text: &str) -> String {
    text.lines()
        .flat_map(|line| [if is_code(line) { line } else { "" }, "\n"])
        .collect()
}

fn is_code(line: &str) -> bool {
    line.starts_with("import ") || line.starts_with("import\t")
}
