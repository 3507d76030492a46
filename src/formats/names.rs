//! Names of shared libraries in bytes: in a program's constants, in a script's strings. Numbers in names, and patterns
//! of names and paths.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::version::Version;

/// No library has a longer name. The bound keeps a hostile file from costing quadratic time.
const STEM_LIMIT: usize = 64;
/// No path is longer.
const PATH_LIMIT: usize = 4096;

/// Returns the first number of a SONAME's suffix: 11 of `11.2`.
pub fn first_number(suffix: &str) -> Option<u32> {
    suffix.split('.').next()?.parse().ok()
}

/// Returns the first number in the name of a library: 12 of `libcublas.so.12`.
pub fn soname_number(name: &str) -> Option<u32> {
    split(name).and_then(|(_, suffix)| first_number(suffix))
}

/// Returns the first four bytes. Most texts begin like no pattern of a table, which is found out sooner than that none matches.
pub fn beginning(text: &str) -> Option<u32> {
    Some(u32::from_le_bytes(*text.as_bytes().first_chunk()?))
}

pub fn beginnings<'p>(patterns: impl Iterator<Item = &'p String>) -> BTreeSet<u32> {
    patterns.filter_map(|pattern| beginning(pattern)).collect()
}

/// True if the text matches the pattern, in which one `*` may mean any text, and a `[0-9]` at the beginning a digit.
pub fn matches_pattern(pattern: &str, text: &str) -> bool {
    if let Some(rest) = pattern.strip_prefix("[0-9]") {
        let text = text.strip_prefix(|first: char| first.is_ascii_digit());
        return text.is_some_and(|text| matches_pattern(rest, text));
    }
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, end)) => {
            text.len() >= start.len() + end.len() && text.starts_with(start) && text.ends_with(end)
        }
    }
}

/// Returns the paths that a pattern leads to. A part with a `*` means the names in its directory, as `list` returns them,
/// that match; any other part need not exist.
pub fn expand(
    mut found: Vec<PathBuf>,
    pattern: &str,
    mut list: impl FnMut(&Path) -> Vec<String>,
) -> Vec<PathBuf> {
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        let mut next = Vec::new();
        for directory in found {
            if part == ".." {
                next.extend(directory.parent().map(Path::to_owned));
            } else if part.contains('*') {
                let names = list(&directory).into_iter();
                let matching = names.filter(|name| matches_pattern(part, name));
                next.extend(matching.map(|name| directory.join(name)));
            } else {
                next.push(directory.join(part));
            }
        }
        found = next;
    }
    found
}

/// Returns every `lib….so…` that is not part of a longer word or of a path, since no search applies to a path.
pub fn libraries(data: &[u8]) -> BTreeSet<String> {
    memchr::memmem::find_iter(data, b".so")
        .filter_map(|at| name_around(data, at))
        .collect()
}

/// Returns the known names in constants that are packed without separators, as Rust packs them. A name begins with the last
/// `lib` that makes it a known one, and ends with its numbers.
pub fn packed_libraries(data: &[u8], is_known: &dyn Fn(&str) -> bool) -> BTreeSet<String> {
    memchr::memmem::find_iter(data, b".so")
        .filter_map(|at| packed_name(data, at, is_known))
        .collect()
}

/// Returns every absolute path of a `lib….so…`. A path that is relative or starts with `$ORIGIN` counts only if it is a
/// whole text between NULs.
pub fn library_paths(data: &[u8]) -> BTreeSet<String> {
    memchr::memmem::find_iter(data, b".so")
        .filter_map(|at| path_around(data, at))
        .collect()
}

/// Returns every whole text between NULs that is the name or the path of a shared object: `plug.so`, `$ORIGIN/libx.so.1`.
pub fn whole_objects(data: &[u8]) -> BTreeSet<String> {
    memchr::memmem::find_iter(data, b".so")
        .filter_map(|at| text_around(data, at))
        .collect()
}

/// Splits a library's file name: `libcudnn_ops.so.9.1` is `libcudnn_ops` and `9.1`. A path is no name.
pub fn split(name: &str) -> Option<(&str, &str)> {
    let (stem, rest) = name.split_once(".so").filter(|_| !name.contains('/'))?;
    match rest.strip_prefix('.') {
        None if rest.is_empty() => Some((stem, "")),
        Some(numbers) if is_numbers(numbers) => Some((stem, numbers)),
        _ => None,
    }
}

/// Removes the hash from a name that auditwheel gave: `libcudnn-74a4c495.so.9.1.0` and
/// `libcudart.41118559.so.12` were `libcudnn.so.9.1.0` and `libcudart.so.12`.
pub fn without_hash(stem: &str) -> Option<&str> {
    let cut = stem.len().checked_sub(9)?;
    let (plain, tail) = (stem.get(..cut)?, stem.get(cut..)?);
    let separated = tail.starts_with(['-', '.']);
    let hash = tail.get(1..)?;
    let is_hash = hash
        .bytes()
        .all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'));
    (separated && is_hash && !plain.is_empty()).then_some(plain)
}

