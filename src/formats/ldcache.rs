//! `/etc/ld.so.cache` as glibc 2.2 and later write it: which file the loader takes for a SONAME that no
//! search path has answered. The old table that may stand before the new one is passed over.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const OLD_MAGIC: &[u8] = b"ld.so-1.7.0";
const HEADER: usize = 48;
const ENTRY: usize = 24;
/// Directories of `glibc-hwcaps` are named in an extension; an entry of one has this in the upper half of its
/// hwcap, beside the level of its instructions, and in the lower half which of the names is its.
const HWCAP_EXTENSION: u64 = 1 << 30;
const LEVEL_BITS: u64 = 0x3ff;
const EXTENSION_MAGIC: u32 = 0xeaa4_2174;
/// The section of the extension that holds the offsets of the names.
const HWCAP_NAMES: u32 = 1;
/// There are half a dozen.
const NAME_LIMIT: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheError(&'static str);

impl fmt::Display for CacheError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a cache of ld.so ({})", self.0)
    }
}

/// By SONAME, the entries for one kind of machine: the plain ones, and those for some processors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LdCache {
    entries: BTreeMap<String, PathBuf>,
    /// With the name of the directory of `glibc-hwcaps` that it stands in.
    special: BTreeMap<String, Vec<(String, PathBuf)>>,
}

impl LdCache {
    /// Reads the entries whose flags are those of `machine` (an ELF machine number).
    pub fn parse(data: &[u8], machine: u16) -> Result<LdCache, CacheError> {
        let wanted = match machine {
            super::elf::AARCH64 => 0x0a03,
            _ => 0x0303,
        };
        let table = new_table(data)?;
        let count = u32_at(table, 20).ok_or(CacheError("header"))? as usize;
        let levels = hwcap_names(table).unwrap_or_default();
        let (mut entries, mut special) = (BTreeMap::new(), BTreeMap::<String, Vec<_>>::new());
        for index in 0..count {
            let entry =
                index.checked_mul(ENTRY).and_then(|offset| table.get(HEADER..)?.get(offset..offset + ENTRY));
            let entry = entry.ok_or(CacheError("entries"))?;
            let flags = u32_at(entry, 0);
            let hwcap = u64::from_le_bytes(entry[16..24].try_into().expect("eight bytes"));
            let is_special = (hwcap >> 32) & !LEVEL_BITS == HWCAP_EXTENSION;
            // What else stands there is of directories that no loader since 2.37 looks into.
            if flags != Some(wanted) || hwcap != 0 && !is_special {
                continue;
            }
            let text = |offset: usize| text_at(table, u32_at(entry, offset)?);
            let (Some(name), Some(path)) = (text(4), text(8)) else {
                return Err(CacheError("strings"));
            };
            let Ok(name) = std::str::from_utf8(name) else { continue };
            // Entries are sorted so that the loader meets the first of one name first.
            let path = PathBuf::from(OsString::from_vec(path.to_vec()));
            if !is_special {
                entries.entry(name.to_owned()).or_insert(path);
            } else if let Some(level) = levels.get((hwcap & 0xffff_ffff) as usize) {
                special.entry(name.to_owned()).or_default().push((level.clone(), path));
            }
        }
        Ok(LdCache { entries, special })
    }

    /// What a loader takes that may use the directories of these names below `glibc-hwcaps`, best first.
    pub fn best(&self, soname: &str, levels: &[&str]) -> Option<&PathBuf> {
        let special = self.special.get(soname).map(Vec::as_slice).unwrap_or_default();
        let of = |level: &&str| special.iter().find(|(name, _)| name == level).map(|(_, path)| path);
        levels.iter().find_map(of).or_else(|| self.get(soname))
    }

    pub fn get(&self, soname: &str) -> Option<&PathBuf> {
        self.entries.get(soname)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &PathBuf)> {
        self.entries.iter().map(|(soname, path)| (soname.as_str(), path))
    }
}

