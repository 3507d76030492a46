//! `/etc/ld.so.cache` as glibc 2.2 and later write it: the file that the loader takes for a SONAME that it did not find in
//! search paths. The table of older releases, which may come first, is skipped.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use super::elf::AARCH64;
use super::numbers::{u32_at, u64_at};

pub const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const OLD_MAGIC: &[u8] = b"ld.so-1.7.0";
/// The sizes of the table's head and of an entry, in bytes.
pub const HEADER: usize = 48;
pub const ENTRY: usize = 24;

/// By SONAME, the entries for one kind of machine and any processor of it. Those below `glibc-hwcaps` are skipped: no
/// library of NVIDIA's is installed there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LdCache(BTreeMap<String, PathBuf>);

impl LdCache {
    /// Reads the entries whose flags are those of `machine` (an ELF machine number). The error names the damaged part.
    pub fn parse(data: &[u8], machine: u16) -> Result<LdCache, &'static str> {
        let wanted = flags(machine);
        let table = new_table(data)?;
        let count = u32_at(table, 20).ok_or("header")? as usize;
        let size = count.checked_mul(ENTRY).ok_or("entries")?;
        let entries = table.get(HEADER..).and_then(|rest| rest.get(..size));
        let mut paths = BTreeMap::new();
        for entry in entries.ok_or("entries")?.chunks_exact(ENTRY) {
            if u32_at(entry, 0) != Some(wanted) || u64_at(entry, 16) != Some(0) {
                continue;
            }
            let name = text_at(table, u32_at(entry, 4)).ok_or("strings")?;
            let path = text_at(table, u32_at(entry, 8)).ok_or("strings")?;
            let Ok(name) = std::str::from_utf8(name) else {
                continue;
            };
            // Entries are sorted so that the loader meets the first of one name first.
            let path = PathBuf::from(OsString::from_vec(path.to_vec()));
            paths.entry(name.to_owned()).or_insert(path);
        }
        Ok(LdCache(paths))
    }

    pub fn get(&self, soname: &str) -> Option<&PathBuf> {
        self.0.get(soname)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &PathBuf)> {
        self.0.iter().map(|(soname, path)| (soname.as_str(), path))
    }
}

/// The flags of an entry for glibc on an ELF machine.
pub fn flags(machine: u16) -> u32 {
    if machine == AARCH64 { 0x0a03 } else { 0x0303 }
}

/// The new table. Its offsets count from its own start.
fn new_table(data: &[u8]) -> Result<&[u8], &'static str> {
    let mut table = data;
    if data.starts_with(OLD_MAGIC) {
        let count = u32_at(data, 12).ok_or("old header")? as usize;
        let end = count
            .checked_mul(12)
            .and_then(|size| size.checked_add(16))
            .ok_or("old header")?;
        table = data.get(end.next_multiple_of(8)..).ok_or("old table")?;
    }
    if table.starts_with(MAGIC) {
        Ok(table)
    } else {
        Err("magic")
    }
}

fn text_at(table: &[u8], offset: Option<u32>) -> Option<&[u8]> {
    let start = table.get(offset? as usize..)?;
    Some(&start[..memchr::memchr(0, start)?])
}
