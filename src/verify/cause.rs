//! Why a proof failed: a cause with a name, what it rests on, and the library that is to blame, if one is. Words and
//! remedies are made in `report/`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::subject::Library;
use crate::version::Version;

/// Why a proof failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cause {
    #[serde(rename = "cause")]
    pub kind: Kind,
    pub evidence: Vec<Evidence>,
    /// The library that is at fault: another set without it may do.
    pub culprit: Option<Culprit>,
}

/// The causes. The name of each is the same everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// There is no libcuda.
    NoDriver,
    /// The libcuda that is found is one to link against.
    StubDriver,
    /// `CUDA_VISIBLE_DEVICES` leaves no GPU.
    GpusHidden,
    /// The driver finds no GPU.
    NoDevice,
    /// A forward-compatibility libcuda does not go with this driver or this GPU.
    CompatRefused,
    /// The two halves of the driver are of different versions.
    DriverMismatch,
    DriverTooOld,
    /// A part of the driver's user-space half is missing.
    DriverIncomplete,
    /// The driver does not answer.
    DriverUnreachable,
    /// The machine's fabric or its MPS is not ready.
    NotReady,
    /// A part of a library is missing.
    SublibraryMissing,
    /// A part of a library is of another version than the rest.
    SublibraryForeign,
    /// A library, or something that it is linked against, does not load.
    LibraryDoesNotLoad,
    /// A file is shorter than it says.
    LibraryDamaged,
    /// Every way to compute a convolution is refused.
    NoEngine,
    /// There is no code for this GPU.
    NoKernelImage,
    /// A kernel could not be compiled at run time.
    CompilationFailed,
    /// Neither too little memory nor anything else that is known.
    Refused,
    OutOfMemory,
    GpuBusy,
    /// This process may not have more of the machine's own memory.
    HostMemory,
    /// The child was killed by somebody else, or by the kernel.
    Killed,
    /// The GPU reports a fault of its own.
    GpuFault,
    WrongNumbers,
    /// Files were mapped that are not of the set.
    ForeignFiles,
    TimedOut,
    /// The child was killed by a signal.
    Crashed,
    /// The child ended without a report.
    NoReport,
}

/// What a cause rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "evidence", rename_all = "kebab-case")]
pub enum Evidence {
    /// What a library printed.
    VersionEvidence {
        line: String,
    },
    Variable {
        name: String,
        value: String,
    },
    /// The version of the kernel's driver.
    KernelDriver {
        version: String,
    },
    /// A library, and where it stands.
    Library {
        family: String,
        soname: String,
        version: Option<Version>,
        origin: String,
        directory: String,
    },
    /// The newest CUDA that the driver knows, as `cuDriverGetVersion` has it.
    DriverCuda {
        number: i32,
    },
    Missing {
        stems: Vec<String>,
        directory: String,
    },
    Foreign {
        file: String,
        version: Version,
        rest: Option<Version>,
    },
    Truncated {
        file: String,
    },
    /// Bytes.
    Memory {
        gpu: u32,
        free: u64,
        total: u64,
    },
    /// There is no device node to reach a GPU by.
    NoDeviceNodes,
    /// A library has closed descriptors that are not its own.
    CutOff,
}

/// The library that is at fault.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Culprit {
    pub family: String,
    pub soname: String,
    #[serde(with = "exactly")]
    pub directory: PathBuf,
}

/// A path as text, and as its bytes where it is none: what is kept must be found again.
mod exactly {
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Text(String),
        Bytes(Vec<u8>),
    }

    pub(super) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        match path.to_str() {
            Some(text) => text.serialize(serializer),
            None => path.as_os_str().as_bytes().serialize(serializer),
        }
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(deserializer: D) -> Result<PathBuf, D::Error> {
        Ok(match Written::deserialize(deserializer)? {
            Written::Text(text) => text.into(),
            Written::Bytes(bytes) => OsString::from_vec(bytes).into(),
        })
    }
}

impl Kind {
    /// Whether another set of libraries may do better.
    pub fn is_of_library(self) -> bool {
        matches!(
            self,
            Kind::SublibraryMissing
                | Kind::SublibraryForeign
                | Kind::LibraryDoesNotLoad
                | Kind::LibraryDamaged
                | Kind::NoEngine
                | Kind::NoKernelImage
                | Kind::CompilationFailed
                | Kind::Refused
                | Kind::WrongNumbers
                | Kind::Crashed
                | Kind::NoReport
        )
    }

    /// Whether it may be otherwise in a moment, with nothing changed.
    pub fn is_passing(self) -> bool {
        matches!(
            self,
            Kind::OutOfMemory
                | Kind::GpuBusy
                | Kind::HostMemory
                | Kind::Killed
                | Kind::NotReady
                | Kind::TimedOut
                | Kind::DriverUnreachable
        )
    }
}

impl Cause {
    pub(super) fn new(kind: Kind) -> Cause {
        Cause { kind, evidence: Vec::new(), culprit: None }
    }

    pub(super) fn with(mut self, evidence: impl IntoIterator<Item = Evidence>) -> Cause {
        self.evidence.extend(evidence);
        self
    }
}

impl Culprit {
    pub(super) fn of(library: &Library) -> Culprit {
        Culprit {
            family: library.family.clone(),
            soname: library.soname.clone(),
            directory: library.directory.clone(),
        }
    }
}
