//! The messages between cudarun and the child of a proof: a request on the child's standard input, then lines on its
//! standard output, for each step as it is entered and for each observation, and one at the end.

use serde::{Deserialize, Serialize};

use crate::host::FileId;
use crate::modes::Level;

/// The argument that makes this binary the child.
pub const CHILD: &str = "--verify-child";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProofRequest {
    pub level: Level,
    /// The seed of the random numbers.
    pub seed: u32,
    /// The process number of the parent.
    pub parent: u32,
    /// In the order of loading.
    pub libraries: Vec<LibraryRequest>,
}

/// A library to load, and the SONAMEs of its other files. Without a directory, they are loaded by SONAME, so that the
/// loader searches for them as it does for the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LibraryRequest {
    pub family: String,
    pub soname: String,
    pub files: Vec<String>,
    /// Set if only the program's own search finds the library.
    #[serde(default)]
    pub directory: Option<String>,
}

/// A step of the child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChildStep {
    LoadDriver,
    CuInit,
    /// Lists the GPUs.
    Devices,
    /// The primary context of a GPU.
    Context,
    /// A library that programs ask for.
    Load,
    /// A file that comes with such a library.
    LoadFile,
    /// cuDNN's own checks of the versions of its libraries. They need no GPU.
    VersionChecks,
    /// Makes a handle of a library.
    Handle,
    Compute,
    /// Lists the mapped files.
    Mapped,
}

/// A step, with the library and the GPU that it uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProofStep {
    pub step: ChildStep,
    /// The SONAME of the library.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub of: Option<String>,
    /// The number that CUDA gives the GPU in the program.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gpu: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub computation: Option<Computation>,
}

/// A computation, in single precision where it has any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Computation {
    Convolution,
    /// A product of matrices by cuBLAS.
    Gemm,
    /// A kernel that NVRTC compiles, launched.
    CompiledKernel,
    /// A sum over all GPUs by NCCL.
    AllReduce,
}

/// The result of a step that did not fail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepResult {
    /// The numbers are right, to the last bit.
    Right,
    /// This GPU or this release cannot do it, which is no fault.
    NotSupported {
        call: String,
        code: i64,
        name: Option<String>,
    },
    /// An optional file did not load.
    NotLoaded { message: String },
}

/// A message of the child.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChildMessage {
    Entering(ProofStep),
    /// The result of the step that was entered last.
    Result(StepResult),
    Found(Observation),
    /// The last message of a proof without a failure.
    Passed,
    Failed(StepFailure),
}

/// A fact that the child observed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Observation {
    /// `cuDriverGetVersion`: 13000 is CUDA 13.0.
    DriverCuda(i32),
    /// A visible GPU.
    Gpu(GpuFound),
    /// Free and total bytes.
    Memory { gpu: u32, free: u64, total: u64 },
    /// The GPU was not tried.
    Busy { gpu: u32, why: Busy },
    /// `cudnnGetVersion` of a SONAME: 91900 is 9.19.0.
    Cudnn { soname: String, version: u64 },
    /// The files of NVIDIA's families that are mapped.
    Mapped(Vec<MappedFile>),
    /// The paths of all other objects that are mapped, as bytes.
    OtherFiles(Vec<Vec<u8>>),
}

/// A GPU as the program sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuFound {
    /// The number that CUDA gives it in the program.
    pub gpu: u32,
    pub name: Option<String>,
    pub capability: Option<String>,
    /// Bus, device and function.
    pub bus: Option<String>,
    pub compute_mode: ComputeMode,
    /// Bytes. `free` is known only with a context.
    pub memory: Option<u64>,
    pub free: Option<u64>,
    /// Set if the GPU could not be tried.
    pub busy: Option<Busy>,
}

/// The compute mode, as `nvidia-smi -c` sets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ComputeMode {
    #[default]
    Default,
    Prohibited,
    ExclusiveProcess,
}

/// The reason why a GPU cannot be used now, which is no fault of a library.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "busy", rename_all = "kebab-case")]
pub enum Busy {
    /// Too little of its memory is free.
    OutOfMemory {
        call: String,
        free: Option<u64>,
        total: Option<u64>,
    },
    /// Another process uses it exclusively.
    Exclusive { call: String },
    /// Its compute mode is `Prohibited`.
    Prohibited,
}

/// A file of NVIDIA's families that is mapped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MappedFile {
    /// With invalid UTF-8 replaced.
    pub path: String,
    /// `None` for a missing file.
    pub id: Option<FileId>,
}

/// The failure as it was observed. Its meaning is the [`ProofCause`](super::ProofCause).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "failure", rename_all = "kebab-case")]
pub enum StepFailure {
    /// A library did not load.
    Load {
        at: ProofStep,
        name: String,
        message: String,
    },
    /// A call returned an error code.
    Status {
        at: ProofStep,
        call: String,
        code: i64,
        name: Option<String>,
        message: Option<String>,
    },
    /// A computed number is wrong by more than rounding explains. Without `largest_error`, it is not finite.
    WrongNumbers {
        at: ProofStep,
        largest_error: Option<f64>,
        element: usize,
        allowed: f64,
    },
    /// Files were mapped that are not in the plan.
    Foreign { files: Vec<String> },
    /// The child was killed by a signal.
    Signal { at: Option<ProofStep>, signal: i32 },
    /// The child ended without a report. The code is unknown where the kernel does not let it go.
    Exited {
        at: Option<ProofStep>,
        code: Option<i32>,
    },
    /// The child was still running at the time limit.
    TimedOut { at: Option<ProofStep>, seconds: u64 },
}

impl ProofRequest {
    pub fn of_family<'r>(&'r self, family: &str) -> impl Iterator<Item = &'r LibraryRequest> {
        self.libraries
            .iter()
            .filter(move |library| library.family == family)
    }
}

impl ProofStep {
    pub fn at(step: ChildStep) -> ProofStep {
        ProofStep {
            step,
            of: None,
            gpu: None,
            computation: None,
        }
    }

    #[must_use]
    pub fn with(self, soname: &str) -> ProofStep {
        ProofStep {
            of: Some(soname.to_owned()),
            ..self
        }
    }

    #[must_use]
    pub fn on(self, gpu: u32) -> ProofStep {
        ProofStep {
            gpu: Some(gpu),
            ..self
        }
    }

    #[must_use]
    pub fn computing(self, computation: Computation) -> ProofStep {
        ProofStep {
            computation: Some(computation),
            ..self
        }
    }
}

/// Formats a line for the parent.
pub fn format(message: &ChildMessage) -> String {
    serde_json::json!(message).to_string()
}
