//! The child of a proof. It loads code that may abort, hang or lie. This process does nothing else, and announces every
//! step before it takes it.
#![allow(
    unsafe_code,
    reason = "loads libraries and calls into them; each block says what makes it sound"
)]

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use cudarc::driver::sys::{CUcontext, CUdevice, CUresult};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use super::protocol::{
    Busy, ChildMessage, ChildStep, Computation, ComputeMode, LibraryRequest, MappedFile,
    Observation, ProofRequest, ProofStep, StepFailure, StepResult, format,
};
use crate::catalog::{self, catalog, is_driver_call, statuses};
use crate::formats::maps::mapped_paths;
use crate::host::Host;
use crate::modes::Level;

mod bench;
mod call;
mod convolution;
mod cudnn;
mod deep;
mod driver;
mod numbers;

use bench::{Bench, OpenLibrary};
use call::{Api, CallFailure, require};
use driver::Driver;

/// With fewer free bytes, a library's error is probably about memory, whatever its code.
const LITTLE_MEMORY: u64 = 1 << 30;
const OUT_OF_MEMORY: i64 = CUresult::CUDA_ERROR_OUT_OF_MEMORY as i64;
const NO_DEVICE: i64 = CUresult::CUDA_ERROR_NO_DEVICE as i64;
/// Also for a GPU that another process uses exclusively.
const UNAVAILABLE: i64 = CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE as i64;
/// The codes of older drivers for that.
const UNAVAILABLE_ONCE: [i64; 2] = [
    CUresult::CUDA_ERROR_INVALID_DEVICE as i64,
    CUresult::CUDA_ERROR_UNKNOWN as i64,
];

/// Reads a request from standard input, makes the proof, and reports. The exit code is 0 if a report was made. Ends the
/// process at once, since destructors and threads of libraries may crash at a normal exit, after the report.
pub fn main(host: &Host) -> ! {
    let code = answer(host);
    // SAFETY: ends this process and touches nothing in it. All output is flushed.
    unsafe { nix::libc::_exit(code) }
}

fn answer(host: &Host) -> i32 {
    // The child must not outlive cudarun.
    let _ = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL);
    let (Some(request), Ok(output)) = (read_request(), take_output()) else {
        return 1;
    };
    // The parent may have ended before the line above.
    if u32::try_from(nix::unistd::getppid().as_raw()).ok() != Some(request.parent) {
        return 1;
    }
    // Never closed: a library may have closed it already, and another file may have its number.
    let output = ManuallyDrop::new(File::from(output));
    let mut prover = Prover {
        request: &request,
        parent: Parent {
            output,
            step: ProofStep::at(ChildStep::LoadDriver),
        },
        loaded: Vec::new(),
    };
    let message = match prover.prove(host) {
        Ok(()) => ChildMessage::Passed,
        Err(failure) => ChildMessage::Failed(step_failure(prover.parent.step.clone(), failure)),
    };
    prover.parent.send(&message);
    0
}

fn read_request() -> Option<ProofRequest> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

/// The pipe to the parent. Standard output then leads to standard error, since libraries print on it.
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

struct Parent {
    output: ManuallyDrop<File>,
    /// The step that was entered last.
    step: ProofStep,
}

impl Parent {
    fn send(&mut self, message: &ChildMessage) {
        // Fails if a library has closed the pipe: the parent then has no report.
        let _ = self.output.write_all((format(message) + "\n").as_bytes());
    }

    fn enter(&mut self, step: ProofStep) {
        self.send(&ChildMessage::Entering(step.clone()));
        self.step = step;
    }

    fn tell(&mut self, observation: Observation) {
        self.send(&ChildMessage::Found(observation));
    }

    fn end_step(&mut self, result: StepResult) {
        self.send(&ChildMessage::Result(result));
    }
}

/// A GPU that its compute mode lets programs use.
struct AllowedGpu {
    number: u32,
    device: CUdevice,
    mode: ComputeMode,
}

/// The libraries of a proof, as they are loaded.
struct Prover<'r> {
    request: &'r ProofRequest,
    parent: Parent,
    loaded: Vec<OpenLibrary>,
}

