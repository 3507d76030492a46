//! The rows of `profiles/wheels.toml` and `profiles/toolkits.toml`. The build script includes this file.

use serde::Deserialize;

use crate::version::Version;

/// `wheels.toml` and `toolkits.toml`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wheels {
    #[serde(default)]
    pub wheel: Vec<Wheel>,
    #[serde(default)]
    pub toolkit: Vec<ToolkitRow>,
}

/// Wheels that are a toolkit together.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolkitRow {
    pub version: Version,
    /// The wheels for all platforms; the first is that of nvcc.
    pub files: Vec<WheelFile>,
}

/// Releases of a distribution that have the same libraries.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wheel {
    pub family: String,
    pub cuda: u32,
    pub name: String,
    /// The oldest release of the row.
    pub first: Version,
    /// The releases that the solver tries, ascending.
    pub versions: Vec<Version>,
    /// Relative to site-packages.
    pub directory: String,
    pub sonames: Vec<String>,
    #[serde(default)]
    pub needs: Vec<String>,
    /// SONAMEs are the names of files, and `needs` is a neighbour's.
    #[serde(default)]
    pub derived: bool,
    pub source: String,
    pub date: String,
    /// Releases for Linux, ascending.
    pub files: Vec<WheelFile>,
}

/// The file of a release for one platform.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WheelFile {
    /// The distribution; empty where its row has it.
    #[serde(default)]
    pub name: String,
    pub version: Version,
    /// The tags of the file name, joined by dots.
    pub platform: String,
    /// Bytes.
    pub size: u64,
    /// In hexadecimal digits.
    pub sha256: String,
}

impl Wheel {
    /// All releases, ascending, one for each of its platforms.
    pub fn releases(&self) -> impl DoubleEndedIterator<Item = Version> + Clone {
        self.files.iter().map(|file| file.version)
    }
}

impl WheelFile {
    pub fn file_name(&self, distribution: &str) -> String {
        format!(
            "{}-{}-py3-none-{}.whl",
            distribution.replace('-', "_"),
            self.version,
            self.platform
        )
    }
}