fn name_around(data: &[u8], at: usize) -> Option<String> {
    let start = stem_before(data, at);
    if !data[start..at].starts_with(b"lib") || data[..start].last() == Some(&b'/') {
        return None;
    }
    let end = end_of_numbers(data, at);
    let is_word =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'%' | b'.' | b'-' | b'{');
    if data.get(end).is_some_and(|byte| is_word(*byte)) {
        return None;
    }
    std::str::from_utf8(&data[start..end])
        .ok()
        .map(str::to_owned)
}

fn packed_name(data: &[u8], at: usize, is_known: &dyn Fn(&str) -> bool) -> Option<String> {
    let from = stem_before(data, at);
    let lib = memchr::memmem::rfind_iter(&data[from..at], b"lib");
    let end = end_of_numbers(data, at);
    let is_bare = end == at + 3;
    let goes_on =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'%' | b'.' | b'{');
    // Without a number, only the beginning of the next name tells where this one ends.
    if is_bare && !data[end..].starts_with(b"lib") && data.get(end).is_some_and(goes_on) {
        return None;
    }
    lib.map(|offset| from + offset)
        .filter(|start| data[..*start].last() != Some(&b'/'))
        .filter_map(|start| std::str::from_utf8(&data[start..end]).ok())
        .find(|name| is_known(name))
        .map(str::to_owned)
}

fn path_around(data: &[u8], at: usize) -> Option<String> {
    let start = stem_before(data, at);
    if !data[start..at].starts_with(b"lib") || data[..start].last() != Some(&b'/') {
        return None;
    }
    let from = start.saturating_sub(PATH_LIMIT);
    let is_path = |byte: &u8| {
        byte.is_ascii_graphic()
            && !matches!(
                byte,
                b'"' | b'\'' | b'`' | b':' | b';' | b'{' | b'}' | b'%' | b'$'
            )
    };
    let begin = from
        + data[from..start]
            .iter()
            .rposition(|byte| !is_path(byte))
            .map_or(0, |before| before + 1);
    let end = end_of_numbers(data, at);
    let before = &data[..begin];
    if before.ends_with(b"${ORIGIN}")
        || before.ends_with(b"$") && data[begin..].starts_with(b"ORIGIN/")
    {
        return text_around(data, at);
    }
    let path = std::str::from_utf8(&data[begin..end]).ok()?;
    // The program fills in a part between braces when it runs.
    let is_whole = !matches!(data[..begin].last(), Some(b'{' | b'}' | b'%' | b'$'));
    let is_text = begin.checked_sub(1).is_none_or(|before| data[before] == 0)
        && data.get(end).is_none_or(|end| *end == 0);
    (is_whole && (path.starts_with('/') || is_text)).then(|| path.to_owned())
}

fn text_around(data: &[u8], at: usize) -> Option<String> {
    let end = end_of_numbers(data, at);
    let from = at.saturating_sub(PATH_LIMIT);
    let begin = from + memchr::memrchr(0, &data[from..at]).map_or(0, |before| before + 1);
    let text = std::str::from_utf8(&data[begin..end]).ok()?;
    let is_path = begin < at && !text.chars().any(|c| c.is_control() || c == '%');
    (is_path && data.get(end).is_none_or(|end| *end == 0)).then(|| text.to_owned())
}

/// Returns the earliest start of the name whose `.so` is at `at`.
fn stem_before(data: &[u8], at: usize) -> usize {
    let is_stem =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'+' | b'.');
    let from = at.saturating_sub(STEM_LIMIT);
    from + data[from..at]
        .iter()
        .rposition(|byte| !is_stem(*byte))
        .map_or(0, |before| before + 1)
}

/// Returns the end of `.so` and the numbers after it.
fn end_of_numbers(data: &[u8], at: usize) -> usize {
    let mut end = at + 3;
    while let Some(rest) = data.get(end..).filter(|rest| rest.first() == Some(&b'.')) {
        let digits = rest[1..]
            .iter()
            .take(10)
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        if digits == 0 {
            break;
        }
        end += 1 + digits;
    }
    end
}

fn is_numbers(text: &str) -> bool {
    !text.is_empty()
        && text
            .split('.')
            .all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
}

/// Returns the version that cuDNN's engines expect of the rest, from an assertion in them: `cudnn_version != (9 * 10000 + 28
/// * 100 + 0)`.
pub fn asserted_cudnn(bytes: &[u8]) -> Option<Version> {
    const ASSERTION: &[u8] = b"cudnn_version != (";
    let start = memchr::memmem::find(bytes, ASSERTION)? + ASSERTION.len();
    let text = bytes[start..].split(|byte| *byte == b')').next()?;
    let terms = std::str::from_utf8(text.get(..text.len().min(64))?)
        .ok()?
        .split('+');
    let numbers: Option<Vec<u32>> = terms
        .map(|term| term.split('*').next()?.trim().parse().ok())
        .collect();
    numbers
        .filter(|numbers| numbers.len() == 3)
        .map(|numbers| Version::new(&numbers))
}
