//! Numbers in the names of libraries.

use crate::formats::names;

/// Returns the first number of a SONAME's suffix: 11 of `11.2`.
pub fn first_number(suffix: &str) -> Option<u32> {
    suffix.split('.').next()?.parse().ok()
}

/// Returns the first number in the name of a library: 12 of `libcublas.so.12`.
pub fn soname_number(name: &str) -> Option<u32> {
    names::split(name).and_then(|(_, suffix)| first_number(suffix))
}
