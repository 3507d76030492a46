//! The rows of `profiles/`, whose heads explain the fields. `build.rs` includes this file: use only versions, ranges and names of
//! faults here.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::Fault;
use crate::range::Range;
use crate::version::{ComputeCapability, CudaVersion, Version};

/// `libraries.toml`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LibrariesTable {
    pub family: Vec<Family>,
}

/// A library family: files that must come together.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Family {
    pub name: String,
    /// NVIDIA's spelling.
    pub display: String,
    pub members: Vec<String>,
    pub main: String,
    pub group: GroupedBy,
    #[serde(default)]
    pub suffix: BTreeMap<String, String>,
    #[serde(default)]
    pub code_is_optional: bool,
    #[serde(default)]
    pub soname_is_version: bool,
    #[serde(default)]
    pub version_is_cuda: bool,
    #[serde(default)]
    pub required: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    pub dlopens: BTreeMap<String, Opens>,
    #[serde(default)]
    pub dlopens_unversioned: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    pub for_some_gpus: bool,
    #[serde(default)]
    pub symbols: Vec<String>,
    #[serde(default)]
    pub dlopens_own_members: bool,
    #[serde(default)]
    pub shim: BTreeMap<String, FamilyShim>,
    #[serde(default)]
    pub minor_in_soname: Vec<String>,
    #[serde(default)]
    pub version: Vec<VersionNumber>,
    #[serde(default)]
    pub cuda: Vec<VersionNumber>,
    #[serde(default)]
    pub wraps: Vec<String>,
    #[serde(default)]
    pub numbered_otherwise: bool,
    pub header: Option<VersionHeader>,
    pub wheel: Option<String>,
    #[serde(default)]
    pub wheel_always_suffixed: bool,
    pub apt: Option<String>,
    #[serde(default)]
    pub apt_from: u32,
    pub source: String,
    pub date: String,
}

/// By the stem of the file that opens, the stems that it opens.
pub type Opens = BTreeMap<String, Vec<String>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GroupedBy {
    Soname,
    Place,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionHeader {
    pub file: String,
    /// The macros that hold the numbers of the version, in order.
    pub defines: Vec<String>,
}

/// The file of a family that opens the others.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FamilyShim {
    pub stem: String,
    pub since: Version,
}

/// A number in a library's own bytes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "by", rename_all = "lowercase", deny_unknown_fields)]
pub enum VersionNumber {
    /// A text in the constants: the number right after `after`, or after the `then` that follows it.
    Text {
        file: String,
        after: String,
        then: Option<String>,
        separator: Option<char>,
    },
    /// A function that does nothing but return a constant.
    Function {
        file: String,
        name: String,
        #[serde(default = "one")]
        major: u32,
        #[serde(default = "one")]
        minor: u32,
        from: u32,
        to: u32,
    },
    /// An exported object of four bytes: major << 16 | minor << 8 | patch.
    Object { file: String, name: String },
    /// Three numbers that are handed to `snprintf`, the first of which is `major`.
    Printed { file: String, major: u32 },
    /// The CUDA major that has this SONAME.
    Suffix,
    /// The number in a DT_NEEDED of this stem.
    Needed { file: String, stem: String },
    /// The version of the CUDA runtime that is linked into it.
    Embedded,
}

fn one() -> u32 {
    1
}

/// `python.toml`: modules that an interpreter brings.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PythonFacts {
    pub builtin: BTreeSet<String>,
    pub runners: BTreeSet<String>,
    pub debuggers: BTreeSet<String>,
    pub loaders: BTreeSet<String>,
    pub tools: BTreeSet<String>,
    pub source: String,
    pub date: String,
}

/// `architectures.toml`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Architectures {
    pub architecture: Vec<GpuArchitecture>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuArchitecture {
    pub capability: ComputeCapability,
    pub name: String,
    pub chips: String,
    pub cuda: Vec<CudaVersion>,
    #[serde(default)]
    pub on_a_chip: bool,
    #[serde(default)]
    pub l4t: bool,
    pub device_tree: Option<String>,
}

/// `drivers.toml`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drivers {
    pub floor: Vec<DriverOfCuda>,
    pub branch: Vec<Branch>,
    pub toolkit: Vec<DriverOfCuda>,
    pub tegra: Vec<TegraRelease>,
    pub ptx: Vec<(String, CudaVersion)>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TegraRelease {
    pub l4t: Version,
    pub cuda: CudaVersion,
    pub source: String,
    pub date: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverOfCuda {
    pub cuda: Version,
    pub driver: Version,
    pub source: String,
    pub date: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Branch {
    pub driver: u32,
    pub cuda: CudaVersion,
    pub source: String,
    pub date: String,
}

/// `cudnn.toml`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cudnn {
    pub support: Vec<Support>,
}

/// The GPUs that a range of cuDNN's versions has code for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Support {
    pub versions: Range,
    pub cuda: Vec<u32>,
    pub gpus: Range,
    pub source: String,
    pub date: String,
}

