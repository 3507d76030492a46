//! Why an installation was rejected, and by which criterion another was preferred.

use std::path::PathBuf;

use serde::Serialize;

use crate::catalog::title;
use crate::inventory::WritablePath;
use crate::range::Range;
use crate::requirements::PinnedTo;
use crate::text::{self, list, show, shown};
use crate::version::{ComputeCapability, CudaVersion, Version};

/// The order of preference, strongest first. The criteria from `Installed` to `SearchOrder` are columns in `preference`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Criterion {
    /// The user has named it.
    Pinned,
    /// No other installation was possible.
    OnlyOne,
    /// It is here, and need not be installed first.
    Installed,
    /// No other user can change it, or it is as safe as the program.
    Private,
    /// It is the driver of the running kernel, not one that replaces it.
    KernelsOwn,
    /// The loader takes it whatever we set.
    LoaderTakesIt,
    /// The user prefers such a version.
    Preferred,
    /// The user prefers this origin.
    PreferredOrigin,
    /// The program opens it by a name that only this version has.
    NamedVersion,
    /// It is as new as the metadata of the program's packages asks, and not known to be bad.
    Declared,
    /// It was installed with the program.
    CameWithTarget,
    /// It is not known to be bad with the other picks.
    Sound,
    /// It has machine code where the other has only PTX.
    MachineCode,
    /// It is in the directory of other picks, or of their origin and CUDA.
    Neighbours,
    /// It is the version that upstream tested with.
    Recorded,
    /// It is the next newer one.
    NearestNewer,
    Newest,
    /// The loader searches its directory first.
    SearchOrder,
    Path,
}