impl Prover<'_> {
    fn prove(&mut self, host: &Host) -> Result<(), CallFailure> {
        let request = self.request;
        if request.level == Level::Load {
            self.load_main_files()?;
            self.check_versions()?;
            self.load_other_files()?;
        } else {
            let driver = self.load_driver()?;
            for library in request.of_family("cudnn") {
                self.load_main(library)?;
            }
            if request.level == Level::Deep {
                self.load_main_files()?;
                self.check_versions()?;
            }
            self.use_gpus(&driver)?;
            if request.level == Level::Deep {
                self.load_other_files()?;
            }
        }
        self.parent.enter(ProofStep::at(ChildStep::Mapped));
        let (libraries, others) = mapped_files(host);
        self.parent.tell(Observation::Mapped(libraries));
        self.parent.tell(Observation::OtherFiles(others));
        Ok(())
    }

    fn load_driver(&mut self) -> Result<Driver, CallFailure> {
        let request = self.request.of_family("driver").next();
        let soname = request.map_or("libcuda.so.1", |request| &request.soname);
        let directory = request.and_then(|request| request.directory.as_deref());
        self.parent
            .enter(ProofStep::at(ChildStep::LoadDriver).with(soname));
        let library = load(soname, directory)?;
        let driver = Driver::new(library)?;
        self.add("driver", soname, library);
        self.parent
            .enter(ProofStep::at(ChildStep::CuInit).with(soname));
        driver.init()?;
        self.parent.tell(Observation::DriverCuda(driver.cuda()?));
        Ok(driver)
    }

    /// Loads the main files that are not loaded yet.
    fn load_main_files(&mut self) -> Result<(), CallFailure> {
        for request in &self.request.libraries {
            self.load_main(request)?;
        }
        Ok(())
    }

    fn load_main(&mut self, request: &LibraryRequest) -> Result<(), CallFailure> {
        let soname = &request.soname;
        if self.loaded.iter().any(|loaded| loaded.soname == *soname) {
            return Ok(());
        }
        self.parent
            .enter(ProofStep::at(ChildStep::Load).with(soname));
        let library = load(soname, request.directory.as_deref())?;
        if request.family == "cudnn" {
            require(library, cudnn::NEEDED)?;
            self.parent.tell(Observation::Cudnn {
                soname: soname.clone(),
                version: cudnn::version(library)?,
            });
        }
        self.add(&request.family, soname, library);
        Ok(())
    }

    /// Loads the other files. cuDNN needs all of its own. Files of other families may need libraries that are not
    /// NVIDIA's (RDMA, MPI), or a driver that is missing here.
    fn load_other_files(&mut self) -> Result<(), CallFailure> {
        let has_driver = self.request.of_family("driver").next().is_some();
        for request in &self.request.libraries {
            for soname in &request.files {
                self.parent
                    .enter(ProofStep::at(ChildStep::LoadFile).with(soname));
                match load(soname, request.directory.as_deref()) {
                    Ok(library) => self.add(&request.family, soname, library),
                    Err(CallFailure::NotLoaded(message))
                        if request.family != "cudnn"
                            || !has_driver && message.contains("libcuda.so.1") =>
                    {
                        self.parent.end_step(StepResult::NotLoaded { message });
                    }
                    Err(failure) => return Err(failure),
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, family: &str, soname: &str, library: &'static Library) {
        self.loaded.push(OpenLibrary {
            family: family.to_owned(),
            soname: soname.to_owned(),
            library,
        });
    }

    /// cuDNN's own checks, before its other files are loaded.
    fn check_versions(&mut self) -> Result<(), CallFailure> {
        for cudnn in of_family(&self.loaded, "cudnn") {
            self.parent
                .enter(ProofStep::at(ChildStep::VersionChecks).with(&cudnn.soname));
            cudnn::check_versions(cudnn.library)?;
        }
        Ok(())
    }

    /// Uses each GPU in turn, then all together. A busy GPU is no failure.
    fn use_gpus(&mut self, driver: &Driver) -> Result<(), CallFailure> {
        let mut contexts = Vec::new();
        for gpu in self.allowed_gpus(driver)? {
            self.parent
                .enter(ProofStep::at(ChildStep::Context).on(gpu.number));
            let context = match driver.make_current(gpu.device) {
                Ok(context) => context,
                Err(failure) => {
                    // The GPU's memory is unknown without a context.
                    pass_over(gpu.number, None, gpu.mode, failure, &mut self.parent)?;
                    continue;
                }
            };
            match self.use_gpu(driver, &gpu) {
                Ok(()) => contexts.push((gpu.number, context)),
                Err(failure) => {
                    let memory = driver.memory();
                    pass_over(gpu.number, memory, gpu.mode, failure, &mut self.parent)?;
                }
            }
        }
        if self.request.level >= Level::Deep && contexts.len() > 1 {
            self.use_gpus_together(driver, &contexts)?;
        }
        Ok(())
    }

    /// Describes all visible GPUs.
    fn allowed_gpus(&mut self, driver: &Driver) -> Result<Vec<AllowedGpu>, CallFailure> {
        self.parent.enter(ProofStep::at(ChildStep::Devices));
        let devices = driver.devices()?;
        if devices.is_empty() {
            return Err(CallFailure::Refused {
                call: "cuDeviceGetCount",
                code: NO_DEVICE,
                name: None,
                message: None,
            });
        }
        let mut gpus = Vec::new();
        for (number, device) in (0..).zip(devices) {
            let found = driver.describe(number, device);
            let mode = found.compute_mode;
            self.parent.tell(Observation::Gpu(found));
            if mode == ComputeMode::Prohibited {
                self.parent.tell(Observation::Busy {
                    gpu: number,
                    why: Busy::Prohibited,
                });
            } else {
                gpus.push(AllowedGpu {
                    number,
                    device,
                    mode,
                });
            }
        }
        Ok(gpus)
    }

    /// Uses the GPU whose context is current.
    fn use_gpu(&mut self, driver: &Driver, gpu: &AllowedGpu) -> Result<(), CallFailure> {
        if let Some((free, total)) = driver.memory() {
            self.parent.tell(Observation::Memory {
                gpu: gpu.number,
                free,
                total,
            });
        }
        let bench = Bench {
            driver,
            libraries: &self.loaded,
            gpu: gpu.number,
            capability: driver.capability(gpu.device).unwrap_or_default(),
            seed: self.request.seed,
        };
        compute(&bench, self.request.level, &mut self.parent)
    }

    fn use_gpus_together(
        &mut self,
        driver: &Driver,
        contexts: &[(u32, CUcontext)],
    ) -> Result<(), CallFailure> {
        // Its context is still current after a failure.
        let last_gpu = contexts.last().map_or(0, |(gpu, _)| *gpu);
        for nccl in of_family(&self.loaded, "nccl") {
            self.parent.enter(
                ProofStep::at(ChildStep::Compute)
                    .with(&nccl.soname)
                    .computing(Computation::AllReduce),
            );
            match deep::all_reduce(driver, nccl.library, contexts, self.request.seed) {
                Ok(result) => self.parent.end_step(result),
                Err(failure) => pass_over(
                    last_gpu,
                    driver.memory(),
                    ComputeMode::Default,
                    failure,
                    &mut self.parent,
                )?,
            }
        }
        Ok(())
    }
}

/// Several libraries have different SONAMEs, such as those of cuDNN 8 and 9.
fn of_family<'l>(loaded: &'l [OpenLibrary], family: &str) -> impl Iterator<Item = &'l OpenLibrary> {
    loaded.iter().filter(move |loaded| loaded.family == family)
}

