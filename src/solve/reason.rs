//! Why an installation is not the one.

use std::path::PathBuf;

use serde::Serialize;

use super::model::Criterion;
use crate::inventory::Open;
use crate::program::Pin;
use crate::range::Range;
use crate::text;
use crate::version::{ComputeCapability, CudaVersion, DriverVersion, Version};

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum Reason {
    /// It has no file of that name: another SONAME.
    OtherName {
        asked: String,
        has: Option<String>,
    },
    TooOld {
        needed: Version,
        by: String,
    },
    OtherMajor {
        needed: Version,
        by: String,
    },
    NotThatVersion {
        needed: Version,
        by: String,
    },
    /// A person has named another.
    NotThePinned {
        pin: Pin,
        by: String,
    },
    /// A person allows other versions.
    OutOfRange {
        range: Range,
        by: String,
    },
    /// A lock has recorded another file of this name.
    OtherBuild {
        file: String,
        by: String,
    },
    VersionUnknown {
        by: String,
    },
    LacksSymbols {
        count: usize,
        first: String,
        by: String,
    },
    Incomplete {
        missing: Vec<String>,
    },
    Mixed {
        file: String,
        version: Version,
    },
    Truncated {
        file: String,
    },
    /// Another user could have put it there, and nothing else leads to it.
    Writable {
        #[serde(flatten)]
        open: Open,
    },
    OtherCuda {
        has: u32,
        needed: u32,
        by: String,
    },
    /// A person allows another CUDA.
    CudaOutOfRange {
        has: Version,
        range: Range,
        by: String,
    },
    DriverTooOld {
        cuda: u32,
        floor: DriverVersion,
        driver: DriverVersion,
    },
    /// It has no code for a visible GPU, and for these.
    NoCode {
        gpu: ComputeCapability,
        has: Vec<ComputeCapability>,
    },
    /// For a visible GPU it has only PTX, which this driver is too old to compile.
    PtxTooNew {
        gpu: ComputeCapability,
        needed: CudaVersion,
        has: CudaVersion,
    },
    Stub,
    NotTheKernelsDriver {
        kernel: DriverVersion,
    },
    CompatNotNewer {
        kernel: DriverVersion,
    },
    CompatOtherBranch {
        kernel: DriverVersion,
        branches: Vec<u32>,
    },
    KnownBad {
        why: String,
    },
    /// A proof has shown that it does not work here.
    FailedProof,
    NeedsGlibc {
        needed: Version,
        has: Version,
    },
    /// A requester's own search path comes before anything that we can set.
    LoaderTakesAnother {
        #[serde(serialize_with = "text::path")]
        directory: PathBuf,
        by: String,
    },
    /// Renamed by auditwheel: only its own package finds it.
    Renamed,
    Clash {
        with: String,
        why: Box<Reason>,
    },
    NeedsAbsent {
        name: String,
    },
    /// With it, another family could not be filled.
    DeadEnd,
    /// It is part of a better set, which was to be passed over.
    PassedOver,
    /// It would do; this criterion decided for another.
    LessPreferred {
        criterion: Criterion,
    },
}

impl Reason {
    /// Of a clash with another pick, why they clash.
    pub fn deepest(&self) -> &Reason {
        match self {
            Reason::Clash { why, .. } => why.deepest(),
            other => other,
        }
    }
}
