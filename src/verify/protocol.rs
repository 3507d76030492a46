//! What the two ends of a proof say to each other, used by both: a request on the child's standard input,
//! a line for each step that it enters, one line with its report.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Failure;

/// Both ends are one binary; this guards against a binary that was replaced in between.
pub const VERSION: u32 = 1;
/// The argument that makes this binary the child.
pub const CHILD: &str = "--verify-child";

/// What the child is to try.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub version: u32,
    /// The SONAME of the driver's library.
    pub driver: Option<String>,
    pub cudnn: Option<String>,
    /// Other libraries, to be loaded by SONAME.
    pub load: Vec<String>,
}

impl Request {
    pub fn is_empty(&self) -> bool {
        self.driver.is_none() && self.cudnn.is_none() && self.load.is_empty()
    }
}

/// A step of the child, announced as it is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    LoadDriver,
    CuInit,
    Device,
    LoadCudnn,
    CudnnVersion,
    CudnnCreate,
    Convolution,
    Compare,
    LoadOthers,
    Mapped,
}

/// What a child that came to its end reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Report {
    Passed(Finding),
    Failed(Failure),
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// `cuDriverGetVersion`: 13000 is CUDA 13.0.
    pub driver_cuda: Option<i32>,
    pub device: Option<String>,
    pub capability: Option<String>,
    /// `cudnnGetVersion`: 91900 is 9.19.0.
    pub cudnn: Option<u64>,
    /// The largest difference between the GPU's convolution and the CPU's.
    pub largest_error: Option<f64>,
    /// Every NVIDIA file that was mapped at the end.
    pub mapped: Vec<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Line {
    Entering(Step),
    Report(Report),
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
    fn what_is_said_is_what_is_heard() {
        let finding =
            Finding { cudnn: Some(91900), mapped: vec!["/a/libcudnn.so.9".into()], ..Finding::default() };
        let failure = Failure::Status {
            step: Step::CudnnCreate,
            call: "cudnnCreate".into(),
            code: 1001,
            name: None,
            message: None,
        };
        for line in [
            Line::Entering(Step::CuInit),
            Line::Report(Report::Passed(finding)),
            Line::Report(Report::Failed(failure)),
        ] {
            assert_eq!(parse(&format(&line)), Some(line));
        }
        for noise in
            ["", "cudnn says hello", "{}", r#"{"cudarun":0,"line":{"entering":"cu-init"}}"#, "{\"cudarun\":1"]
        {
            assert_eq!(parse(noise), None, "{noise}");
        }
    }
}
