//! `/etc/ld.so.cache` as glibc 2.2 and later write it: the file that the loader takes for a SONAME that it did not find in
//! search paths. The table of older releases, which may come first, is skipped.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use super::numbers::{u32_at, u64_at};

const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const OLD_MAGIC: &[u8] = b"ld.so-1.7.0";
const HEADER: usize = 48;
const ENTRY: usize = 24;

/// By SONAME, the entries for one kind of machine and any processor of it. Those below `glibc-hwcaps` are skipped: no
/// library of NVIDIA's is installed there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LdCache(BTreeMap<String, PathBuf>);

impl LdCache {
    /// Reads the entries whose flags are those of `machine` (an ELF machine number). The error names the damaged part.
    pub fn parse(data: &[u8], machine: u16) -> Result<LdCache, &'static str> {
        let wanted = match machine {
            super::elf::AARCH64 => 0x0a03,
            _ => 0x0303,
        };
        let table = new_table(data)?;
        let count = u32_at(table, 20).ok_or("header")? as usize;
        let mut entries = BTreeMap::new();
        for index in 0..count {
            let entry = index
                .checked_mul(ENTRY)
                .and_then(|offset| table.get(HEADER..)?.get(offset..offset + ENTRY));
            let entry = entry.ok_or("entries")?;
            let flags = u32_at(entry, 0);
            let hwcap = u64_at(entry, 16);
            if flags != Some(wanted) || hwcap != Some(0) {
                continue;
            }
            let text = |offset: usize| text_at(table, u32_at(entry, offset)?);
            let (Some(name), Some(path)) = (text(4), text(8)) else {
                return Err("strings");
            };
            let Ok(name) = std::str::from_utf8(name) else {
                continue;
            };
            // Entries are sorted so that the loader meets the first of one name first.
            let path = PathBuf::from(OsString::from_vec(path.to_vec()));
            entries.entry(name.to_owned()).or_insert(path);
        }
        Ok(LdCache(entries))
    }

    pub fn get(&self, soname: &str) -> Option<&PathBuf> {
        self.0.get(soname)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &PathBuf)> {
        self.0.iter().map(|(soname, path)| (soname.as_str(), path))
    }
}

/// Returns the new table. Its offsets count from its own start.
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

fn text_at(table: &[u8], offset: u32) -> Option<&[u8]> {
    let start = table.get(offset as usize..)?;
    Some(&start[..memchr::memchr(0, start)?])
}
