//! What the two ends of a proof say to each other, used by both: a request on the child's standard input, a line for
//! each step as it is entered and for each thing that is found, one line at the end.

use serde::{Deserialize, Serialize};

use super::Failure;
use crate::cli::Level;
use crate::host::FileId;
use crate::variables;

/// Both ends are one binary; this guards against a binary that was replaced in between.
pub const VERSION: u32 = 2;
/// The argument that makes this binary the child.
pub const CHILD: &str = "--verify-child";
/// The variable by which what the child has left running is known as its own. Its value is different in each proof.
pub const MARK: &str = variables::PROOF;
/// The child's exit status where a library has closed the way to the parent.
pub const CUT_OFF: i32 = 113;

/// What the child is to try.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    pub version: u32,
    pub level: Level,
    /// What the random numbers are made from.
    pub seed: u32,
    /// The number of the process that asks.
    pub parent: u32,
    /// In the order in which they are loaded.
    pub libraries: Vec<Asked>,
}

/// A library to be loaded, and the other files that come with it: by SONAME, so that the loader's own search decides,
/// as it will for the program; or by path, where only the program's own search would find them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    pub family: String,
    pub soname: String,
    pub files: Vec<String>,
    /// Where it and its files stand, if they are to be loaded by path.
    #[serde(default)]
    pub directory: Option<String>,
}

/// A step of the child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    LoadDriver,
    CuInit,
    /// What GPUs there are.
    Devices,
    /// The primary context of a GPU.
    Context,
    /// A library that programs ask for.
    Load,
    /// A file that comes with such a library.
    LoadFile,
    /// What cuDNN's libraries say of each other: no GPU is needed for that.
    VersionChecks,
    CudnnCreate,
    Compute,
    /// Which files are mapped in the end.
    Mapped,
}

/// A step, what it is taken with, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    pub step: Step,
    /// The SONAME of the library that it is taken with.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub of: Option<String>,
    /// As CUDA counts them in the program.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gpu: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub computation: Option<Computation>,
}

/// What a GPU is made to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Computation {
    pub operation: Operation,
    pub precision: Precision,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    Convolution,
    ConvolutionBackwardData,
    ConvolutionBackwardFilter,
    /// A convolution, a bias and a ReLU as one graph.
    FusedGraph,
    Attention,
    /// A product of matrices by cuBLAS.
    Gemm,
    /// The same by cuBLASLt.
    GemmLt,
    /// There and back again.
    FourierTransform,
    RandomNumbers,
    LinearSystem,
    SparseProduct,
    /// A kernel is compiled, and launched.
    CompiledKernel,
    /// Over all GPUs.
    AllReduce,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Precision {
    Fp32,
    Tf32,
    Fp16,
    Bf16,
    Fp64,
    /// Where it says nothing.
    None,
}

/// What came of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Came {
    /// The numbers are right.
    Right(Measure),
    /// It cannot be had with this GPU or this release, and nothing is wrong with that.
    NotSupported { call: String, code: i64, name: Option<String> },
    /// A file that comes along does not load, which hinders nobody who does not ask for it.
    NotLoaded { message: String },
}

/// How far numbers were from what they must be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    pub largest_error: f64,
    /// What rounding explains: 0 where every sum can be represented.
    pub allowed: f64,
    /// How many products were added up for one number.
    pub length: u32,
}

/// What the child says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Line {
    Entering(Place),
    /// Of the step that was entered last.
    Came(Came),
    Found(Found),
    /// It came to its end, and nothing failed.
    Passed,
    Failed(Failure),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Found {
    /// `cuDriverGetVersion`: 13000 is CUDA 13.0.
    DriverCuda(i32),
    Gpu(GpuFound),
    Memory {
        gpu: u32,
        free: u64,
        total: u64,
    },
    Busy {
        gpu: u32,
        why: Busy,
    },
    /// `cudnnGetVersion` of a SONAME: 91900 is 9.19.0.
    Cudnn {
        soname: String,
        version: u64,
    },
    Mapped(Vec<MappedFile>),
    /// The paths of all other objects that are mapped, as bytes.
    Beside(Vec<Vec<u8>>),
}

/// A GPU as the program will be given it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuFound {
    /// As CUDA counts them in the program.
    pub gpu: u32,
    pub name: Option<String>,
    pub capability: Option<String>,
    /// Bus, device and function.
    pub bus: Option<String>,
    pub compute_mode: ComputeMode,
    /// Bytes; `free` is known once a context was made.
    pub memory: Option<u64>,
    pub free: Option<u64>,
    /// Why nothing could be tried on it.
    pub busy: Option<Busy>,
}

/// Who may use a GPU, as `nvidia-smi -c` sets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ComputeMode {
    #[default]
    Default,
    Prohibited,
    ExclusiveProcess,
}

/// Why a GPU cannot be used now, through no fault of a library.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "busy", rename_all = "kebab-case")]
pub enum Busy {
    OutOfMemory {
        call: String,
        free: Option<u64>,
        total: Option<u64>,
    },
    /// Another process has it for itself.
    Exclusive {
        call: String,
    },
    /// Nobody may use it.
    Prohibited,
}

/// A file of NVIDIA's families that is mapped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MappedFile {
    /// As a person may read it.
    pub path: String,
    /// None of a file that is gone.
    pub id: Option<FileId>,
}

impl Request {
    pub fn of_family<'r>(&'r self, family: &str) -> impl Iterator<Item = &'r Asked> {
        self.libraries.iter().filter(move |asked| asked.family == family)
    }
}

impl Place {
    pub fn at(step: Step) -> Place {
        Place { step, of: None, gpu: None, computation: None }
    }

    #[must_use]
    pub fn with(self, soname: &str) -> Place {
        Place { of: Some(soname.to_owned()), ..self }
    }

    #[must_use]
    pub fn on(self, gpu: u32) -> Place {
        Place { gpu: Some(gpu), ..self }
    }

    #[must_use]
    pub fn computing(self, computation: Computation) -> Place {
        Place { computation: Some(computation), ..self }
    }
}

/// A line of the child's. Whatever else it prints is not meant for us.
pub fn parse(line: &str) -> Option<Line> {
    #[derive(Deserialize)]
    struct Envelope {
        cudarun: u32,
        line: Line,
    }
    let envelope: Envelope = serde_json::from_str(line).ok()?;
    (envelope.cudarun == VERSION).then_some(envelope.line)
}

/// A line for the parent.
pub fn format(line: &Line) -> String {
    serde_json::json!({ "cudarun": VERSION, "line": line }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_sending_and_receiving() {
        let place = Place::at(Step::CudnnCreate).with("libcudnn.so.9").on(3);
        let failure = Failure::Status {
            at: place.clone(),
            call: "cudnnCreate".into(),
            code: 1001,
            name: None,
            message: None,
        };
        for line in [
            Line::Entering(Place::at(Step::CuInit)),
            Line::Entering(place),
            Line::Came(Came::Right(Measure { largest_error: 0.0, allowed: 1e-6, length: 27 })),
            Line::Found(Found::Gpu(GpuFound { gpu: 1, busy: Some(Busy::Prohibited), ..GpuFound::default() })),
            Line::Found(Found::Mapped(vec![MappedFile { path: "/a/libcudnn.so.9".into(), id: None }])),
            Line::Passed,
            Line::Failed(failure),
        ] {
            assert_eq!(parse(&format(&line)), Some(line));
        }
        for noise in ["", "cudnn says hello", "{}", r#"{"cudarun":0,"line":"passed"}"#, "{\"cudarun\":2"] {
            assert_eq!(parse(noise), None, "{noise}");
        }
    }
}
