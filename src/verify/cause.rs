//! The cause of a failed proof: the fault, its evidence, and the library at fault. Words and remedies are made in
//! `report/`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::catalog::{AfterProof, Fault};
use crate::version::Version;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProofCause {
    #[serde(rename = "cause")]
    pub fault: Fault,
    pub evidence: Vec<ProofEvidence>,
    /// The library at fault. Another set without it may pass.
    pub culprit: Option<Culprit>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "evidence", rename_all = "kebab-case")]
pub enum ProofEvidence {
    /// A line that a library printed.
    Said { line: String },
    /// A variable of the program's environment.
    Variable { name: String, value: String },
    /// The version of the kernel driver.
    KernelDriver { version: String },
    /// A library that the failure concerns.
    Library {
        family: String,
        soname: String,
        version: Option<Version>,
        origin: String,
        directory: String,
    },
    /// The newest CUDA that the driver supports, as `cuDriverGetVersion` returns it.
    DriverCuda { number: i32 },
    /// Stems of files that are not there.
    Missing {
        stems: Vec<String>,
        directory: String,
    },
    /// A file of another version than the rest of its library.
    Foreign {
        file: String,
        version: Version,
        rest: Option<Version>,
    },
    /// A file that is shorter than its headers say.
    Truncated { file: String },
    /// Bytes.
    Memory { gpu: u32, free: u64, total: u64 },
    /// The machine has no device nodes of GPUs.
    NoDeviceNodes,
    /// The machine has this many GPUs, whichever the program may use.
    Gpus { count: usize },
}

/// The library at fault.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Culprit {
    pub family: String,
    pub soname: String,
    #[serde(with = "exactly")]
    pub directory: PathBuf,
}

/// Serializes a path as text, or as bytes if it is not UTF-8, so that it can be read back exactly.
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

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(
        deserializer: D,
    ) -> Result<PathBuf, D::Error> {
        Ok(match Written::deserialize(deserializer)? {
            Written::Text(text) => text.into(),
            Written::Bytes(bytes) => OsString::from_vec(bytes).into(),
        })
    }
}

impl ProofCause {
    /// True if another set of libraries may pass.
    pub fn is_of_library(&self) -> bool {
        self.fault.row().proof == Some(AfterProof::OtherPlan)
    }

    /// True if a proof may pass a moment later, with nothing changed.
    pub fn is_transient(&self) -> bool {
        self.fault.row().proof == Some(AfterProof::Transient)
    }

    pub(super) fn new(fault: Fault) -> ProofCause {
        ProofCause {
            fault,
            evidence: Vec::new(),
            culprit: None,
        }
    }

    pub(super) fn with(mut self, evidence: impl IntoIterator<Item = ProofEvidence>) -> ProofCause {
        self.evidence.extend(evidence);
        self
    }
}
