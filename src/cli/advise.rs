//! Options of `cudarun advise`.

use std::ffi::OsString;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use crate::version::{ComputeCapability, Version};

#[derive(Args, Debug)]
pub struct Advise {
    /// Ask for a machine with this driver: `550.54`
    #[arg(long, value_name = "VERSION", value_parser = driver)]
    pub driver: Option<Version>,
    /// Ask for GPUs of these compute capabilities: `9.0`, or `8.6,8.9`
    #[arg(long, value_name = "CAPABILITY", value_delimiter = ',', value_parser = capability)]
    pub gpu: Vec<ComputeCapability>,
    /// Ask for this version of Python, `3.12`, or for the environment of this Python
    #[arg(long, value_name = "PYTHON")]
    pub python: Option<OsString>,
    /// Keep this version of torch: `2.9.1`, `2.9.1+cu126` [default: the installed one, if that works]
    #[arg(long, value_name = "VERSION", value_parser = NonEmptyStringValueParser::new())]
    pub torch: Option<String>,
    /// Ask for this kind of machine
    #[arg(long, value_name = "MACHINE", value_parser = ["x86_64", "aarch64"])]
    pub machine: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Packages as pip names them, perhaps with versions: `vllm`, `vllm==0.11.0`, `jax[cuda12]`
    #[arg(value_name = "PACKAGE", required = true)]
    pub packages: Vec<String>,
}

impl Advise {
    /// True if it asks for another machine than this one.
    pub fn is_elsewhere(&self) -> bool {
        self.driver.is_some()
            || !self.gpu.is_empty()
            || self.python.is_some()
            || self.machine.is_some()
    }
}

fn driver(text: &str) -> Result<Version, &'static str> {
    // `nvidia-smi` shows three numbers, and people type the first.
    text.parse()
        .map_err(|()| "it is a version of the driver, such as 550.54.15")
}

fn capability(text: &str) -> Result<ComputeCapability, &'static str> {
    text.parse()
        .map_err(|()| "it is a compute capability, such as 9.0")
}
