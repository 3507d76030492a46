//! Writes `/etc/ld.so.cache`, as glibc does since 2.32, for given entries.
#![allow(
    clippy::cast_possible_truncation,
    reason = "nothing that is written is so long"
)]

use serde::Deserialize;

use crate::formats::elf::{AARCH64, X86_64};

const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const HEADER: usize = 48;
const ENTRY: usize = 24;

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
    let (mut table, mut strings) = (Vec::new(), Vec::new());
    let base = HEADER + entries.len() * ENTRY;
    let mut add = |text: &str| {
        let at = base + strings.len();
        strings.extend_from_slice(text.as_bytes());
        strings.push(0);
        at as u32
    };
    for entry in entries {
        let flags = if entry.machine == AARCH64 {
            0x0a03
        } else {
            0x0303
        };
        for number in [flags, add(&entry.name), add(&entry.path), 0, 0, 0] {
            table.extend_from_slice(&u32::to_le_bytes(number));
        }
    }
    let mut data = MAGIC.to_vec();
    data.extend_from_slice(&(entries.len() as u32).to_le_bytes());
    data.extend_from_slice(&(strings.len() as u32).to_le_bytes());
    data.extend_from_slice(&[2, 0, 0, 0]);
    data.resize(HEADER, 0);
    [data, table, strings].concat()
}
