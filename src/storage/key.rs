//! The key of something kept: a sequence of parts, each with its length.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Identifies a kept start or answer. Two keys are equal when all their parts are.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct StartKey(pub(super) Vec<u8>);

impl StartKey {
    pub fn new() -> StartKey {
        StartKey(Vec::with_capacity(1024))
    }

    /// Adds a part; `None` differs from an empty value.
    pub fn push(&mut self, value: Option<&[u8]>) {
        let length = value.map_or(u32::MAX, |value| {
            u32::try_from(value.len()).unwrap_or(u32::MAX - 1)
        });
        self.0.extend_from_slice(&length.to_le_bytes());
        self.0.extend_from_slice(value.unwrap_or_default());
    }

    pub(super) fn file_name(&self) -> String {
        let mut hasher = DefaultHasher::new();
        self.0.hash(&mut hasher);
        // A formatter would take as long as the hash.
        let digit =
            |shift: u32| char::from(b"0123456789abcdef"[(hasher.finish() >> shift & 15) as usize]);
        (0..16).rev().map(|place| digit(place * 4)).collect()
    }
}
