//! The rows of `profiles/wheels.toml`. The build script includes this file.

use serde::Deserialize;

use crate::version::Version;

/// `wheels.toml`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wheels {
    pub wheel: Vec<Wheel>,
}

/// Versions of a distribution that have the same files.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wheel {
    pub family: String,
    pub cuda: u32,
    pub name: String,
    pub versions: Vec<Version>,
    /// Relative to site-packages.
    pub directory: String,
    pub sonames: Vec<String>,
    #[serde(default)]
    pub needs: Vec<String>,
    pub source: String,
    pub date: String,
}
