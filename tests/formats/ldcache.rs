//! `/etc/ld.so.cache`.

use std::path::PathBuf;

use cudarun::formats::elf;
use cudarun::formats::ldcache::LdCache;

const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const OLD_MAGIC: &[u8] = b"ld.so-1.7.0";
const HEADER: usize = 48;
const ENTRY: usize = 24;
const HWCAP_EXTENSION: u64 = 1 << 30;

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

#[test]
fn entries_for_some_processors_are_skipped() {
    let plain = "/usr/lib/liba.so.1";
    let mut data = build(&[
        (
            "liba.so.1",
            "/usr/lib/glibc-hwcaps/x86-64-v3/liba.so.1",
            0x303,
        ),
        ("liba.so.1", plain, 0x303),
    ]);
    let first = LdCache::parse(&data, elf::X86_64).unwrap();
    assert_ne!(
        first.get("liba.so.1"),
        Some(&PathBuf::from(plain)),
        "the control"
    );
    let hwcap = (HWCAP_EXTENSION | 2) << 32;
    data[HEADER + 16..HEADER + 24].copy_from_slice(&hwcap.to_le_bytes());
    let cache = LdCache::parse(&data, elf::X86_64).unwrap();
    assert_eq!(cache.get("liba.so.1"), Some(&PathBuf::from(plain)));
}

#[test]
fn any_damage_gives_an_error_or_a_result() {
    let good = sample();
    for length in 0..good.len() {
        let _ = LdCache::parse(&good[..length], elf::X86_64);
    }
    for index in 0..good.len() {
        for value in 0..=255 {
            let mut bad = good.clone();
            bad[index] = value;
            let _ = LdCache::parse(&bad, elf::X86_64);
        }
    }
}
