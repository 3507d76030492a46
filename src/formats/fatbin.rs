//! GPU code in a library: the fat binaries that NVIDIA's compiler packs into its data, and for which GPUs
//! each entry is made. Only headers are read; what an entry holds is never unpacked.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::elf::Elf;
use crate::version::ComputeCapability;

/// A container begins with this number, then its version, its header's size, and how many bytes follow.
const MAGIC: [u8; 4] = 0xba55_ed50_u32.to_le_bytes();
const CONTAINER_HEADER: usize = 16;
/// No entry has a shorter header, and none needs to be read further.
const ENTRY_HEADER: usize = 64;
/// How much is searched at a time, and after how much of it, in bytes that came into memory, all of it is given
/// back. To read one header brings its neighbours, sixteen pages in all.
const WINDOW: usize = 1 << 20;
const RELEASE: usize = 4 << 20;
const TOUCHED_BY_A_HEADER: usize = 16 * 4096;
/// The capabilities of systems on a chip: their machine code runs nowhere else, and no other runs there. The CUDA
/// programming guide says so; `profiles/architectures.toml` has the same ones.
pub const ON_A_CHIP: [u32; 8] = [32, 53, 62, 72, 87, 88, 101, 110];
const SUFFIX_A: u64 = 0x0010_0000;
const SUFFIX_F: u64 = 0x0020_0000;

/// What a piece of GPU code is made for, as NVIDIA writes it: `sm_90a`, `compute_120`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Architecture {
    pub kind: Kind,
    /// The compute capability without its dot: 90, 121.
    pub number: u32,
    pub suffix: Suffix,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Machine code.
    Sass,
    /// What the driver compiles when the program starts.
    Ptx,
}

/// Which other GPUs may use it: without a suffix, machine code is for its major from its minor on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Suffix {
    None,
    /// For this very architecture.
    A,
    /// For its family: the same major.
    F,
}

impl Architecture {
    /// Whether a GPU of this compute capability can run it: machine code as it is, PTX when the driver has compiled it.
    pub fn serves(&self, gpu: ComputeCapability) -> bool {
        let wanted = gpu.major * 10 + gpu.minor;
        let is_same_major = self.number / 10 == gpu.major && wanted >= self.number;
        let is_apart = |number| self.kind == Kind::Sass && ON_A_CHIP.contains(&number);
        match self.suffix {
            _ if self.number == wanted => true,
            Suffix::A => false,
            _ if is_apart(self.number) || is_apart(wanted) => false,
            Suffix::F => is_same_major,
            Suffix::None => is_same_major || self.kind == Kind::Ptx && wanted >= self.number,
        }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Sass => "sm",
            Kind::Ptx => "compute",
        };
        let suffix = match self.suffix {
            Suffix::None => "",
            Suffix::A => "a",
            Suffix::F => "f",
        };
        write!(f, "{kind}_{}{suffix}", self.number)
    }
}

impl Serialize for Architecture {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for Architecture {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Architecture, &'static str> {
        let read = || {
            let (kind, rest) = text.split_once('_')?;
            let kind = match kind {
                "sm" => Kind::Sass,
                "compute" => Kind::Ptx,
                _ => return None,
            };
            let number = rest.trim_end_matches(['a', 'f']);
            let suffix = match &rest[number.len()..] {
                "" => Suffix::None,
                "a" => Suffix::A,
                "f" => Suffix::F,
                _ => return None,
            };
            Some(Architecture { kind, number: number.parse().ok()?, suffix })
        };
        read().ok_or("not an architecture")
    }
}

