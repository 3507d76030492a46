//! The verdict of a proof, and the observations that it rests on.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::cause::ProofCause;
use super::protocol::{
    ChildStep, GpuFound, MappedFile, Observation, ProofStep, StepFailure, StepResult,
};
use crate::host::{FileId, Host};
use crate::modes::Level;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
#[allow(clippy::large_enum_variant, reason = "there is one of it at a time")]
pub enum Verdict {
    /// No proof was made.
    Skipped { why: Skip },
    /// Every step succeeded.
    Passed { proof: Proof },
    /// Nothing failed, but a GPU could not be tried: another process has it, or its memory.
    Busy { proof: Proof },
    /// A step failed, or the child ended without a report.
    Failed {
        proof: Proof,
        failure: StepFailure,
        cause: ProofCause,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Skip {
    /// No kernel driver, or no device node of a GPU.
    NoGpu,
    /// `CUDA_VISIBLE_DEVICES` hides all GPUs.
    GpusHidden,
    /// The plan holds no library that could be tried.
    NothingToTry,
    /// No directory can be used for the view that a proof needs.
    NoPlace,
    /// Packages use libraries that are here and that the plan leaves out.
    LeftOut,
    /// `--verify=never`.
    NotAsked,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    pub level: Level,
    /// The seed of the random numbers.
    pub seed: u32,
    /// From the start of the child to its end.
    pub milliseconds: f64,
    pub steps: Vec<StepRecord>,
    pub finding: ChildFacts,
}

/// A step that the child took, its duration and its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    #[serde(flatten)]
    pub place: ProofStep,
    pub milliseconds: f64,
    #[serde(rename = "came", skip_serializing_if = "Option::is_none", default)]
    pub result: Option<StepResult>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChildFacts {
    /// `cuDriverGetVersion`: 13000 is CUDA 13.0.
    pub driver_cuda: Option<i32>,
    pub gpus: Vec<GpuFound>,
    /// `cudnnGetVersion` by SONAME: 91900 is 9.19.0.
    pub cudnn: BTreeMap<String, u64>,
    /// Every NVIDIA file that was mapped at the end.
    pub mapped: Vec<MappedFile>,
    /// The other files that were mapped. The proof holds as long as they do not change.
    #[serde(default, rename = "beside")]
    pub other_files: Vec<OtherFile>,
}

/// The metadata of a mapped file that is not NVIDIA's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OtherFile {
    path: Vec<u8>,
    id: FileId,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl OtherFile {
    /// `None` for a missing file.
    pub fn read(host: &Host, path: &Path) -> Option<OtherFile> {
        let stat = host.stat(path).ok()?;
        Some(OtherFile {
            path: path.as_os_str().as_bytes().to_vec(),
            id: stat.id,
            size: stat.size,
            modified: stat.modified,
            changed: stat.changed,
        })
    }

    pub fn path(&self) -> PathBuf {
        OsStr::from_bytes(&self.path).into()
    }
}

impl StepRecord {
    pub(super) fn lists_files(&self) -> bool {
        self.place.step == ChildStep::Mapped
    }
}

impl ChildFacts {
    /// Adds the observations of another child.
    pub(super) fn join(&mut self, other: ChildFacts) {
        self.driver_cuda = self.driver_cuda.or(other.driver_cuda);
        self.gpus.extend(other.gpus);
        self.cudnn.extend(other.cudnn);
        self.mapped.extend(other.mapped);
        self.mapped.sort_by(|a, b| a.path.cmp(&b.path));
        self.mapped.dedup();
        self.other_files.extend(other.other_files);
        self.other_files.sort();
        self.other_files.dedup();
    }

    pub(super) fn add(&mut self, host: &Host, observation: Observation) {
        match observation {
            Observation::DriverCuda(cuda) => self.driver_cuda = Some(cuda),
            Observation::Gpu(gpu) => self.gpus.push(gpu),
            Observation::Memory { gpu, free, total } => {
                if let Some(found) = self.gpu_mut(gpu) {
                    found.free = Some(free);
                    found.memory = Some(total);
                }
            }
            Observation::Busy { gpu, why } => {
                if let Some(found) = self.gpu_mut(gpu) {
                    found.busy = Some(why);
                }
            }
            Observation::Cudnn { soname, version } => {
                self.cudnn.insert(soname, version);
            }
            Observation::Mapped(files) => self.mapped = files,
            Observation::OtherFiles(paths) => {
                self.other_files.clear();
                for path in paths {
                    let file = OtherFile::read(host, Path::new(OsStr::from_bytes(&path)));
                    self.other_files.extend(file);
                }
            }
        }
    }

    fn gpu_mut(&mut self, number: u32) -> Option<&mut GpuFound> {
        self.gpus.iter_mut().find(|gpu| gpu.gpu == number)
    }
}
