//! `/etc/ld.so.cache`.

use std::path::PathBuf;

use cudarun::formats::elf;
use cudarun::formats::ldcache::LdCache;

const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const OLD_MAGIC: &[u8] = b"ld.so-1.7.0";
const HEADER: usize = 48;
const ENTRY: usize = 24;
const HWCAP_EXTENSION: u64 = 1 << 30;
const EXTENSION_MAGIC: u32 = 0xeaa4_2174;
const HWCAP_NAMES: u32 = 1;

/// A cache of these entries: soname, path, flags.
fn build(entries: &[(&str, &str, u32)]) -> Vec<u8> {
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
        (
            "libcudnn.so.9",
            "/usr/lib/x86_64-linux-gnu/libcudnn.so.9",
            0x303,
        ),
        (
            "libcudnn.so.9",
            "/usr/lib/i386-linux-gnu/libcudnn.so.9",
            0x803,
        ),
        ("libcuda.so.1", "/usr/lib/libcuda.so.1", 0x303),
        ("libcuda.so.1", "/opt/second/libcuda.so.1", 0x303),
    ])
}

#[test]
fn reads_the_entries_of_this_machine_first_come_first_served() {
    let cache = LdCache::parse(&sample(), elf::X86_64).unwrap();
    assert_eq!(cache.iter().count(), 2);
    assert_eq!(
        cache.get("libcuda.so.1").unwrap(),
        &PathBuf::from("/usr/lib/libcuda.so.1")
    );
    assert_eq!(
        LdCache::parse(&sample(), elf::AARCH64).unwrap(),
        LdCache::default()
    );
}

#[test]
fn passes_over_an_old_table() {
    let mut data = OLD_MAGIC.to_vec();
    data.resize(12, 0);
    data.extend_from_slice(&1u32.to_le_bytes());
    data.resize(32, 0);
    data.extend(sample());
    assert_eq!(
        LdCache::parse(&data, elf::X86_64),
        LdCache::parse(&sample(), elf::X86_64)
    );
}

/// A cache with entries below `glibc-hwcaps` as well: soname, path, index into `levels`.
fn build_special(
    plain: &[(&str, &str, u32)],
    special: &[(&str, &str, u32)],
    levels: &[&str],
) -> Vec<u8> {
    let entries: Vec<_> = special
        .iter()
        .map(|(name, path, _)| (*name, *path, 0x303))
        .collect();
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
    for number in [
        EXTENSION_MAGIC,
        2,
        0,
        0,
        0,
        0,
        HWCAP_NAMES,
        0,
        names,
        offsets.len() as u32,
    ] {
        data.extend_from_slice(&number.to_le_bytes());
    }
    data
}

fn special() -> Vec<u8> {
    let v2 = "/lib/glibc-hwcaps/x86-64-v2/liba.so.1";
    let v3 = "/lib/glibc-hwcaps/x86-64-v3/liba.so.1";
    let special = [
        ("liba.so.1", v2, 0),
        ("liba.so.1", v3, 1),
        ("liba.so.1", "/nowhere", 9),
    ];
    let only = [
        ("liba.so.1", "/lib/liba.so.1", 0x303),
        ("libb.so.1", "/lib/libb.so.1", 0x303),
    ];
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
    assert_eq!(
        best("liba.so.1", &["x86-64-v2"]),
        Some("/lib/glibc-hwcaps/x86-64-v2/liba.so.1")
    );
    assert_eq!(best("liba.so.1", &[]), Some("/lib/liba.so.1"));
    assert_eq!(best("libb.so.1", &["x86-64-v2"]), Some("/lib/libb.so.1"));
    assert_eq!(best("libc.so.1", &["x86-64-v2"]), None);
    assert_eq!(
        cache.get("liba.so.1"),
        Some(&PathBuf::from("/lib/liba.so.1"))
    );
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
