//! GPU code in fat binaries.

use cudarun::formats::fatbin::{Architecture, entries};

const MAGIC: [u8; 4] = 0xba55_ed50_u32.to_le_bytes();
const ENTRY_HEADER: usize = 64;
/// As much as is searched at a time.
const WINDOW: usize = 1 << 20;

fn entry(kind: u16, number: u32, flags: u64, payload: usize) -> Vec<u8> {
    let mut bytes = vec![0; ENTRY_HEADER + payload];
    bytes[..2].copy_from_slice(&kind.to_le_bytes());
    bytes[4..8].copy_from_slice(&64_u32.to_le_bytes());
    bytes[8..16].copy_from_slice(&(payload as u64).to_le_bytes());
    bytes[28..32].copy_from_slice(&number.to_le_bytes());
    bytes[40..48].copy_from_slice(&flags.to_le_bytes());
    bytes
}

fn container(entries: &[Vec<u8>]) -> Vec<u8> {
    let body = entries.concat();
    let mut bytes = [&MAGIC[..], &1_u16.to_le_bytes(), &16_u16.to_le_bytes()].concat();
    bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
    bytes.extend(body);
    bytes
}

fn names(data: &[u8]) -> Vec<String> {
    entries(data, &|| ())
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn every_entry_of_every_container_is_found() {
    let first = container(&[
        entry(2, 80, 0x11, 24),
        entry(2, 90, 0x0010_0011, 8),
        entry(8, 90, 0, 8),
    ]);
    let second = container(&[entry(2, 120, 0x0120_0011, 0), entry(1, 120, 0x8011, 16)]);
    let data = [
        b"padding ".as_slice(),
        &first,
        &[0; 8],
        &MAGIC,
        &[0; 20],
        &second,
    ]
    .concat();
    assert_eq!(names(&data), ["sm_80", "sm_90a", "sm_120f", "compute_120"]);
    assert!(
        entries(&data, &|| ())
            .iter()
            .all(|entry| entry.to_string().parse() == Ok(*entry))
    );
    for bad in ["", "sm", "sm_", "sm_90af", "sm_90x", "xy_90", "compute_-1"] {
        assert!(bad.parse::<Architecture>().is_err(), "{bad}");
    }
}

#[test]
fn an_entry_lists_the_gpus_that_it_serves() {
    let serves = |name: &str| -> Vec<String> {
        let entry: Architecture = name.parse().unwrap();
        let gpus = [
            "5.3", "6.1", "7.0", "7.5", "8.0", "8.6", "8.7", "8.9", "9.0", "10.0", "10.3", "12.0",
            "12.1",
        ];
        gpus.into_iter()
            .filter(|gpu| entry.serves(gpu.parse().unwrap()))
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(serves("sm_80"), ["8.0", "8.6", "8.9"]);
    assert_eq!(serves("sm_86"), ["8.6", "8.9"]);
    assert_eq!(serves("sm_87"), ["8.7"]);
    assert_eq!(serves("sm_90a"), ["9.0"]);
    assert_eq!(serves("sm_100"), ["10.0", "10.3"]);
    assert_eq!(serves("sm_100a"), ["10.0"]);
    assert_eq!(serves("sm_100f"), ["10.0", "10.3"]);
    assert_eq!(
        serves("compute_90"),
        ["9.0", "10.0", "10.3", "12.0", "12.1"]
    );
    assert_eq!(serves("compute_90a"), ["9.0"]);
    assert_eq!(serves("compute_120f"), ["12.0", "12.1"]);
    assert_eq!(
        serves("compute_70").len(),
        11,
        "PTX is for systems on a chip too"
    );
}

#[test]
fn a_container_across_the_end_of_a_window_is_found() {
    let whole = container(&[entry(2, 80, 0, 8)]);
    for before in [
        WINDOW - 5,
        WINDOW - 4,
        WINDOW - 3,
        WINDOW - 2,
        WINDOW - 1,
        WINDOW,
        3 * WINDOW + 1,
    ] {
        let data = [vec![0; before], whole.clone()].concat();
        assert_eq!(names(&data), ["sm_80"], "{before}");
    }
}

#[test]
fn sizes_that_lie_end_the_reading() {
    let mut long = container(&[entry(2, 80, 0, 0)]);
    long[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(names(&long).is_empty());
    let mut broken = container(&[entry(2, 80, 0, 0), entry(2, 90, 0, 0)]);
    let second = 16 + ENTRY_HEADER;
    broken[second + 8..second + 16].copy_from_slice(&u64::MAX.to_le_bytes());
    assert_eq!(names(&broken), ["sm_80"]);
    let whole = container(&[entry(2, 80, 0, 8), entry(1, 90, 0, 8)]);
    for length in 0..whole.len() {
        entries(&whole[..length], &|| ());
    }
}
