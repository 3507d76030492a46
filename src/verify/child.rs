//! The child of a proof. It loads code that may abort, hang or lie: nothing else happens in this process,
//! and every step is announced before it is taken.
#![allow(unsafe_code, reason = "loads libraries and calls the driver; each block says what makes it sound")]

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::path::PathBuf;

use cudarc::driver::sys::CUdevice_attribute_enum::{
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
};
use cudarc::driver::{DriverError, result as driver};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use super::Failure;
use super::cudnn::{Buffers, Cudnn, Refused};
use super::protocol::{Finding, Line, Report, Request, Step, VERSION, format};
use super::reference::Convolution;
use crate::catalog::catalog;
use crate::host::Host;

/// What the convolution is made of; the same numbers on every run, so that a failure can be repeated.
const SEED: u32 = 20_261_121;
/// On small whole numbers every algorithm that cuDNN may choose is exact.
const TOLERANCE: f64 = 1e-3;

/// Reads a request from standard input, tries it, and reports; the exit code is 0 when a report was made.
/// Ends the process on the spot: what libraries do as a process ends, threads of theirs that still run and
/// destructors, must not make a crash of a proof that has been reported.
pub fn main(host: &Host) -> ! {
    let code = i32::from(answer(host).is_none());
    // SAFETY: ends this process and touches nothing in it; there is nothing of ours left to be flushed.
    unsafe { nix::libc::_exit(code) }
}

fn answer(host: &Host) -> Option<()> {
    // Should cudarun be killed, the child must not outlive it.
    let _ = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL);
    let mut parent = Parent(File::from(take_output().ok()?));
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).ok()?;
    let request: Request = serde_json::from_str(&text).ok()?;
    if request.version != VERSION {
        return None;
    }
    let report = match try_all(host, &request, &mut parent) {
        Ok(finding) => Report::Passed(finding),
        Err(failure) => Report::Failed(failure),
    };
    parent.say(&Line::Report(report)).ok()
}

/// The line to the parent; what libraries print on standard output goes to standard error instead.
fn take_output() -> nix::Result<OwnedFd> {
    // SAFETY: the number is that of a descriptor which F_DUPFD_CLOEXEC has just made for us alone.
    let output = unsafe {
        OwnedFd::from_raw_fd(nix::fcntl::fcntl(
            std::io::stdout().as_fd(),
            nix::fcntl::FcntlArg::F_DUPFD_CLOEXEC(3),
        )?)
    };
    nix::unistd::dup2_stdout(std::io::stderr().as_fd())?;
    Ok(output)
}

struct Parent(File);

impl Parent {
    fn say(&mut self, line: &Line) -> std::io::Result<()> {
        self.0.write_all((format(line) + "\n").as_bytes())
    }

    fn enter(&mut self, step: Step) {
        // A parent that is gone needs no news.
        let _ = self.say(&Line::Entering(step));
    }
}

fn try_all(host: &Host, request: &Request, parent: &mut Parent) -> Result<Finding, Failure> {
    let mut finding = Finding::default();
    let mut loaded: Vec<Library> = Vec::new();
    if let Some(name) = &request.driver {
        parent.enter(Step::LoadDriver);
        let library = load(Step::LoadDriver, name)?;
        parent.enter(Step::CuInit);
        finding.driver_cuda = initialise(&library)?;
        loaded.push(library);
        parent.enter(Step::Device);
        use_first_device(&mut finding)?;
    }
    if let Some(name) = &request.cudnn {
        parent.enter(Step::LoadCudnn);
        let library = load(Step::LoadCudnn, name)?;
        let cudnn = Cudnn::new(&library).map_err(|missing| Failure::Load {
            step: Step::LoadCudnn,
            name: name.clone(),
            message: format!("no function {missing}"),
        })?;
        loaded.push(library);
        parent.enter(Step::CudnnVersion);
        finding.cudnn = Some(cudnn.version());
        if request.driver.is_some() {
            finding.largest_error = Some(convolve(&cudnn, parent)?);
        }
    }
    parent.enter(Step::LoadOthers);
    for name in &request.load {
        loaded.push(load(Step::LoadOthers, name)?);
    }
    parent.enter(Step::Mapped);
    finding.mapped = mapped(host);
    // Libraries are not closed: their destructors are nobody's proof.
    std::mem::forget(loaded);
    Ok(finding)
}

/// By SONAME, so that the loader's own search decides, as it will for the program.
fn load(step: Step, name: &str) -> Result<Library, Failure> {
    // SAFETY: runs the constructors of a library that was picked; what they do to this process is a verdict.
    unsafe { Library::open(Some(name), RTLD_NOW | RTLD_LOCAL) }.map_err(|error| Failure::Load {
        step,
        name: name.to_owned(),
        // The loader's own words are in the error's source.
        message: std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string),
    })
}

/// `cuInit` before anything else: its code tells apart what `cudnnCreate` does not.
fn initialise(library: &Library) -> Result<Option<i32>, Failure> {
    let status = |call: &str, code: i32| Failure::Status {
        step: Step::CuInit,
        call: call.to_owned(),
        code: i64::from(code),
        name: error_name(library, code),
        message: None,
    };
    // SAFETY: `CUresult cuInit(unsigned int)` and `CUresult cuDriverGetVersion(int*)`, in every driver.
    unsafe {
        let Ok(init) = library.get::<unsafe extern "C" fn(u32) -> i32>("cuInit") else {
            return Err(Failure::Load {
                step: Step::CuInit,
                name: "libcuda".to_owned(),
                message: "no function cuInit".to_owned(),
            });
        };
        let code = init(0);
        if code != 0 {
            return Err(status("cuInit", code));
        }
        let Ok(get_version) = library.get::<unsafe extern "C" fn(*mut i32) -> i32>("cuDriverGetVersion")
        else {
            return Ok(None);
        };
        let mut version = 0;
        match get_version(&raw mut version) {
            0 => Ok(Some(version)),
            code => Err(status("cuDriverGetVersion", code)),
        }
    }
}