/// Offsets in the new table count from its own start.
fn new_table(data: &[u8]) -> Result<&[u8], CacheError> {
    let mut table = data;
    if data.starts_with(OLD_MAGIC) {
        let count = u32_at(data, 12).ok_or(CacheError("old header"))? as usize;
        let end =
            count.checked_mul(12).and_then(|size| size.checked_add(16)).ok_or(CacheError("old header"))?;
        table = data.get(end.next_multiple_of(8)..).ok_or(CacheError("old table"))?;
    }
    if table.starts_with(MAGIC) { Ok(table) } else { Err(CacheError("magic")) }
}

/// The names of the directories below `glibc-hwcaps` that entries refer to, in their order.
fn hwcap_names(table: &[u8]) -> Option<Vec<String>> {
    let extension = table.get(u32_at(table, 32).filter(|offset| *offset != 0)? as usize..)?;
    if u32_at(extension, 0)? != EXTENSION_MAGIC {
        return None;
    }
    let sections = extension.get(8..)?.chunks_exact(16).take(u32_at(extension, 4)? as usize);
    let section = sections.into_iter().find(|section| u32_at(section, 0) == Some(HWCAP_NAMES))?;
    let start = u32_at(section, 8)? as usize;
    let offsets = table.get(start..start.checked_add(u32_at(section, 12)? as usize)?)?;
    let name =
        |offset: &[u8]| Some(String::from_utf8_lossy(text_at(table, u32_at(offset, 0)?)?).into_owned());
    offsets.chunks_exact(4).take(NAME_LIMIT).map(name).collect()
}

fn text_at(table: &[u8], offset: u32) -> Option<&[u8]> {
    let start = table.get(offset as usize..)?;
    Some(&start[..memchr::memchr(0, start)?])
}

