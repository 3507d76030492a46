//! Numbers in the names of libraries, and patterns of names.

use crate::formats::names;

/// Returns the first number of a SONAME's suffix: 11 of `11.2`.
pub fn first_number(suffix: &str) -> Option<u32> {
    suffix.split('.').next()?.parse().ok()
}

/// Returns the first number in the name of a library: 12 of `libcublas.so.12`.
pub fn soname_number(name: &str) -> Option<u32> {
    names::split(name).and_then(|(_, suffix)| first_number(suffix))
}

/// True if the text matches the pattern, in which one `*` may mean any text.
pub fn matches_pattern(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, end)) => {
            text.len() >= start.len() + end.len() && text.starts_with(start) && text.ends_with(end)
        }
    }
}
