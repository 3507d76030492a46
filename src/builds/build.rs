//! The types of the room: the demands of a build, and the toolkit that it gets.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;

use serde::Serialize;

use crate::environment::Diff;
use crate::inventory::{PartKind, Toolkit, ToolkitProblem, WritablePath};
use crate::pin::view::ViewSpec;
use crate::program::BuiltFramework;
use crate::range::Range;
use crate::requirements::Asker;
use crate::text::{self, show};
use crate::version::{ComputeCapability, CudaVersion, Version};

/// The demands of a build on a toolkit.
#[derive(Clone, Debug, Default)]
pub struct BuildRequirements {
    /// The framework that extensions are built for.
    pub framework: Option<BuiltFramework>,
    /// Versions that a person demands.
    pub ranges: Vec<(Range, Asker)>,
    /// The command builds in an environment of its own, without the framework.
    pub is_isolated: bool,
    /// The nvcc that the command names by its path.
    pub nvcc: Option<PathBuf>,
}

/// The toolkit of a program that compiles.
#[derive(Debug)]
pub struct Build {
    pub plan: BuildPlan,
    /// The files that it was read from.
    pub watched: BTreeSet<PathBuf>,
    /// Its view, if it needs one.
    pub view: Option<PathBuf>,
}

/// Why a toolkit does not fit.
#[derive(Clone, Debug, Serialize, thiserror::Error)]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum ToolkitReason {
    #[error("has no nvcc")]
    NoNvcc,
    #[error("{open}")]
    Open { open: WritablePath },
    #[error("{problem}")]
    Broken { problem: ToolkitProblem },
    #[error("nvcc does not say its release")]
    ReleaseUnknown,
    #[error("is not {range}, for {}", .asker.with_place())]
    NotInRange { range: String, asker: Asker },
    #[error("{} needs CUDA {}", show(.framework), .needs.major)]
    OtherMajor {
        needs: CudaVersion,
        #[serde(rename = "by")]
        framework: String,
    },
    #[error("has no {}, which the headers of {} include", show(.header), show(.framework))]
    HeaderMissing {
        header: String,
        #[serde(rename = "by")]
        framework: String,
    },
    #[error("makes no code for compute capability {gpu}")]
    NoCode { gpu: ComputeCapability },
    #[error("accepts GCC up to {newest}, and the default GCC here is {found}")]
    GccTooNew { newest: u32, found: u32 },
}

#[derive(Clone, Debug)]
pub struct RejectedToolkit {
    pub toolkit: Toolkit,
    pub reason: ToolkitReason,
}

/// A C++ compiler that nvcc would start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostCompiler {
    #[serde(serialize_with = "text::path")]
    pub path: PathBuf,
    /// Its major version; `None` for a compiler that is no GCC, or does not say.
    pub gcc: Option<u32>,
}

/// The toolkit of a build.
#[derive(Clone, Debug)]
pub struct BuildPlan {
    pub toolkit: Toolkit,
    pub framework: Option<BuiltFramework>,
    /// Toolkits that fit and are not as good, and those that do not fit.
    pub passed_over: Vec<Toolkit>,
    pub rejected: Vec<RejectedToolkit>,
    /// The compiler that nvcc is told to use; `None` if it accepts the one that it finds.
    pub host_compiler: Option<HostCompiler>,
    /// The visible GPUs for which the toolkit makes code.
    pub gpus: Vec<ComputeCapability>,
    /// The content of the toolkit view; `None` if the toolkit is used where it is installed.
    pub spec: Option<ViewSpec>,
    /// Variables that named another toolkit.
    pub overridden: Vec<Overridden>,
    /// Variables for the libraries whose headers are in the wheels beside the framework.
    pub libraries: Vec<(&'static str, PathBuf)>,
    /// The command builds in an environment of its own, without the framework.
    pub is_isolated: bool,
    /// The paths that it was read from, besides those of the toolkits.
    pub watched: BTreeSet<PathBuf>,
}

/// A variable that named another toolkit, or `nvcc` for the command's own, its value, and the reason against that one; none if it
/// fits as well.
#[derive(Clone, Debug)]
pub struct Overridden(pub String, pub String, pub Option<ToolkitReason>);

/// The directory that a build gets, and the change of environment that leads to it.
#[derive(Clone, Debug, Default)]
pub struct PublishedBuild {
    pub view: Option<PathBuf>,
    pub diff: Diff,
}

/// No toolkit fits.
#[derive(Clone, Debug)]
pub struct NoToolkit {
    pub requirements: BuildRequirements,
    pub rejected: Vec<RejectedToolkit>,
    /// The CUDA version of a known toolkit that would fit.
    pub install: Option<CudaVersion>,
}

impl NoToolkit {
    /// The toolkit for which the smallest step is enough, or else the newest.
    pub fn nearest(&self) -> Option<&RejectedToolkit> {
        self.rejected.iter().max_by_key(|rejected| {
            let nearness = match rejected.reason {
                ToolkitReason::Open { .. } => 3,
                ToolkitReason::GccTooNew { .. } => 2,
                ToolkitReason::HeaderMissing { .. } => 1,
                _ => 0,
            };
            (nearness, rejected.toolkit.release)
        })
    }
}

/// The compilers that a program's frameworks lack while they run.
#[derive(Clone, Debug, Default)]
pub struct Compilers {
    pub supplied: Vec<CompilerSupply>,
    pub lacking: Vec<CompilerLack>,
    pub watched: BTreeSet<PathBuf>,
}

/// A part of a toolkit that a framework gets by a variable.
#[derive(Clone, Debug)]
pub struct CompilerSupply {
    pub lack: CompilerLack,
    pub variable: String,
    pub value: OsString,
    /// What is set beside it, so that nvcc compiles and links: PATH, CUDACXX and others.
    pub more: Diff,
    pub toolkit: PathBuf,
    /// The directory of links through which it is used, if it is published.
    pub view: Option<PathBuf>,
    pub is_withheld: bool,
    /// Why the variable is only shown.
    pub withheld: Option<Withheld>,
}

/// Why a program does not get a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withheld {
    /// The variable's options end at a blank, and the value has one.
    Blank,
    /// The variable names a file with options.
    NamesFile,
}

/// A part that a framework does not find.
#[derive(Clone, Debug)]
pub struct CompilerLack {
    /// `jax 0.8.3`
    pub package: String,
    pub part: PartKind,
    /// The release of the part that it finds, which is too old for a GPU here.
    pub old: Option<Version>,
    /// Most programs fail without it.
    pub is_needed: bool,
    /// The CUDA version of a known toolkit that would serve, if none here does.
    pub install: Option<CudaVersion>,
}

impl Compilers {
    /// The CUDA version of the toolkit without which most programs fail. Headers come in a wheel of their own, of NVRTC's version.
    pub fn toolkit_to_fetch(&self) -> Option<CudaVersion> {
        self.lacking
            .iter()
            .filter(|lack| lack.is_needed && lack.part != PartKind::Headers)
            .filter_map(|lack| lack.install)
            .max()
    }
}