impl Criterion {
    /// Why the picked installation was picked, and why one that fits was not.
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            Criterion::Pinned => ("it is pinned", "another is pinned"),
            Criterion::OnlyOne => ("the only one that fits", "the loader takes another"),
            Criterion::Installed => ("it is installed", "is not installed"),
            Criterion::Private => ("no other user can change it", "another user can change it"),
            Criterion::KernelsOwn => (
                "it belongs to the kernel's driver",
                "does not belong to the kernel's driver",
            ),
            Criterion::LoaderTakesIt => ("the loader already takes it", "the loader takes another"),
            Criterion::NamedVersion => (
                "the program opens it by its version",
                "is not opened by its version",
            ),
            Criterion::Declared => (
                "as new as the packages' metadata asks",
                "is older than the packages' metadata asks",
            ),
            Criterion::CameWithTarget => {
                ("it came with the program", "did not come with the program")
            }
            Criterion::Preferred => ("a preferred version", "another version is preferred"),
            Criterion::PreferredOrigin => {
                ("its origin is preferred", "another origin is preferred")
            }
            Criterion::Sound => (
                "no known problem with the others",
                "has a known problem with the others",
            ),
            Criterion::MachineCode => (
                "it has machine code for the GPU",
                "has only PTX for the GPU",
            ),
            Criterion::Neighbours => (
                "in the directory of the others",
                "not in the directory of the others",
            ),
            Criterion::Recorded => (
                "the version that upstream tested with",
                "is not the version that upstream tested with",
            ),
            Criterion::NearestNewer => (
                "the next version after the one that upstream tested with",
                "is further from the version that upstream tested with",
            ),
            Criterion::Newest => ("the newest that fits", "is older"),
            Criterion::SearchOrder => ("the loader finds it first", "the loader finds it later"),
            Criterion::Path => ("the first by path", "comes later by path"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, thiserror::Error)]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum Reason {
    #[error("{}", other_name(.asked, .has.as_deref()))]
    OtherName { asked: String, has: Option<String> },
    #[error("older than {}, for which {} was compiled", .needed.truncated(2), title(.by))]
    TooOld { needed: Version, by: String },
    #[error("{} was compiled for {}", title(.by), .needed.truncated(2))]
    OtherMajor { needed: Version, by: String },
    #[error("{} contains a part of {needed} and needs the rest of that version", title(.by))]
    NotThatVersion { needed: Version, by: String },
    #[error("{} pins {}", show(.by), .pin)]
    NotThePinned { pin: PinnedTo, by: String },
    #[error("{} allows {range}", show(.by))]
    OutOfRange { range: Range, by: String },
    #[error("{} recorded another build of {}", show(.by), show(.file))]
    OtherBuild { file: String, by: String },
    #[error("its version is unknown, and {} needs a certain version", title(.by))]
    VersionUnknown { by: String },
    #[error("lacks {}", symbols(*.count, .first, .by))]
    LacksSymbols {
        count: usize,
        first: String,
        by: String,
    },
    #[error("incomplete: {} missing", shown(.missing))]
    Incomplete { missing: Vec<String> },
    #[error("mixed: {} is {version}", show(.file))]
    Mixed { file: String, version: Version },
    #[error("damaged: {} is cut short", show(.file))]
    Truncated { file: String },
    #[error("{open}")]
    Writable {
        #[serde(flatten)]
        open: WritablePath,
    },
    #[error("is for CUDA {has}, but {} is for CUDA {needed}", title(.by))]
    OtherCuda { has: u32, needed: u32, by: String },
    #[error("is for CUDA {has}, but {} allows {range}", show(.by))]
    CudaOutOfRange {
        has: Version,
        range: Range,
        by: String,
    },
    #[error("CUDA {cuda} needs driver {floor} or newer, but this machine has {driver}")]
    DriverTooOld {
        cuda: u32,
        floor: Version,
        driver: Version,
    },
    #[error("has no code for compute capability {gpu}{}", only_for(.has))]
    NoCode {
        gpu: ComputeCapability,
        has: Vec<ComputeCapability>,
    },
    #[error(
        "has only PTX of CUDA {needed} for compute capability {gpu}, but the driver compiles only up to {has}"
    )]
    PtxTooNew {
        gpu: ComputeCapability,
        needed: CudaVersion,
        has: CudaVersion,
    },
    #[error("a stub for linking: fails at run time")]
    Stub,
    #[error("the kernel runs driver {kernel}")]
    NotTheKernelsDriver { kernel: Version },
    #[error("not newer than the kernel's driver {kernel}")]
    CompatNotNewer { kernel: Version },
    #[error("supports kernel drivers {}, but this machine has {kernel}", list(.branches))]
    CompatOtherBranch { kernel: Version, branches: Vec<u32> },
    #[error("known to be bad: {why}")]
    KnownBad { why: String },
    #[error("failed its proof on this machine")]
    FailedProof,
    #[error("needs glibc {needed}, but this machine has {has}")]
    NeedsGlibc { needed: Version, has: Version },
    #[error("shadowed by RPATH: {} searches elsewhere before LD_LIBRARY_PATH", title(.by))]
    LoaderTakesAnother {
        #[serde(serialize_with = "text::path")]
        directory: PathBuf,
        by: String,
    },
    #[error("renamed by its package: no other program finds it")]
    Renamed,
    #[error("does not fit {}: {why}", title(.with))]
    Clash { with: String, why: Box<Reason> },
    #[error("is linked against {}, for which nothing fits", show(.name))]
    NeedsAbsent { name: String },
    #[error("with it, no installation of another library fits")]
    DeadEnd,
    #[error("fits, but {}", .criterion.words().1)]
    LessPreferred { criterion: Criterion },
}

impl Reason {
    /// The reason behind a clash with another pick; any other reason is its own.
    pub fn deepest(&self) -> &Reason {
        match self {
            Reason::Clash { why, .. } => why.deepest(),
            other => other,
        }
    }
}

fn other_name(asked: &str, has: Option<&str>) -> String {
    match has {
        Some(has) => format!("is {}", show(has)),
        None => format!("has no {}", show(asked)),
    }
}

/// The symbols that `by` imports in vain.
fn symbols(count: usize, first: &str, by: &str) -> String {
    let (first, by) = (show(first), title(by));
    match count {
        1 => format!("`{first}`, which {by} imports"),
        _ => format!("{count} symbols that {by} imports, for example `{first}`"),
    }
}

fn only_for(has: &[ComputeCapability]) -> String {
    match has {
        [] => String::new(),
        [only] => format!(", only for {only}"),
        [first, .., last] => format!(", only for {first} to {last}"),
    }
}