/// The driver's own name for one of its codes, `CUDA_ERROR_SYSTEM_DRIVER_MISMATCH`.
fn error_name(library: &Library, code: i32) -> Option<String> {
    type GetName = unsafe extern "C" fn(i32, *mut *const std::ffi::c_char) -> i32;
    // SAFETY: `CUresult cuGetErrorName(CUresult, const char**)` gives a static text, or none.
    unsafe {
        let get_name = library.get::<GetName>("cuGetErrorName").ok()?;
        let mut text = std::ptr::null();
        if get_name(code, &raw mut text) != 0 || text.is_null() {
            return None;
        }
        Some(std::ffi::CStr::from_ptr(text).to_string_lossy().into_owned())
    }
}

/// The primary context of the first device becomes this thread's.
fn use_first_device(finding: &mut Finding) -> Result<(), Failure> {
    let failed = |call: &str| {
        let call = call.to_owned();
        move |error: DriverError| refused_by_driver(Step::Device, &call, error)
    };
    let device = driver::device::get(0).map_err(failed("cuDeviceGet"))?;
    finding.device = driver::device::get_name(device).ok();
    let attribute = |attribute| {
        // SAFETY: `device` is a device that the driver gave.
        unsafe { driver::device::get_attribute(device, attribute) }.ok()
    };
    let major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    let minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    finding.capability = major.zip(minor).map(|(major, minor)| format!("{major}.{minor}"));
    // SAFETY: `device` is valid, and the context is never released while this process lives.
    unsafe {
        let context = driver::primary_ctx::retain(device).map_err(failed("cuDevicePrimaryCtxRetain"))?;
        driver::ctx::set_current(context).map_err(failed("cuCtxSetCurrent"))
    }
}

/// A handle, a convolution, and how far it is from the CPU's.
fn convolve(cudnn: &Cudnn, parent: &mut Parent) -> Result<f64, Failure> {
    parent.enter(Step::CudnnCreate);
    let handle = cudnn.create().map_err(|refused| status(Step::CudnnCreate, refused))?;
    parent.enter(Step::Convolution);
    let step = Step::Convolution;
    let reference = Convolution::new(SEED);
    let mut result = vec![f32::NAN; reference.expected.len()];
    let failed = |call: &'static str| move |error| refused_by_driver(step, call, error);
    // SAFETY: every address is one that the driver gave for at least that many bytes, and none is used
    // after the process has ended.
    unsafe {
        let upload = |data: &[f32]| {
            let address = driver::malloc_sync(size_of_val(data)).map_err(failed("cuMemAlloc"))?;
            driver::memcpy_htod_sync(address, data).map_err(failed("cuMemcpyHtoD"))?;
            Ok::<u64, Failure>(address)
        };
        let buffers = Buffers {
            input: upload(&reference.input)?,
            filters: upload(&reference.filters)?,
            output: upload(&result)?,
        };
        let allocate = |bytes| {
            driver::malloc_sync(bytes).map_err(|error| Refused {
                call: "cuMemAlloc",
                code: code_of(error),
                name: name_of(error),
                message: None,
            })
        };
        cudnn.convolve(handle, &buffers, allocate).map_err(|refused| status(step, refused))?;
        driver::ctx::synchronize().map_err(failed("cuCtxSynchronize"))?;
        driver::memcpy_dtoh_sync(&mut result, buffers.output).map_err(failed("cuMemcpyDtoH"))?;
    }
    cudnn.destroy(handle).map_err(|refused| status(step, refused))?;
    parent.enter(Step::Compare);
    let (largest_error, at) = reference.largest_error(&result);
    if largest_error > TOLERANCE {
        return Err(Failure::WrongNumbers {
            largest_error: largest_error.is_finite().then_some(largest_error),
            at,
        });
    }
    Ok(largest_error)
}

fn status(step: Step, refused: Refused) -> Failure {
    Failure::Status {
        step,
        call: refused.call.to_owned(),
        code: refused.code,
        name: refused.name,
        message: refused.message,
    }
}

fn refused_by_driver(step: Step, call: &str, error: DriverError) -> Failure {
    Failure::Status { step, call: call.to_owned(), code: code_of(error), name: name_of(error), message: None }
}

fn code_of(error: DriverError) -> i64 {
    i64::from(error.0 as u32)
}

fn name_of(error: DriverError) -> Option<String> {
    error.error_name().ok().map(|name| name.to_string_lossy().into_owned())
}

/// The files of NVIDIA's families that are mapped into this process, by their real paths.
fn mapped(host: &Host) -> Vec<PathBuf> {
    let maps = host.read_text(std::path::Path::new("/proc/self/maps")).unwrap_or_default();
    let paths = maps.lines().filter_map(|line| Some(&line[line.find('/')?..]));
    let is_library = |path: &&str| {
        let name = path.rsplit('/').next().unwrap_or_default();
        catalog().family_of(name).is_some()
    };
    let mut found: Vec<PathBuf> = paths.filter(is_library).map(PathBuf::from).collect();
    found.sort();
    found.dedup();
    found
}
