//! The question and the answer of `advise`.

use std::str::FromStr;

use pep440_rs::VersionSpecifiers;
use serde::Serialize;

use super::table::ReleaseCandidate;
use crate::formats::metadata;
use crate::range::Range;
use crate::version::{ComputeCapability, Version};

/// The machine that packages are chosen for. What is not known limits nothing.
#[derive(Clone, Debug, Default)]
pub struct AdvisedMachine {
    pub driver: Option<Version>,
    pub gpus: Vec<ComputeCapability>,
    /// `3.12`
    pub python: Option<Version>,
    /// `x86_64`
    pub machine: String,
    /// A framework that is kept.
    pub installed: Option<KeptFramework>,
}

/// An installed framework.
#[derive(Clone, Debug)]
pub struct KeptFramework {
    pub name: String,
    /// As installed: `2.9.1+cu126`.
    pub version: pep440_rs::Version,
}

/// A package that is asked for.
#[derive(Clone, Debug)]
pub struct AskedPackage {
    /// Normalised.
    pub name: String,
    pub extra: Option<String>,
    pub versions: VersionSpecifiers,
}

/// The answer.
#[derive(Debug, Default)]
pub struct Advice {
    /// Those that are asked for first, then what they need. Empty if nothing works.
    pub picks: Vec<AdvisedRelease>,
    /// The newest releases that were asked for and not picked; all, if nothing works.
    pub passed_over: Vec<PassedOver>,
    /// If nothing works: a machine or a question like this one, for which something does.
    pub relaxed: Option<Relaxed>,
    /// The picks without those that are only required, if only the default index counts; empty if the picks are all from there.
    pub on_default_index: Vec<AdvisedRelease>,
}

/// A release of the answer.
#[derive(Clone, Debug)]
pub struct AdvisedRelease {
    pub candidate: ReleaseCandidate,
    pub role: Role,
}

/// Why a release is in the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It was asked for.
    Asked,
    /// A package that was asked for extends it.
    Framework,
    /// A requirement.
    Required,
}

#[derive(Debug)]
pub struct PassedOver {
    pub name: String,
    pub version: String,
    pub why: ReleaseObstacle,
}

/// What must change so that something works. Each was tried.
#[derive(Clone, Debug, PartialEq)]
pub enum Relaxed {
    /// This driver, or a newer one.
    Driver(Version),
    Python(Version),
    /// Any GPU that this release has code for.
    OtherGpu,
    /// Another version of the framework than the installed one.
    OtherFramework,
    /// Other versions than those that were asked for.
    OtherVersions,
    /// All packages but this one.
    Without(String),
}

/// Why a release is not picked.
#[derive(Clone, Debug, PartialEq)]
pub enum ReleaseObstacle {
    /// No wheel, neither of its own nor for all machines.
    Machine(String),
    /// The wheel for this machine is built without CUDA.
    WithoutCuda(String),
    Python(Range),
    Driver {
        cuda: Version,
        needs: Version,
    },
    Gpu {
        gpu: ComputeCapability,
        has: Range,
    },
    /// It is built for Arm servers, and the GPU is that of a Jetson whose system is another one.
    NotForJetson(ComputeCapability),
    /// The last CUDA version that makes code for the GPU is older.
    DroppedGpu {
        gpu: ComputeCapability,
        cuda: Version,
        last: Version,
    },
    /// A requirement of its own.
    Needs {
        needs: String,
        why: Option<Box<ReleaseObstacle>>,
    },
    /// Another package needs something else.
    Conflict {
        needs: String,
        other: String,
        other_needs: String,
    },
    /// Another package needs another version of this one.
    NeededOtherwise {
        other: String,
        other_needs: String,
    },
    /// Another version of a requirement is asked for.
    AskedOtherwise {
        needs: String,
    },
    /// They are for different CUDA majors.
    OtherCuda {
        cuda: Version,
        other: String,
        other_cuda: Version,
    },
    /// It works only with other releases than the rest.
    Together,
}

impl FromStr for AskedPackage {
    type Err = ();

    /// Reads `vllm==0.11.0` or `jax[cuda12]`, without a marker or an address.
    fn from_str(text: &str) -> Result<AskedPackage, ()> {
        if text.contains([';', '@', '\n']) {
            return Err(());
        }
        let read = metadata::requirements(&format!("Requires-Dist: {text}"));
        let requirement = read.into_iter().next().ok_or(())?;
        let mut extras = requirement.extras.into_iter();
        let extra = extras.next();
        if extras.next().is_some() {
            return Err(());
        }
        Ok(AskedPackage {
            name: requirement.name,
            extra,
            versions: requirement.versions.parse().map_err(|_| ())?,
        })
    }
}