fn u32_at(data: &[u8], offset: usize) -> Option<u32> {
    data.get(offset..offset + 4)?.try_into().ok().map(u32::from_le_bytes)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::formats::elf;

    /// A cache of these entries: soname, path, flags.
    pub(crate) fn build(entries: &[(&str, &str, u32)]) -> Vec<u8> {
        let mut strings = Vec::new();
        let base = HEADER + entries.len() * ENTRY;
        let mut table = Vec::new();
        for (name, path, flags) in entries {
            let key = base + strings.len();
            strings.extend_from_slice(name.as_bytes());
            strings.push(0);
            let value = base + strings.len();
            strings.extend_from_slice(path.as_bytes());
            strings.push(0);
            for number in [*flags, key as u32, value as u32, 0] {
                table.extend_from_slice(&number.to_le_bytes());
            }
            table.extend_from_slice(&0u64.to_le_bytes());
        }
        let mut data = MAGIC.to_vec();
        data.extend_from_slice(&(entries.len() as u32).to_le_bytes());
        data.extend_from_slice(&(strings.len() as u32).to_le_bytes());
        data.extend_from_slice(&[2, 0, 0, 0]);
        data.resize(HEADER, 0);
        data.extend(table);
        data.extend(strings);
        data
    }

    fn sample() -> Vec<u8> {
        build(&[
            ("libcudnn.so.9", "/usr/lib/x86_64-linux-gnu/libcudnn.so.9", 0x303),
            ("libcudnn.so.9", "/usr/lib/i386-linux-gnu/libcudnn.so.9", 0x803),
            ("libcuda.so.1", "/usr/lib/libcuda.so.1", 0x303),
            ("libcuda.so.1", "/opt/second/libcuda.so.1", 0x303),
        ])
    }

    #[test]
    fn reads_the_entries_of_this_machine_first_come_first_served() {
        let cache = LdCache::parse(&sample(), elf::X86_64).unwrap();
        assert_eq!(cache.iter().count(), 2);
        assert_eq!(cache.get("libcuda.so.1").unwrap(), &PathBuf::from("/usr/lib/libcuda.so.1"));
        assert_eq!(LdCache::parse(&sample(), elf::AARCH64).unwrap(), LdCache::default());
    }

    #[test]
    fn passes_over_an_old_table() {
        let mut data = OLD_MAGIC.to_vec();
        data.resize(12, 0);
        data.extend_from_slice(&1u32.to_le_bytes());
        data.resize(32, 0);
        data.extend(sample());
        assert_eq!(LdCache::parse(&data, elf::X86_64), LdCache::parse(&sample(), elf::X86_64));
    }

    /// The same with entries below `glibc-hwcaps`: soname, path, which of `levels`.
    fn build_special(plain: &[(&str, &str, u32)], special: &[(&str, &str, u32)], levels: &[&str]) -> Vec<u8> {
        let entries: Vec<_> = special.iter().map(|(name, path, _)| (*name, *path, 0x303)).collect();
        let mut data = build(&[&entries, plain].concat());
        for (index, (_, _, level)) in special.iter().enumerate() {
            let at = HEADER + index * ENTRY + 16;
            let hwcap = (HWCAP_EXTENSION | 2) << 32 | u64::from(*level);
            data[at..at + 8].copy_from_slice(&hwcap.to_le_bytes());
        }
        let mut offsets = Vec::new();
        for level in levels {
            offsets.extend_from_slice(&(data.len() as u32).to_le_bytes());
            data.extend_from_slice(level.as_bytes());
            data.push(0);
        }
        data.resize(data.len().next_multiple_of(4), 0);
        let names = data.len() as u32;
        data.extend_from_slice(&offsets);
        let extension = data.len() as u32;
        data[32..36].copy_from_slice(&extension.to_le_bytes());
        for number in [EXTENSION_MAGIC, 2, 0, 0, 0, 0, HWCAP_NAMES, 0, names, offsets.len() as u32] {
            data.extend_from_slice(&number.to_le_bytes());
        }
        data
    }

    fn special() -> Vec<u8> {
        let v2 = "/lib/glibc-hwcaps/x86-64-v2/liba.so.1";
        let v3 = "/lib/glibc-hwcaps/x86-64-v3/liba.so.1";
        let special = [("liba.so.1", v2, 0), ("liba.so.1", v3, 1), ("liba.so.1", "/nowhere", 9)];
        let only = [("liba.so.1", "/lib/liba.so.1", 0x303), ("libb.so.1", "/lib/libb.so.1", 0x303)];
        build_special(&only, &special, &["x86-64-v2", "x86-64-v3"])
    }

    #[test]
    fn entries_for_a_processor_are_taken_by_those_that_are_like_it() {
        let cache = LdCache::parse(&special(), elf::X86_64).unwrap();
        let best = |name, levels: &[&str]| cache.best(name, levels).map(|path| path.to_str().unwrap());
        assert_eq!(
            best("liba.so.1", &["x86-64-v4", "x86-64-v3", "x86-64-v2"]),
            Some("/lib/glibc-hwcaps/x86-64-v3/liba.so.1")
        );
        assert_eq!(best("liba.so.1", &["x86-64-v2"]), Some("/lib/glibc-hwcaps/x86-64-v2/liba.so.1"));
        assert_eq!(best("liba.so.1", &[]), Some("/lib/liba.so.1"));
        assert_eq!(best("libb.so.1", &["x86-64-v2"]), Some("/lib/libb.so.1"));
        assert_eq!(best("libc.so.1", &["x86-64-v2"]), None);
        assert_eq!(cache.get("liba.so.1"), Some(&PathBuf::from("/lib/liba.so.1")));
    }

    #[test]
    fn any_damage_gives_an_error_or_a_result() {
        any_damage_to(&sample());
        any_damage_to(&special());
    }

    fn any_damage_to(good: &[u8]) {
        for length in 0..good.len() {
            let _ = LdCache::parse(&good[..length], elf::X86_64);
        }
        for index in 0..good.len() {
            for value in 0..=255 {
                let mut bad = good.to_vec();
                bad[index] = value;
                let _ = LdCache::parse(&bad, elf::X86_64);
            }
        }
    }
}
