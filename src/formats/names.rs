//! Names of shared libraries in bytes: in a program's constants, in a script's strings. Numbers in names, and patterns
//! of names and paths.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::version::Version;

/// No library has a longer name. The bound keeps a hostile file from costing quadratic time.
const STEM_LIMIT: usize = 64;
/// No path is longer.
const PATH_LIMIT: usize = 4096;

/// The first number of a SONAME's suffix: 11 of `11.2`.
pub fn first_number(suffix: &str) -> Option<u32> {
    suffix.split('.').next()?.parse().ok()
}

/// The first number in the name of a library: 12 of `libcublas.so.12`.
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

/// The paths that a pattern leads to. A part with a `*` means the names in its directory, as `list` returns them,
/// that match; any other part need not exist.
pub fn expand(
    mut paths: Vec<PathBuf>,
    pattern: &str,
    mut list: impl FnMut(&Path) -> Vec<String>,
) -> Vec<PathBuf> {
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        let mut next = Vec::new();
        for directory in paths {
            if part == ".." {
                next.extend(directory.parent().map(Path::to_owned));
            } else if part.contains('*') {
                for name in list(&directory) {
                    if matches_pattern(part, &name) {
                        next.push(directory.join(name));
                    }
                }
            } else {
                next.push(directory.join(part));
            }
        }
        paths = next;
    }
    paths
}

/// Every `lib….so…` that is not part of a longer word or of a path, since no search applies to a path.
pub fn libraries(data: &[u8]) -> BTreeSet<String> {
    memchr::memmem::find_iter(data, b".so")
        .filter_map(|dot| name_around(data, dot))
        .collect()
}

/// The known names in constants that are packed without separators, as Rust packs them. A name begins with the last
/// `lib` that makes it a known one, and ends with its numbers.
pub fn packed_libraries(data: &[u8], is_known: &dyn Fn(&str) -> bool) -> BTreeSet<String> {
    memchr::memmem::find_iter(data, b".so")
        .filter_map(|dot| packed_name(data, dot, is_known))
        .collect()
}

/// Every absolute path of a `lib….so…`. A path that is relative or starts with `$ORIGIN` counts only if it is a
/// whole text between NULs.
pub fn library_paths(data: &[u8]) -> BTreeSet<String> {
    memchr::memmem::find_iter(data, b".so")
        .filter_map(|dot| path_around(data, dot))
        .collect()
}

/// Every whole text between NULs that is the name or the path of a shared object: `plug.so`, `$ORIGIN/libx.so.1`.
pub fn whole_objects(data: &[u8]) -> BTreeSet<String> {
    memchr::memmem::find_iter(data, b".so")
        .filter_map(|dot| text_around(data, dot))
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
    let (plain, tail) = stem.split_at_checked(stem.len().checked_sub(9)?)?;
    let hash = tail.strip_prefix(['-', '.'])?;
    let is_hash = hash
        .bytes()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    (is_hash && !plain.is_empty()).then_some(plain)
}

/// `dot` is the position of a `.so`, here and below.
fn name_around(data: &[u8], dot: usize) -> Option<String> {
    let start = stem_before(data, dot);
    if !data[start..dot].starts_with(b"lib") || data[..start].last() == Some(&b'/') {
        return None;
    }
    let end = end_of_numbers(data, dot);
    let next = data.get(end);
    if next.is_some_and(|next| continues_name(*next) || *next == b'-') {
        return None;
    }
    let name = std::str::from_utf8(&data[start..end]).ok()?;
    Some(name.to_owned())
}

fn packed_name(data: &[u8], dot: usize, is_known: &dyn Fn(&str) -> bool) -> Option<String> {
    let first = stem_before(data, dot);
    let end = end_of_numbers(data, dot);
    let is_bare = end == dot + 3;
    let continues = data.get(end).is_some_and(|next| continues_name(*next));
    // Without a number, only the beginning of the next name tells where this one ends.
    if is_bare && continues && !data[end..].starts_with(b"lib") {
        return None;
    }
    for offset in memchr::memmem::rfind_iter(&data[first..dot], b"lib") {
        let start = first + offset;
        if data[..start].last() != Some(&b'/')
            && let Ok(name) = std::str::from_utf8(&data[start..end])
            && is_known(name)
        {
            return Some(name.to_owned());
        }
    }
    None
}

fn continues_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'%' | b'.' | b'{')
}

fn path_around(data: &[u8], dot: usize) -> Option<String> {
    let stem = stem_before(data, dot);
    if !data[stem..dot].starts_with(b"lib") || data[..stem].last() != Some(&b'/') {
        return None;
    }
    let start = start_of_run(data, stem, PATH_LIMIT, |byte| {
        byte.is_ascii_graphic()
            && !matches!(
                byte,
                b'"' | b'\'' | b'`' | b':' | b';' | b'{' | b'}' | b'%' | b'$'
            )
    });
    let end = end_of_numbers(data, dot);
    let before = &data[..start];
    if before.ends_with(b"${ORIGIN}")
        || before.ends_with(b"$") && data[start..].starts_with(b"ORIGIN/")
    {
        return text_around(data, dot);
    }
    let path = std::str::from_utf8(&data[start..end]).ok()?;
    let is_complete = match before.last() {
        // The program fills in a part between braces when it runs.
        Some(b'{' | b'}' | b'%' | b'$') => false,
        None | Some(0) if matches!(data.get(end), None | Some(0)) => true,
        _ => path.starts_with('/'),
    };
    is_complete.then(|| path.to_owned())
}

fn text_around(data: &[u8], dot: usize) -> Option<String> {
    let end = end_of_numbers(data, dot);
    let least = dot.saturating_sub(PATH_LIMIT);
    let start = memchr::memrchr(0, &data[least..dot]).map_or(least, |nul| least + nul + 1);
    let text = std::str::from_utf8(&data[start..end]).ok()?;
    let is_path = start < dot && !text.chars().any(|c| c.is_control() || c == '%');
    (is_path && matches!(data.get(end), None | Some(0))).then(|| text.to_owned())
}

/// The earliest start of a library's name.
fn stem_before(data: &[u8], dot: usize) -> usize {
    start_of_run(data, dot, STEM_LIMIT, |byte| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'+' | b'.')
    })
}

/// The start of the bytes of a kind that end at `end`, at most `limit` of them.
fn start_of_run(data: &[u8], end: usize, limit: usize, is_kind: impl Fn(u8) -> bool) -> usize {
    let least = end.saturating_sub(limit);
    let mut start = end;
    while start > least && is_kind(data[start - 1]) {
        start -= 1;
    }
    start
}

/// The end of `.so` and the numbers after it.
fn end_of_numbers(data: &[u8], dot: usize) -> usize {
    let mut end = dot + 3;
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

/// The version that cuDNN's engines expect of the rest, from an assertion in them: `cudnn_version != (9 * 10000 + 28
/// * 100 + 0)`.
pub fn asserted_cudnn(bytes: &[u8]) -> Option<Version> {
    const ASSERTION: &[u8] = b"cudnn_version != (";
    let start = memchr::memmem::find(bytes, ASSERTION)? + ASSERTION.len();
    let text = bytes[start..].split(|byte| *byte == b')').next()?;
    let text = std::str::from_utf8(&text[..text.len().min(64)]).ok()?;
    let mut numbers = Vec::new();
    for term in text.split('+') {
        numbers.push(term.split('*').next()?.trim().parse().ok()?);
    }
    (numbers.len() == 3).then(|| Version::new(&numbers))
}
