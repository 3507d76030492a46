//! The rows of `profiles/frameworks/`. The build script includes this file.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::range::Range;
use crate::version::{ComputeCapability, Version};

/// A file of `frameworks/`. The head of `torch.toml` explains the fields.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Framework {
    pub name: String,
    /// Its rank among those that a person most probably means; the others follow, by name.
    pub rank: Option<u32>,
    pub modules: Vec<String>,
    pub packages: Vec<String>,
    pub distributions: Vec<String>,
    pub imports: Option<Vec<String>>,
    #[serde(default = "yes")]
    pub scan_objects: bool,
    pub dlopens_wheels_since: Option<Version>,
    pub dlopens_wheels_by: Option<String>,
    pub dlopens_from_wheels: Option<Vec<String>>,
    pub dlopens_some_wheels: Option<BTreeMap<String, Version>>,
    #[serde(default)]
    pub dlopens: Vec<String>,
    pub dlopened_by: Option<Vec<String>>,
    #[serde(default)]
    pub opens_lazily: bool,
    pub required_for_gpu: Option<Vec<String>>,
    pub works_without: Option<Vec<String>>,
    pub extension_headers: Option<Vec<String>>,
    #[serde(default)]
    pub core_objects: Vec<String>,
    #[serde(default)]
    pub own_libraries: Vec<String>,
    pub namespaces: Option<Vec<String>>,
    #[serde(default)]
    pub cpu_only: Vec<Sign>,
    #[serde(default)]
    pub cuda: Vec<VersionRecord>,
    #[serde(default)]
    pub floor: BTreeMap<String, Vec<VersionRecord>>,
    #[serde(default)]
    pub declared: Vec<DeclaredVersion>,
    #[serde(default)]
    pub major: BTreeMap<String, Vec<VersionRecord>>,
    #[serde(default)]
    pub code: Vec<CodeRecord>,
    #[serde(default)]
    pub variable: Vec<Variable>,
    #[serde(default)]
    pub compiler: Vec<FrameworkCompiler>,
    pub source: String,
    pub date: String,
}

fn yes() -> bool {
    true
}

/// How a framework records a version.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "by", rename_all = "kebab-case", deny_unknown_fields)]
pub enum VersionRecord {
    /// `name = '12.4'`, with or without a type, in a Python file.
    Assignment { file: String, name: String },
    /// `('name', '12.4')` in a Python file.
    Pair { file: String, name: String },
    /// A string in a JSON file; dots in the key lead inward.
    Json { file: String, key: String },
    /// Macros of a C header that hold the version, or its numbers one each.
    Define { file: String, names: Vec<String> },
    /// The name of a file that was packed in under its own version: `libcudnn-74a4c495.so.9.1.0`.
    FileName { file: String },
    /// The first `major` digits after `word` in a version that a Python file assigns to `name`: `cu` in `2.5.1+cu124`.
    Local {
        file: String,
        name: String,
        word: String,
        major: usize,
    },
    /// Such digits in the name and version of an installed distribution: `mxnet-cu112`, `jaxlib 0.4.23+cuda12.cudnn89`.
    Installed {
        distribution: String,
        word: String,
        major: usize,
    },
    /// The version of another distribution that is installed.
    VersionOf { distribution: String },
    /// The constants that a module hands to Python one after the other, in address order.
    Constants { file: String, position: usize },
    /// A function that stores three numbers: major, minor, patch.
    CompileVersion { file: String, symbol: String },
}

/// The oldest version of a family that releases of a framework ask for, where their metadata does not say it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeclaredVersion {
    pub family: String,
    pub version: Version,
    pub releases: Range,
    /// The CUDA major of these builds.
    pub cuda: u32,
}

/// How a framework records the GPUs that it has code for.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "by", rename_all = "kebab-case", deny_unknown_fields)]
pub enum CodeRecord {
    /// The flags of the compiler in a macro of a C header: `-gencode;arch=compute_80,code=sm_80`.
    Flags { file: String, name: String },
    /// `('name', ['sm_80', 'compute_90'])` in a Python file; the latter is machine code and PTX.
    Pair { file: String, name: String },
    /// The fat binaries in these files, all of them together.
    FatBinaries { file: String },
}

/// Evidence that a build is not for NVIDIA's GPUs, or must not use them here.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "by", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Sign {
    /// `name = value` in a Python file, as it is written there.
    Assignment {
        file: String,
        name: String,
        value: String,
    },
    /// `('name', value)` in a Python file.
    Pair {
        file: String,
        name: String,
        value: String,
    },
    /// None of these files is there.
    Lacks { files: Vec<String> },
    /// Its object has no code for a GPU.
    NoCode { file: String },
    /// It came with this distribution.
    Installed { distribution: String },
    /// There is no GPU, and releases before this one crash if they find their libraries.
    CrashesWithoutGpu { before: Version },
}

/// An environment variable that changes what a framework asks for or where it looks.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    pub name: String,
    pub does: String,
    /// It opens libraries there before those of wheels, so cudarun does not set the variable for another framework.
    #[serde(default)]
    pub before_wheels: bool,
}

/// A part of a toolkit that a framework needs while it runs, and where it looks for it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrameworkCompiler {
    /// Its file name.
    pub part: String,
    /// The releases of the framework that this row is for.
    #[serde(default = "Range::any")]
    pub releases: Range,
    /// The GPUs that it is for: from this compute capability on, and below that one.
    pub gpus_from: Option<ComputeCapability>,
    pub gpus_below: Option<ComputeCapability>,
    /// Relative to site-packages.
    #[serde(default)]
    pub own: Vec<String>,
    #[serde(default)]
    pub places: Vec<String>,
    /// A program that leads it to the part from PATH.
    pub in_path: Option<String>,
    /// The variable by which it is told another place, and the value.
    pub variable: String,
    pub value: String,
    /// Other variables that lead it to another place as well.
    #[serde(default)]
    pub also_read: Vec<String>,
    /// The variable has options of many kinds: the value is added to those that are set.
    #[serde(default)]
    pub adds: bool,
    /// Most programs that use the framework fail without the part.
    #[serde(default)]
    pub needed: bool,
}

impl FrameworkCompiler {
    /// True if the row is for this GPU.
    pub fn is_for(&self, gpu: ComputeCapability) -> bool {
        self.gpus_from.is_none_or(|from| gpu >= from)
            && self.gpus_below.is_none_or(|below| gpu < below)
    }
}
