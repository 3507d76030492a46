//! GPU code in a library: the fat binaries that NVIDIA's compiler packs into its data, and the GPUs that each entry is
//! made for. Only headers are read.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::elf::Elf;
use super::numbers::{u16_at, u32_at, u64_at};
use crate::version::ComputeCapability;

/// A container begins with this number, then its version, its header's size, and how many bytes follow.
const MAGIC: [u8; 4] = 0xba55_ed50_u32.to_le_bytes();
const CONTAINER_HEADER: usize = 16;
/// The shortest header of an entry, which holds every field that is read.
const ENTRY_HEADER: usize = 64;
/// Bytes that are searched at a time, bytes in memory after which all are released, and bytes that reading one header
/// brings into memory: sixteen pages.
const WINDOW: usize = 1 << 20;
const RELEASE: usize = 4 << 20;
const TOUCHED_BY_A_HEADER: usize = 16 * 4096;
/// The capabilities of systems on a chip. Their machine code runs on no other GPU, and no other code runs on them (CUDA
/// programming guide; `profiles/architectures.toml` lists them as well).
pub const ON_A_CHIP: [u32; 8] = [32, 53, 62, 72, 87, 88, 101, 110];
const SUFFIX_A: u64 = 0x0010_0000;
const SUFFIX_F: u64 = 0x0020_0000;

/// The target of a piece of GPU code in NVIDIA's notation: `sm_90a`, `compute_120`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Architecture {
    pub kind: CodeKind,
    /// The compute capability without its dot: 90, 121.
    pub number: u32,
    pub suffix: Suffix,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CodeKind {
    /// Machine code.
    Sass,
    /// Code that the driver compiles when the program starts.
    Ptx,
}

/// The other GPUs that may use it. Without a suffix, machine code is for its major from its minor on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Suffix {
    None,
    /// For this very architecture.
    A,
    /// For the GPUs of its major.
    F,
}

impl Architecture {
    /// True if a GPU of this compute capability can run it, PTX after the driver has compiled it.
    pub fn serves(&self, gpu: ComputeCapability) -> bool {
        let wanted = gpu.major * 10 + gpu.minor;
        let is_same_major = self.number / 10 == gpu.major && wanted >= self.number;
        let is_on_a_chip = ON_A_CHIP.contains(&self.number) || ON_A_CHIP.contains(&wanted);
        match self.suffix {
            _ if self.number == wanted => true,
            Suffix::A => false,
            _ if self.kind == CodeKind::Sass && is_on_a_chip => false,
            Suffix::F => is_same_major,
            Suffix::None => is_same_major || self.kind == CodeKind::Ptx && wanted >= self.number,
        }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            CodeKind::Sass => "sm",
            CodeKind::Ptx => "compute",
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
        const ERROR: &str = "not an architecture";
        let (kind, rest) = match text.split_once('_') {
            Some(("sm", rest)) => (CodeKind::Sass, rest),
            Some(("compute", rest)) => (CodeKind::Ptx, rest),
            _ => return Err(ERROR),
        };
        let number = rest.trim_end_matches(['a', 'f']);
        let suffix = match &rest[number.len()..] {
            "" => Suffix::None,
            "a" => Suffix::A,
            "f" => Suffix::F,
            _ => return Err(ERROR),
        };
        Ok(Architecture {
            kind,
            number: number.parse().map_err(|_| ERROR)?,
            suffix,
        })
    }
}

impl<'de> Deserialize<'de> for Architecture {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Architecture, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

/// Counts the entries for each architecture in each section of a file. `release` is called now and then: the bytes that
/// were read so far are not needed in memory any more.
pub fn code_of(elf: &Elf<'_>, release: &dyn Fn()) -> BTreeMap<String, BTreeMap<Architecture, u32>> {
    let mut sections: BTreeMap<String, BTreeMap<Architecture, u32>> = BTreeMap::new();
    for (name, data) in elf.loaded_data() {
        for architecture in entries(data, release) {
            let section = sections
                .entry(String::from_utf8_lossy(name).into_owned())
                .or_default();
            *section.entry(architecture).or_default() += 1;
        }
    }
    sections
}

/// The entries of every container in a range, in order.
pub fn entries(data: &[u8], release: &dyn Fn()) -> Vec<Architecture> {
    let magic = memchr::memmem::Finder::new(&MAGIC);
    let mut architectures = Vec::new();
    let mut position = 0;
    let mut touched = 0;
    while position < data.len() {
        // A search by windows keeps the bytes between two containers out of memory.
        let window = &data[position..data.len().min(position + WINDOW + MAGIC.len() - 1)];
        let before = position;
        if let Some(offset) = magic.find(window) {
            position += offset;
            if let Some(body) = container(&data[position..]) {
                let count = architectures.len();
                let mut rest = body;
                while let Some((architecture, size)) = entry(rest) {
                    architectures.extend(architecture);
                    rest = &rest[size..];
                }
                touched += TOUCHED_BY_A_HEADER * (architectures.len() - count).max(1);
                position += CONTAINER_HEADER + body.len();
            } else {
                position += MAGIC.len();
            }
        } else {
            position += WINDOW;
        }
        touched += (position - before).min(WINDOW);
        if touched > RELEASE {
            release();
            touched = 0;
        }
    }
    architectures
}

/// The bytes after a container's header; nothing if this is no container.
fn container(data: &[u8]) -> Option<&[u8]> {
    let size = usize::try_from(u64_at(data, 8)?).ok()?;
    if u16_at(data, 4)? != 1 || usize::from(u16_at(data, 6)?) != CONTAINER_HEADER || size == 0 {
        return None;
    }
    data.get(CONTAINER_HEADER..CONTAINER_HEADER.checked_add(size)?)
}

/// An entry's architecture, if it is SASS or PTX, and its size with its header.
fn entry(data: &[u8]) -> Option<(Option<Architecture>, usize)> {
    let header = usize::try_from(u32_at(data, 4)?).ok()?;
    let size = header.checked_add(usize::try_from(u64_at(data, 8)?).ok()?)?;
    if header < ENTRY_HEADER || size > data.len() {
        return None;
    }
    let number = u32_at(data, 28)?;
    let flags = u64_at(data, 40)?;
    let kind = match u16_at(data, 0)? {
        1 if is_plausible(number) => CodeKind::Ptx,
        2 if is_plausible(number) => CodeKind::Sass,
        _ => return Some((None, size)),
    };
    let suffix = if flags & SUFFIX_A != 0 {
        Suffix::A
    } else if flags & SUFFIX_F != 0 {
        Suffix::F
    } else {
        Suffix::None
    };
    let architecture = Architecture {
        kind,
        number,
        suffix,
    };
    Some((Some(architecture), size))
}

fn is_plausible(number: u32) -> bool {
    (10..1000).contains(&number)
}
