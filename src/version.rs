//! Versions of libraries, drivers, CUDA and GPUs, as values that compare the way NVIDIA means them.
//! Imports nothing of the crate.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// The most numbers of a version; the wheel of CCCL 3.3.4 for CUDA 13 is 13.3.3.4.1.
const MOST: usize = 5;

/// The version of a library: one to five numbers, `9.1.0.70`. Missing numbers compare as zero; a number
/// shows with the zeros that it was written with, as drivers do: `580.159.04`.
#[derive(Clone, Copy, Default)]
pub struct Version {
    parts: [u32; MOST],
    widths: [u8; MOST],
    length: u8,
}

impl Version {
    /// Makes a version of one to five numbers; further ones are dropped.
    pub fn new(numbers: &[u32]) -> Version {
        let mut parts = [0; MOST];
        let length = numbers.len().min(MOST);
        parts[..length].copy_from_slice(&numbers[..length]);
        Version {
            parts,
            widths: [0; MOST],
            length: u8::try_from(length).unwrap_or_default(),
        }
    }

    pub fn major(&self) -> u32 {
        self.parts[0]
    }

    pub fn minor(&self) -> u32 {
        self.parts[1]
    }

    pub fn numbers(&self) -> &[u32] {
        &self.parts[..usize::from(self.length)]
    }

    /// True if the numbers that both have are equal: `9.1.0` and `9.1.0.70` agree.
    pub fn agrees_with(&self, other: &Version) -> bool {
        self.numbers()
            .iter()
            .zip(other.numbers())
            .all(|(a, b)| a == b)
    }

    /// True if a library of this version serves programs that were built with the other one: an equal major, and an equal or
    /// older minor (NVIDIA's rule for cuDNN since 7).
    pub fn serves_builds_of(&self, built: &Version) -> bool {
        self.major() == built.major() && self.minor() >= built.minor()
    }

    /// The first `count` numbers.
    pub fn truncated(&self, count: usize) -> Version {
        let count = count.min(self.numbers().len());
        Version {
            widths: self.widths,
            ..Version::new(&self.numbers()[..count])
        }
    }

    /// Reads the version of a driver, which has two or three numbers: `418.39`, `580.159.04`.
    pub fn of_driver(text: &str) -> Option<Version> {
        let version: Version = text.trim().parse().ok()?;
        matches!(version.length, 2 | 3).then_some(version)
    }

    /// Reads a number such as 91002, in which the major is multiplied by `major` and the minor by `minor`.
    pub fn from_scaled(value: u32, major: u32, minor: u32) -> Version {
        Version::new(&[value / major, value % major / minor, value % minor])
    }
}

impl FromStr for Version {
    type Err = ();

    /// One to five numbers with dots between, and nothing else.
    fn from_str(text: &str) -> Result<Version, ()> {
        let mut version = Version::new(&[]);
        for part in text.split('.') {
            let index = usize::from(version.length);
            if index == MOST
                || !(1..=9).contains(&part.len())
                || !part.bytes().all(|b| b.is_ascii_digit())
            {
                return Err(());
            }
            version.parts[index] = part.parse().map_err(|_| ())?;
            version.widths[index] = u8::try_from(part.len()).map_err(|_| ())?;
            version.length += 1;
        }
        Ok(version)
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.parts == other.parts
    }
}

impl Eq for Version {}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        self.parts.cmp(&other.parts)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, part) in self.numbers().iter().enumerate() {
            let dot = if index > 0 { "." } else { "" };
            write!(
                f,
                "{dot}{part:0width$}",
                width = usize::from(self.widths[index])
            )?;
        }
        Ok(())
    }
}

/// A version of CUDA: `13.0`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CudaVersion {
    pub major: u32,
    pub minor: u32,
}

impl CudaVersion {
    /// Reads the number that `cudaRuntimeGetVersion` and `cuDriverGetVersion` give: 12040 is 12.4.
    pub fn from_number(number: u32) -> CudaVersion {
        CudaVersion {
            major: number / 1000,
            minor: number % 1000 / 10,
        }
    }

    /// The CUDA version that a release belongs to: 12.4 for 12.4.131.
    pub fn of(release: Version) -> CudaVersion {
        CudaVersion {
            major: release.major(),
            minor: release.minor(),
        }
    }

    pub fn version(&self) -> Version {
        Version::new(&[self.major, self.minor])
    }
}

impl FromStr for CudaVersion {
    type Err = ();

    /// Reads `13.0`, `12.4.1` or `12`, without the parts after the minor.
    fn from_str(text: &str) -> Result<CudaVersion, ()> {
        let mut parts = text.split('.');
        let major = parts.next().unwrap_or_default();
        let major = major.parse().map_err(|_| ())?;
        let minor = match parts.next() {
            None | Some("x") => 0,
            Some(part) => part.parse().map_err(|_| ())?,
        };
        Ok(CudaVersion { major, minor })
    }
}

impl fmt::Display for CudaVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The compute capability of a GPU: `9.0`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComputeCapability {
    pub major: u32,
    pub minor: u32,
}

impl ComputeCapability {
    pub fn version(&self) -> Version {
        Version::new(&[self.major, self.minor])
    }
}

impl FromStr for ComputeCapability {
    type Err = ();

    fn from_str(text: &str) -> Result<ComputeCapability, ()> {
        let (major, minor) = text.split_once('.').ok_or(())?;
        Ok(ComputeCapability {
            major: major.parse().map_err(|_| ())?,
            minor: minor.parse().map_err(|_| ())?,
        })
    }
}

impl fmt::Display for ComputeCapability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Debug output and serialization of a type are its text.
macro_rules! show_as_text {
    ($description:literal: $($name:ty),*) => {$(
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(|_| {
                    serde::de::Error::custom(format!("`{text}` is not {}", $description))
                })
            }
        }
    )*};
}
pub(crate) use show_as_text;

show_as_text!("a version": Version, CudaVersion, ComputeCapability);

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn versions_compare_by_number() {
        assert!(version("9.10.2") > version("9.9.0"));
        assert!(version("9.1.0").agrees_with(&version("9.1.0.70")));
        assert!(!version("9.1.1").agrees_with(&version("9.1.0.70")));
        assert_eq!(Version::from_scaled(91002, 10000, 100), version("9.10.2"));
        assert!(version("9.1.0").serves_builds_of(&version("9.1.1")));
        assert!(!version("9.1.0").serves_builds_of(&version("9.8.0")));
        assert!(!version("9.1.0").serves_builds_of(&version("8.9.7")));
        for bad in ["", "9.", "a", "1.2.3.4.5.6", "+1", "1.-2", "99999999999"] {
            assert!(bad.parse::<Version>().is_err(), "{bad}");
        }
    }

    #[test]
    fn driver_versions_keep_their_text() {
        let driver = Version::of_driver("580.159.04").unwrap();
        assert_eq!(driver.to_string(), "580.159.04");
        assert!(driver > version("580.95.05"));
        for bad in [
            "",
            "580",
            "580.",
            "1.2.3.4",
            "a.b",
            "580.159.04-x",
            "9999999999.1",
        ] {
            assert_eq!(Version::of_driver(bad), None, "{bad}");
        }
    }
}