impl<'de> Deserialize<'de> for Architecture {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Architecture, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// How many entries each section of a file has for each architecture. `release` is called now and then: what
/// was read so far is not needed in memory any more.
pub fn code_of(elf: &Elf<'_>, release: &dyn Fn()) -> BTreeMap<String, BTreeMap<Architecture, u32>> {
    let mut found: BTreeMap<String, BTreeMap<Architecture, u32>> = BTreeMap::new();
    for (name, data) in elf.loaded_data() {
        for architecture in entries(data, release) {
            let section = found.entry(String::from_utf8_lossy(name).into_owned()).or_default();
            *section.entry(architecture).or_default() += 1;
        }
    }
    found
}

/// The entries of every container in a range, in order.
pub fn entries(data: &[u8], release: &dyn Fn()) -> Vec<Architecture> {
    let magic = memchr::memmem::Finder::new(&MAGIC);
    let (mut found, mut at, mut touched) = (Vec::new(), 0, 0);
    while at < data.len() {
        // One window after the other, so that what lies between two containers does not stay in memory.
        let window = &data[at..data.len().min(at + WINDOW + MAGIC.len() - 1)];
        let body = magic.find(window).map(|offset| (at + offset, container(&data[at + offset..])));
        let before = at;
        at = match body {
            Some((start, Some(body))) => {
                let entries = entries_in(body);
                touched += TOUCHED_BY_A_HEADER * entries.len().max(1);
                found.extend(entries);
                start + CONTAINER_HEADER + body.len()
            }
            Some((start, None)) => start + MAGIC.len(),
            None => at + WINDOW,
        };
        touched += (at - before).min(WINDOW);
        if touched > RELEASE {
            release();
            touched = 0;
        }
    }
    found
}

/// What follows the header of a container, if this is one.
fn container(data: &[u8]) -> Option<&[u8]> {
    let is_one = u16_at(data, 4)? == 1 && usize::from(u16_at(data, 6)?) == CONTAINER_HEADER;
    let size = usize::try_from(u64_at(data, 8)?).ok().filter(|size| is_one && *size > 0)?;
    data.get(CONTAINER_HEADER..CONTAINER_HEADER.checked_add(size)?)
}

fn entries_in(body: &[u8]) -> Vec<Architecture> {
    let (mut found, mut rest) = (Vec::new(), body);
    while let Some((architecture, size)) = entry(rest) {
        found.extend(architecture);
        rest = &rest[size..];
    }
    found
}

/// An entry, if it is of a kind that runs, and its size with all that belongs to it.
fn entry(data: &[u8]) -> Option<(Option<Architecture>, usize)> {
    let header = usize::try_from(u32_at(data, 4)?).ok().filter(|size| *size >= ENTRY_HEADER)?;
    let payload = usize::try_from(u64_at(data, 8)?).ok()?;
    let size = header.checked_add(payload).filter(|size| *size <= data.len())?;
    let kind = match u16_at(data, 0)? {
        1 => Some(Kind::Ptx),
        2 => Some(Kind::Sass),
        _ => None,
    };
    let (number, flags) = (u32_at(data, 28)?, u64_at(data, 40)?);
    let suffix = match (flags & SUFFIX_A != 0, flags & SUFFIX_F != 0) {
        (true, _) => Suffix::A,
        (_, true) => Suffix::F,
        _ => Suffix::None,
    };
    let is_plausible = (10..1000).contains(&number);
    Some((kind.filter(|_| is_plausible).map(|kind| Architecture { kind, number, suffix }), size))
}

fn u16_at(data: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(data.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(data.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(data: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(data.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        entries(data, &|| ()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_entry_of_every_container_is_found() {
        let first = container(&[entry(2, 80, 0x11, 24), entry(2, 90, 0x0010_0011, 8), entry(8, 90, 0, 8)]);
        let second = container(&[entry(2, 120, 0x0120_0011, 0), entry(1, 120, 0x8011, 16)]);
        let data = [b"padding ".as_slice(), &first, &[0; 8], &MAGIC, &[0; 20], &second].concat();
        assert_eq!(names(&data), ["sm_80", "sm_90a", "sm_120f", "compute_120"]);
        assert!(entries(&data, &|| ()).iter().all(|entry| entry.to_string().parse() == Ok(*entry)));
        for bad in ["", "sm", "sm_", "sm_90af", "sm_90x", "xy_90", "compute_-1"] {
            assert!(bad.parse::<Architecture>().is_err(), "{bad}");
        }
    }

    #[test]
    fn an_entry_lists_the_gpus_that_it_serves() {
        let serves = |name: &str| -> Vec<String> {
            let entry: Architecture = name.parse().unwrap();
            let gpus = [
                "5.3", "6.1", "7.0", "7.5", "8.0", "8.6", "8.7", "8.9", "9.0", "10.0", "10.3", "12.0", "12.1",
            ];
            gpus.into_iter().filter(|gpu| entry.serves(gpu.parse().unwrap())).map(str::to_owned).collect()
        };
        assert_eq!(serves("sm_80"), ["8.0", "8.6", "8.9"]);
        assert_eq!(serves("sm_86"), ["8.6", "8.9"]);
        assert_eq!(serves("sm_87"), ["8.7"]);
        assert_eq!(serves("sm_90a"), ["9.0"]);
        assert_eq!(serves("sm_100"), ["10.0", "10.3"]);
        assert_eq!(serves("sm_100a"), ["10.0"]);
        assert_eq!(serves("sm_100f"), ["10.0", "10.3"]);
        assert_eq!(serves("compute_90"), ["9.0", "10.0", "10.3", "12.0", "12.1"]);
        assert_eq!(serves("compute_90a"), ["9.0"]);
        assert_eq!(serves("compute_120f"), ["12.0", "12.1"]);
        assert_eq!(serves("compute_70").len(), 11, "PTX is for systems on a chip too");
    }

    #[test]
    fn a_container_across_the_end_of_a_window_is_found() {
        let whole = container(&[entry(2, 80, 0, 8)]);
        for before in [WINDOW - 5, WINDOW - 4, WINDOW - 3, WINDOW - 2, WINDOW - 1, WINDOW, 3 * WINDOW + 1] {
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
}