fn step_failure(at: ProofStep, failure: CallFailure) -> StepFailure {
    match failure {
        CallFailure::NotLoaded(message) => StepFailure::Load {
            name: at.of.clone().unwrap_or_default(),
            at,
            message,
        },
        CallFailure::Refused {
            call,
            code,
            name,
            message,
        } => StepFailure::Status {
            at,
            call: call.to_owned(),
            code,
            name,
            message,
        },
        CallFailure::Numbers {
            largest_error,
            element,
        } => StepFailure::WrongNumbers {
            at,
            largest_error,
            element,
            allowed: 0.0,
        },
    }
}

/// Makes a handle of each cuDNN and a convolution, and at the level `deep` the handles and computations of the tables.
fn compute(bench: &Bench<'_>, level: Level, parent: &mut Parent) -> Result<(), CallFailure> {
    for cudnn in of_family(bench.libraries, "cudnn") {
        parent.enter(bench.step(ChildStep::Handle, cudnn));
        let api = cudnn::api(cudnn.library);
        let handle = api.make("cudnnCreate")?;
        if level >= Level::Conv {
            let step = bench.step(ChildStep::Compute, cudnn);
            parent.enter(step.computing(Computation::Convolution));
            parent.end_step(convolution::run(&api, handle, bench.driver, bench.seed)?);
        }
        api.destroy("cudnnDestroy", handle)?;
    }
    if level < Level::Deep {
        return Ok(());
    }
    for (family, make) in deep::HANDLES {
        for library in of_family(bench.libraries, family) {
            parent.enter(bench.step(ChildStep::Handle, library));
            make(&Api::plain(library.library))?;
        }
    }
    for (computation, family, run) in deep::COMPUTATIONS {
        for library in of_family(bench.libraries, family) {
            let step = bench.step(ChildStep::Compute, library);
            parent.enter(step.computing(*computation));
            parent.end_step(run(bench, library)?);
        }
    }
    Ok(())
}

