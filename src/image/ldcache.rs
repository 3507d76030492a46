//! Writes `/etc/ld.so.cache`, as glibc does since 2.32, for given entries.
#![allow(
    clippy::cast_possible_truncation,
    reason = "nothing that is written is so long"
)]

use serde::Deserialize;

use crate::formats::elf::X86_64;
use crate::formats::ldcache::{ENTRY, HEADER, MAGIC, flags};

/// A name, and the file that the loader opens for it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheEntry {
    pub(super) name: String,
    pub(super) path: String,
    /// The processor that it is for.
    #[serde(default = "x86_64")]
    pub(super) machine: u16,
}

fn x86_64() -> u16 {
    X86_64
}

pub fn cache(entries: &[CacheEntry]) -> Vec<u8> {
    let base = (HEADER + entries.len() * ENTRY) as u32;
    let mut table = Vec::new();
    let mut strings = Vec::new();
    for entry in entries {
        table.extend_from_slice(&flags(entry.machine).to_le_bytes());
        for text in [&entry.name, &entry.path] {
            let offset = base + strings.len() as u32;
            table.extend_from_slice(&offset.to_le_bytes());
            strings.extend_from_slice(text.as_bytes());
            strings.push(0);
        }
        // The release of the operating system, and the processor's capabilities.
        table.extend_from_slice(&[0; 12]);
    }
    let mut data = MAGIC.to_vec();
    data.extend_from_slice(&(entries.len() as u32).to_le_bytes());
    data.extend_from_slice(&(strings.len() as u32).to_le_bytes());
    data.extend_from_slice(&[2, 0, 0, 0]);
    data.resize(HEADER, 0);
    [data, table, strings].concat()
}
