//! `/etc/ld.so.cache` as glibc 2.2 and later write it: the file that the loader takes for a SONAME that it did not find in
//! search paths. The table of older releases, which may come first, is skipped.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const OLD_MAGIC: &[u8] = b"ld.so-1.7.0";
const HEADER: usize = 48;
const ENTRY: usize = 24;
/// Marks an entry below `glibc-hwcaps` in the upper half of its hwcap, beside the level of its instructions. The lower half
/// is the index of its directory's name in an extension.
const HWCAP_EXTENSION: u64 = 1 << 30;
const LEVEL_BITS: u64 = 0x3ff;
const EXTENSION_MAGIC: u32 = 0xeaa4_2174;
/// The section of the extension that holds the offsets of the names.
const HWCAP_NAMES: u32 = 1;
/// Real caches have half a dozen names.
const NAME_LIMIT: usize = 256;

/// By SONAME, the entries for one kind of machine: the plain ones, and those for some processors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LdCache {
    entries: BTreeMap<String, PathBuf>,
    /// With the name of its directory below `glibc-hwcaps`.
    special: BTreeMap<String, Vec<(String, PathBuf)>>,
}

impl LdCache {
    /// Reads the entries whose flags are those of `machine` (an ELF machine number). The error names the damaged part.
    pub fn parse(data: &[u8], machine: u16) -> Result<LdCache, &'static str> {
        let wanted = match machine {
            super::elf::AARCH64 => 0x0a03,
            _ => 0x0303,
        };
        let table = new_table(data)?;
        let count = u32_at(table, 20).ok_or("header")? as usize;
        let levels = hwcap_names(table).unwrap_or_default();
        let (mut entries, mut special) = (BTreeMap::new(), BTreeMap::<String, Vec<_>>::new());
        for index in 0..count {
            let entry = index
                .checked_mul(ENTRY)
                .and_then(|offset| table.get(HEADER..)?.get(offset..offset + ENTRY));
            let entry = entry.ok_or("entries")?;
            let flags = u32_at(entry, 0);
            let hwcap = u64::from_le_bytes(entry[16..24].try_into().expect("eight bytes"));
            let is_special = (hwcap >> 32) & !LEVEL_BITS == HWCAP_EXTENSION;
            // Other values mean directories that loaders since 2.37 do not search.
            if flags != Some(wanted) || hwcap != 0 && !is_special {
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
            if !is_special {
                entries.entry(name.to_owned()).or_insert(path);
            } else if let Some(level) = levels.get((hwcap & 0xffff_ffff) as usize) {
                special
                    .entry(name.to_owned())
                    .or_default()
                    .push((level.clone(), path));
            }
        }
        Ok(LdCache { entries, special })
    }

    /// Returns the file that a loader takes that searches these directories below `glibc-hwcaps`, best first.
    pub fn best(&self, soname: &str, levels: &[&str]) -> Option<&PathBuf> {
        let special = self
            .special
            .get(soname)
            .map(Vec::as_slice)
            .unwrap_or_default();
        let best = levels
            .iter()
            .find_map(|level| special.iter().find(|(name, _)| name == level));
        best.map(|(_, path)| path).or_else(|| self.get(soname))
    }

    pub fn get(&self, soname: &str) -> Option<&PathBuf> {
        self.entries.get(soname)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &PathBuf)> {
        self.entries
            .iter()
            .map(|(soname, path)| (soname.as_str(), path))
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

/// Returns the names of the directories below `glibc-hwcaps` that entries refer to by index.
fn hwcap_names(table: &[u8]) -> Option<Vec<String>> {
    let extension = table.get(u32_at(table, 32).filter(|offset| *offset != 0)? as usize..)?;
    if u32_at(extension, 0)? != EXTENSION_MAGIC {
        return None;
    }
    let sections = extension
        .get(8..)?
        .chunks_exact(16)
        .take(u32_at(extension, 4)? as usize);
    let section = sections
        .into_iter()
        .find(|section| u32_at(section, 0) == Some(HWCAP_NAMES))?;
    let start = u32_at(section, 8)? as usize;
    let offsets = table.get(start..start.checked_add(u32_at(section, 12)? as usize)?)?;
    let name = |offset: &[u8]| {
        Some(String::from_utf8_lossy(text_at(table, u32_at(offset, 0)?)?).into_owned())
    };
    offsets.chunks_exact(4).take(NAME_LIMIT).map(name).collect()
}

fn text_at(table: &[u8], offset: u32) -> Option<&[u8]> {
    let start = table.get(offset as usize..)?;
    Some(&start[..memchr::memchr(0, start)?])
}

fn u32_at(data: &[u8], offset: usize) -> Option<u32> {
    data.get(offset..offset + 4)?
        .try_into()
        .ok()
        .map(u32::from_le_bytes)
}