/// A GPU that is busy is passed over; any other failure ends the proof. `memory` has the free and the total bytes.
fn pass_over(
    gpu: u32,
    memory: Option<(u64, u64)>,
    mode: ComputeMode,
    failure: CallFailure,
    parent: &mut Parent,
) -> Result<(), CallFailure> {
    let why = busy(memory, mode, &failure).ok_or(failure)?;
    parent.tell(Observation::Busy { gpu, why });
    Ok(())
}

/// The reason if a failed call means that the GPU is busy, and not that a library is at fault.
fn busy(memory: Option<(u64, u64)>, mode: ComputeMode, failure: &CallFailure) -> Option<Busy> {
    let CallFailure::Refused { call, code, .. } = failure else {
        return None;
    };
    let is_of_driver = is_driver_call(call);
    let is_exclusive = *code == UNAVAILABLE
        || mode == ComputeMode::ExclusiveProcess && UNAVAILABLE_ONCE.contains(code);
    if is_of_driver && is_exclusive {
        return Some(Busy::Exclusive {
            call: (*call).to_owned(),
        });
    }
    let free = memory.map(|(free, _)| free);
    let has_little = free.is_some_and(|free| free < LITTLE_MEMORY) && may_be_of_memory(call, *code);
    if is_of_driver && *code == OUT_OF_MEMORY || has_little {
        return Some(Busy::OutOfMemory {
            call: (*call).to_owned(),
            free,
            total: memory.map(|(_, total)| total),
        });
    }
    None
}

/// False for codes of cuDNN that name another cause.
fn may_be_of_memory(call: &str, code: i64) -> bool {
    let cause = statuses().of_cudnn(code);
    !call.starts_with("cudnn")
        || matches!(
            cause,
            Some(catalog::Fault::OutOfMemory | catalog::Fault::Refused)
        )
}

/// Loads a library by SONAME, so that the loader searches for it as it does for the program, or from a directory that
/// only the program itself searches.
fn load(name: &str, directory: Option<&str>) -> Result<&'static Library, CallFailure> {
    let file = directory.map_or_else(
        || name.to_owned(),
        |directory| format!("{directory}/{name}"),
    );
    // SAFETY: runs the constructors of a chosen library. If they crash, that is the verdict.
    match unsafe { Library::open(Some(file), RTLD_NOW | RTLD_LOCAL) } {
        Ok(library) => Ok(Box::leak(Box::new(library))),
        Err(error) => {
            // The source of such an error is the loader's message.
            let source = std::error::Error::source(&error);
            let message = source.map_or_else(|| error.to_string(), ToString::to_string);
            Err(CallFailure::NotLoaded(message))
        }
    }
}

/// The mapped files of NVIDIA's families, and the paths of all other mapped objects, both sorted.
fn mapped_files(host: &Host) -> (Vec<MappedFile>, Vec<Vec<u8>>) {
    let maps = host.read(Path::new("/proc/self/maps")).unwrap_or_default();
    let present = mapped_paths(&maps).filter(|file| !file.is_deleted);
    let paths: BTreeSet<PathBuf> = present.map(|file| file.real_path().into_owned()).collect();
    let (mut libraries, mut others) = (Vec::new(), Vec::new());
    for path in paths {
        let bytes = path.as_os_str().as_bytes();
        if catalog().family_of_file(&path).is_some() {
            libraries.push(MappedFile {
                path: path.to_string_lossy().into_owned(),
                id: host.stat(&path).ok().map(|stat| stat.id),
            });
        } else if bytes.windows(3).any(|part| part == b".so") {
            // Caches and devices are not objects.
            others.push(bytes.to_vec());
        }
    }
    (libraries, others)
}
