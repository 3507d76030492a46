//! The platform tags of wheels.

use std::collections::BTreeSet;

use super::wheel_rows::{ToolkitRow, Wheel, WheelFile};
use super::wheels;
use crate::formats::elf;
use crate::version::Version;

/// The older names of tags, with the glibc that they ask for.
const NAMED: [(&str, [u32; 2]); 3] = [
    ("manylinux1", [2, 5]),
    ("manylinux2010", [2, 12]),
    ("manylinux2014", [2, 17]),
];

/// A kind of machine: the ELF machine of its programs, and the version of its C library.
#[derive(Clone, Copy, Debug)]
pub struct Platform<'n> {
    pub machine: u16,
    pub glibc: Version,
    /// The names of the only files that count, if not all do.
    pub at_hand: Option<&'n BTreeSet<String>>,
}

impl Platform<'_> {
    /// The file of a wheel's release for this kind of machine.
    pub fn file<'w>(&self, wheel: &'w Wheel, version: Version) -> Option<&'w WheelFile> {
        let mut files = wheel.files.iter().filter(|file| file.version == version);
        files.find(|file| self.has(&wheel.name, file))
    }

    /// The wheels of a toolkit for this kind of machine, if there are all of them.
    pub fn toolkit<'t>(&self, toolkit: &'t ToolkitRow) -> Option<Vec<&'t WheelFile>> {
        let parts = toolkit.files.chunk_by(|one, next| one.name == next.name);
        parts
            .map(|files| files.iter().find(|part| self.has(&part.name, part)))
            .collect()
    }

    fn has(&self, distribution: &str, file: &WheelFile) -> bool {
        self.takes(&file.platform)
            && self
                .at_hand
                .is_none_or(|names| names.contains(&file.file_name(distribution)))
    }

    /// The row and the file of a package, `nvidia-cudnn-cu12 9.1.0.70`.
    pub fn wheel(&self, package: &str) -> Option<(&'static Wheel, &'static WheelFile)> {
        let (name, version) = package.split_once(' ')?;
        let version = version.parse().ok()?;
        let mut rows = wheels().iter().filter(|wheel| wheel.name == name);
        rows.find_map(|wheel| Some((wheel, self.file(wheel, version)?)))
    }

    /// True for a tag, or several joined by dots, of which one fits.
    fn takes(&self, tags: &str) -> bool {
        let Some(architecture) = wheel_architecture(self.machine) else {
            return false;
        };
        tags.split('.')
            .filter_map(|tag| tag.strip_suffix(architecture)?.strip_suffix('_'))
            .filter_map(glibc_of)
            .any(|glibc| glibc <= self.glibc)
    }
}

/// True if a release has a wheel for an ELF machine. A release that the table does not list is one that an installed package
/// pins, and so it exists for the machine.
pub fn is_released_for(wheel: &Wheel, version: Version, machine: u16) -> bool {
    let mut files = wheel
        .files
        .iter()
        .filter(|file| file.version == version)
        .peekable();
    let Some(architecture) = wheel_architecture(machine) else {
        return false;
    };
    files.peek().is_none() || files.any(|file| file.platform.ends_with(architecture))
}

/// The name that wheels have for an ELF machine.
pub fn wheel_architecture(machine: u16) -> Option<&'static str> {
    match machine {
        elf::X86_64 => Some("x86_64"),
        elf::AARCH64 => Some("aarch64"),
        _ => None,
    }
}

/// The glibc that a tag without its architecture asks for: `manylinux_2_28`.
fn glibc_of(tag: &str) -> Option<Version> {
    if let Some((_, glibc)) = NAMED.iter().find(|(name, _)| *name == tag) {
        return Some(Version::new(glibc));
    }
    let numbers = tag.strip_prefix("manylinux_")?;
    numbers.replace('_', ".").parse().ok()
}