/// `builds.toml`. Versions of Python's packages, and requirements on them, are texts in their grammar.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Builds {
    pub shared: Vec<String>,
    pub build: Vec<GpuBuild>,
    pub elsewhere: Vec<VendorBuild>,
    pub distribution: Vec<ListedDistribution>,
}

/// The GPUs that the builds of a distribution have code for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuBuild {
    pub framework: Option<String>,
    pub distribution: String,
    pub versions: Range,
    pub gpus: Range,
    pub source: String,
    pub date: String,
}

/// Builds on an index of a vendor's own.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VendorBuild {
    pub vendor: String,
    pub backend: Option<String>,
    pub cuda: Option<Version>,
    pub distributions: Vec<String>,
    pub gpus: Option<Range>,
    pub source: String,
    pub date: String,
}

/// A distribution on the default index.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListedDistribution {
    pub name: String,
    pub later: Option<String>,
    #[serde(default)]
    pub cpu_on: Vec<String>,
    pub framework: Option<String>,
    #[serde(default = "two")]
    pub numbers: usize,
    pub lines: usize,
    #[serde(default)]
    pub extras: Vec<String>,
    pub releases: Vec<Release>,
}

fn two() -> usize {
    2
}

/// A release, with one of its extras where there are any.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Release {
    pub version: String,
    pub extra: Option<String>,
    pub cuda: Option<Vec<Version>>,
    #[serde(default)]
    pub cpu_on: Vec<String>,
    pub python: Range,
    pub machines: Vec<String>,
    #[serde(default)]
    pub needs: Vec<String>,
    pub beside: Option<String>,
    #[serde(default)]
    pub source_only: bool,
    pub date: String,
}

/// `known-bad.toml`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownBad {
    pub release: Vec<BadRelease>,
    pub combination: Vec<Combination>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BadRelease {
    pub family: String,
    pub version: Version,
    pub why: String,
    pub source: String,
    pub date: String,
}

/// Versions that are bad together, or on certain GPUs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Combination {
    #[serde(rename = "of")]
    pub ranges: BTreeMap<String, Range>,
    pub gpus: Option<Range>,
    #[serde(default)]
    pub several_gpus: bool,
    pub effect: String,
    pub remedy: String,
    pub source: String,
    pub date: String,
}

/// `packages.toml`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackageTable {
    pub package: Vec<Packages>,
}

/// Packages of a distribution that are alike.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Packages {
    pub names: Vec<String>,
    pub upstream: bool,
    #[serde(default)]
    pub own_use: bool,
    pub source: String,
    pub date: String,
}

/// `statuses.toml`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statuses {
    pub cudnn: Vec<Status>,
    pub cuda: Vec<Status>,
    pub message: Vec<LibraryMessage>,
}

/// A `cudnnStatus_t`, a `CUresult`, or a `cudaError_t` that is no `CUresult`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Status {
    pub code: i64,
    pub name: String,
    pub cause: Option<Fault>,
    pub source: String,
    pub date: String,
}

/// A line that a library prints before it gives up.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LibraryMessage {
    pub text: String,
    pub cause: Fault,
    pub source: String,
    pub date: String,
}

/// `places.toml`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Places {
    pub place: Vec<Place>,
    pub layout: Vec<PlaceLayout>,
    pub program: Vec<ProgramModules>,
}

/// Where a program other than Python looks for its modules for CUDA.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramModules {
    pub names: Vec<String>,
    pub modules: Vec<String>,
    pub source: String,
    pub date: String,
}

/// Paths with libraries.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    pub source: String,
    pub holds: Holds,
    #[serde(default)]
    pub elsewhere: bool,
    pub paths: Vec<String>,
}

/// Paths below a root of one kind.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlaceLayout {
    #[serde(rename = "of")]
    pub root: Holds,
    pub holds: Holds,
    pub paths: Vec<String>,
}

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Holds {
    Driver,
    Compat,
    Toolkit,
    Bundled,
    Loose,
    ToolkitRoot,
    CompatRoot,
    HpcSdkRoot,
    CondaBase,
    CondaRoot,
    CondaList,
    PythonRoot,
    SitePackages,
    PackageStore,
    SpackRoot,
    Package,
}
