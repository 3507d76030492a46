//! Why an installation was rejected, and by which criterion another was preferred.

use std::path::PathBuf;

use serde::Serialize;

use crate::inventory::WritablePath;
use crate::program::PinnedTo;
use crate::range::Range;
use crate::text;
use crate::version::{ComputeCapability, CudaVersion, DriverVersion, Version};

/// The order of preference, strongest first. The criteria from `Installed` to `SearchOrder` are columns in `preference`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Criterion {
    /// A person has named it.
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
    /// A person prefers such a version.
    Preferred,
    /// A person prefers this origin.
    PreferredOrigin,
    /// The program opens it by a name that only this version has.
    NamedVersion,
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

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum Reason {
    /// It has no file of that name: its SONAME is another.
    OtherName { asked: String, has: Option<String> },
    /// It is older than the version that the asker was compiled for.
    TooOld { needed: Version, by: String },
    /// The asker was compiled for another major.
    OtherMajor { needed: Version, by: String },
    /// The asker needs the rest of this version.
    NotThatVersion { needed: Version, by: String },
    /// A person has named another.
    NotThePinned { pin: PinnedTo, by: String },
    /// A person allows other versions.
    OutOfRange { range: Range, by: String },
    /// A lock has recorded another file of this name.
    OtherBuild { file: String, by: String },
    /// The asker needs a certain version.
    VersionUnknown { by: String },
    /// The asker imports symbols that it does not export.
    LacksSymbols {
        count: usize,
        first: String,
        by: String,
    },
    /// Required files are missing.
    Incomplete { missing: Vec<String> },
    /// One file is of another version than the rest.
    Mixed { file: String, version: Version },
    /// A file is cut short.
    Truncated { file: String },
    /// Another user could have put it there, and nothing else leads to it.
    Writable {
        #[serde(flatten)]
        open: WritablePath,
    },
    /// The asker is for another CUDA.
    OtherCuda { has: u32, needed: u32, by: String },
    /// A person allows another CUDA.
    CudaOutOfRange {
        has: Version,
        range: Range,
        by: String,
    },
    /// The driver does not run its CUDA.
    DriverTooOld {
        cuda: u32,
        floor: DriverVersion,
        driver: DriverVersion,
    },
    /// It has no code for a visible GPU, but for those in `has`.
    NoCode {
        gpu: ComputeCapability,
        has: Vec<ComputeCapability>,
    },
    /// It has only PTX for a visible GPU, and this driver is too old to compile that.
    PtxTooNew {
        gpu: ComputeCapability,
        needed: CudaVersion,
        has: CudaVersion,
    },
    /// It is made for linking only.
    Stub,
    /// The kernel runs another driver.
    NotTheKernelsDriver { kernel: DriverVersion },
    /// It is no newer than the kernel's driver.
    CompatNotNewer { kernel: DriverVersion },
    /// Its note allows other branches of kernel drivers.
    CompatOtherBranch {
        kernel: DriverVersion,
        branches: Vec<u32>,
    },
    /// The release is known to be bad.
    KnownBad { why: String },
    /// A proof has shown that it does not work here.
    FailedProof,
    /// It needs a newer C library.
    NeedsGlibc { needed: Version, has: Version },
    /// A requester's own search path comes before all that we can set.
    LoaderTakesAnother {
        #[serde(serialize_with = "text::path")]
        directory: PathBuf,
        by: String,
    },
    /// Renamed by auditwheel: only its own package finds it.
    Renamed,
    /// It does not fit another pick.
    Clash { with: String, why: Box<Reason> },
    /// It is linked against a name for which nothing fits.
    NeedsAbsent { name: String },
    /// With it, another family has no candidate.
    DeadEnd,
    /// It is part of a better set, which the caller wants to pass over.
    PassedOver,
    /// It fits; this criterion decided for another.
    LessPreferred { criterion: Criterion },
}

impl Reason {
    /// Returns the reason behind a clash with another pick; any other reason is its own.
    pub fn deepest(&self) -> &Reason {
        match self {
            Reason::Clash { why, .. } => why.deepest(),
            other => other,
        }
    }
}
