//! The child of a proof. It loads code that may abort, hang or lie. This process does nothing else, and announces every
//! step before it takes it.
#![allow(
    unsafe_code,
    reason = "loads libraries and calls into them; each block says what makes it sound"
)]

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use cudarc::driver::sys::{CUcontext, CUresult};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use super::protocol::{
    Busy, ChildMessage, ChildStep, Computation, ComputeMode, LibraryRequest, MappedFile,
    Observation, ProofRequest, ProofStep, StepFailure, StepResult, format,
};
use crate::catalog::{self, catalog, is_driver_call, statuses};
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
    let mut parent = Parent {
        output,
        at: ProofStep::at(ChildStep::LoadDriver),
    };
    let mut prover = Prover {
        request: &request,
        parent: &mut parent,
        loaded: Vec::new(),
    };
    let proved = prover.prove(host);
    let last = match proved {
        Ok(()) => ChildMessage::Passed,
        Err(fault) => ChildMessage::Failed(failure(parent.at.clone(), fault)),
    };
    parent.say(&last);
    0
}

fn read_request() -> Option<ProofRequest> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

/// Returns the pipe to the parent. Standard output then leads to standard error, since libraries print on it.
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
    at: ProofStep,
}

impl Parent {
    fn say(&mut self, line: &ChildMessage) {
        // Fails if a library has closed the pipe: the parent then has no report.
        let _ = self.output.write_all((format(line) + "\n").as_bytes());
    }

    fn enter(&mut self, at: ProofStep) {
        self.say(&ChildMessage::Entering(at.clone()));
        self.at = at;
    }

    fn found(&mut self, found: Observation) {
        self.say(&ChildMessage::Found(found));
    }
}

/// The libraries of a proof, as they are loaded.
struct Prover<'r> {
    request: &'r ProofRequest,
    parent: &'r mut Parent,
    loaded: Vec<OpenLibrary>,
}

impl<'r> Prover<'r> {
    fn prove(&mut self, host: &Host) -> Result<(), CallFailure> {
        let request = self.request;
        if request.level == Level::Load {
            self.load_main_files()?;
            self.check_versions()?;
            self.load_other_files()?;
        } else {
            let driver = self.load_driver()?;
            for asked in request.of_family("cudnn") {
                self.load_main(asked)?;
            }
            if request.level == Level::Deep {
                self.load_main_files()?;
                self.check_versions()?;
            }
            use_gpus(&driver, request, &self.loaded, self.parent)?;
            if request.level == Level::Deep {
                self.load_other_files()?;
            }
        }
        self.parent.enter(ProofStep::at(ChildStep::Mapped));
        let (mapped, others) = mapped(host);
        self.parent.found(Observation::Mapped(mapped));
        self.parent.found(Observation::OtherFiles(others));
        Ok(())
    }

    fn load_driver(&mut self) -> Result<Driver, CallFailure> {
        let asked = self.request.of_family("driver").next();
        let soname = asked.map_or("libcuda.so.1", |asked| asked.soname.as_str());
        self.parent
            .enter(ProofStep::at(ChildStep::LoadDriver).with(soname));
        let library = load(soname, asked.and_then(|asked| asked.directory.as_deref()))?;
        let driver = Driver::new(library)?;
        self.loaded.push(OpenLibrary {
            family: "driver".to_owned(),
            soname: soname.to_owned(),
            library,
        });
        self.parent
            .enter(ProofStep::at(ChildStep::CuInit).with(soname));
        driver.init()?;
        self.parent.found(Observation::DriverCuda(driver.cuda()?));
        Ok(driver)
    }

    /// Loads the main files that are not loaded yet.
    fn load_main_files(&mut self) -> Result<(), CallFailure> {
        self.request
            .libraries
            .iter()
            .try_for_each(|asked| self.load_main(asked))
    }

    fn load_main(&mut self, asked: &'r LibraryRequest) -> Result<(), CallFailure> {
        if self
            .loaded
            .iter()
            .any(|loaded| loaded.soname == asked.soname)
        {
            return Ok(());
        }
        self.parent
            .enter(ProofStep::at(ChildStep::Load).with(&asked.soname));
        let library = load(&asked.soname, asked.directory.as_deref())?;
        if asked.family == "cudnn" {
            require(library, cudnn::NEEDED)?;
            let (soname, version) = (asked.soname.clone(), cudnn::version(library)?);
            self.parent.found(Observation::Cudnn { soname, version });
        }
        self.loaded.push(OpenLibrary {
            family: asked.family.clone(),
            soname: asked.soname.clone(),
            library,
        });
        Ok(())
    }

    /// Loads the other files. cuDNN needs all of its own. Files of other families may need libraries that are not
    /// NVIDIA's (RDMA, MPI), or a driver that is missing here.
    fn load_other_files(&mut self) -> Result<(), CallFailure> {
        let has_driver = self.request.of_family("driver").next().is_some();
        for asked in &self.request.libraries {
            for soname in &asked.files {
                self.parent
                    .enter(ProofStep::at(ChildStep::LoadFile).with(soname));
                match load(soname, asked.directory.as_deref()) {
                    Ok(library) => {
                        let (family, soname) = (asked.family.clone(), soname.clone());
                        self.loaded.push(OpenLibrary {
                            family,
                            soname,
                            library,
                        });
                    }
                    Err(CallFailure::NotLoaded(message))
                        if asked.family != "cudnn"
                            || !has_driver && message.contains("libcuda.so.1") =>
                    {
                        self.parent
                            .say(&ChildMessage::Result(StepResult::NotLoaded { message }));
                    }
                    Err(fault) => return Err(fault),
                }
            }
        }
        Ok(())
    }

    /// cuDNN's own checks, before its other files are loaded.
    fn check_versions(&mut self) -> Result<(), CallFailure> {
        for loaded in of_family(&self.loaded, "cudnn") {
            self.parent
                .enter(ProofStep::at(ChildStep::VersionChecks).with(&loaded.soname));
            cudnn::check_versions(loaded.library)?;
        }
        Ok(())
    }
}

/// Several libraries have different SONAMEs, such as those of cuDNN 8 and 9.
fn of_family<'l>(loaded: &'l [OpenLibrary], family: &str) -> impl Iterator<Item = &'l OpenLibrary> {
    loaded.iter().filter(move |loaded| loaded.family == family)
}

/// Uses each GPU in turn. A busy GPU is no failure.
fn use_gpus(
    driver: &Driver,
    request: &ProofRequest,
    loaded: &[OpenLibrary],
    parent: &mut Parent,
) -> Result<(), CallFailure> {
    parent.enter(ProofStep::at(ChildStep::Devices));
    let devices = driver.devices()?;
    if devices.is_empty() {
        return Err(CallFailure::Refused {
            call: "cuDeviceGetCount",
            code: NO_DEVICE,
            name: None,
            message: None,
        });
    }
    let mut free = Vec::new();
    for (gpu, device) in (0..).zip(devices) {
        let found = driver.describe(gpu, device);
        let mode = found.compute_mode;
        parent.found(Observation::Gpu(found));
        if mode == ComputeMode::Prohibited {
            parent.found(Observation::Busy {
                gpu,
                why: Busy::Prohibited,
            });
        } else {
            free.push((gpu, device, mode));
        }
    }
    let mut used = Vec::new();
    for (gpu, device, mode) in free {
        parent.enter(ProofStep::at(ChildStep::Context).on(gpu));
        let retained = driver.retain(device);
        let context =
            match retained.and_then(|context| driver.set_current(context).map(|()| context)) {
                Ok(context) => context,
                Err(fault) => {
                    // The GPU's memory is unknown without a context.
                    pass_over(gpu, None, mode, fault, parent)?;
                    continue;
                }
            };
        if let Some((free, total)) = driver.memory() {
            parent.found(Observation::Memory { gpu, free, total });
        }
        let capability = driver.capability(device).unwrap_or_default();
        let bench = Bench {
            driver,
            libraries: loaded,
            gpu,
            capability,
            seed: request.seed,
        };
        match on_gpu(&bench, request, parent) {
            Ok(()) => used.push((gpu, context)),
            Err(fault) => pass_over(gpu, driver.memory(), mode, fault, parent)?,
        }
    }
    if request.level >= Level::Deep && used.len() > 1 {
        over_gpus(driver, request, loaded, &used, parent)?;
    }
    Ok(())
}

/// Computes on all GPUs together.
fn over_gpus(
    driver: &Driver,
    request: &ProofRequest,
    loaded: &[OpenLibrary],
    used: &[(u32, CUcontext)],
    parent: &mut Parent,
) -> Result<(), CallFailure> {
    for nccl in of_family(loaded, "nccl") {
        parent.enter(
            ProofStep::at(ChildStep::Compute)
                .with(&nccl.soname)
                .computing(Computation::AllReduce),
        );
        match deep::all_reduce(driver, nccl.library, used, request.seed) {
            Ok(came) => parent.say(&ChildMessage::Result(came)),
            Err(fault) => {
                // The last context is still current.
                let gpu = used.last().map_or(0, |(gpu, _)| *gpu);
                pass_over(gpu, driver.memory(), ComputeMode::Default, fault, parent)?;
            }
        }
    }
    Ok(())
}

fn failure(at: ProofStep, fault: CallFailure) -> StepFailure {
    match fault {
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
fn on_gpu(
    bench: &Bench<'_>,
    request: &ProofRequest,
    parent: &mut Parent,
) -> Result<(), CallFailure> {
    let place = |step, loaded: &OpenLibrary| ProofStep::at(step).with(&loaded.soname).on(bench.gpu);
    for loaded in of_family(bench.libraries, "cudnn") {
        parent.enter(place(ChildStep::Handle, loaded));
        let api = cudnn::api(loaded.library);
        let handle = api.make("cudnnCreate")?;
        if request.level >= Level::Conv {
            parent.enter(place(ChildStep::Compute, loaded).computing(Computation::Convolution));
            let came = convolution::run(&api, handle, bench.driver, bench.seed)?;
            parent.say(&ChildMessage::Result(came));
        }
        api.destroy("cudnnDestroy", handle)?;
    }
    if request.level < Level::Deep {
        return Ok(());
    }
    for (family, make) in deep::HANDLES {
        for loaded in of_family(bench.libraries, family) {
            parent.enter(place(ChildStep::Handle, loaded));
            make(&Api::plain(loaded.library))?;
        }
    }
    for (computation, family, run) in deep::TABLE {
        for loaded in of_family(bench.libraries, family) {
            parent.enter(place(ChildStep::Compute, loaded).computing(*computation));
            parent.say(&ChildMessage::Result(run(bench, loaded)?));
        }
    }
    Ok(())
}

/// A GPU that is busy is passed over; any other fault ends the proof.
fn pass_over(
    gpu: u32,
    memory: Option<(u64, u64)>,
    mode: ComputeMode,
    fault: CallFailure,
    parent: &mut Parent,
) -> Result<(), CallFailure> {
    let why = busy(memory, &fault, mode).ok_or(fault)?;
    parent.found(Observation::Busy { gpu, why });
    Ok(())
}

/// Returns the reason if a failed call means that the GPU is busy, and not that a library is at fault.
fn busy(memory: Option<(u64, u64)>, fault: &CallFailure, mode: ComputeMode) -> Option<Busy> {
    let CallFailure::Refused { call, code, .. } = fault else {
        return None;
    };
    let (free, total) = memory.unzip();
    let is_of_driver = is_driver_call(call);
    let is_exclusive = *code == UNAVAILABLE
        || mode == ComputeMode::ExclusiveProcess && UNAVAILABLE_ONCE.contains(code);
    let has_little = free.is_some_and(|free| free < LITTLE_MEMORY) && may_be_of_memory(call, *code);
    let call = (*call).to_owned();
    if is_of_driver && is_exclusive {
        return Some(Busy::Exclusive { call });
    }
    let is_out = is_of_driver && *code == OUT_OF_MEMORY || has_little;
    is_out.then_some(Busy::OutOfMemory { call, free, total })
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
    let opened = unsafe { Library::open(Some(file), RTLD_NOW | RTLD_LOCAL) };
    // The source of such an error is the loader's message.
    let message = |error: &libloading::Error| {
        std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
    };
    let library = opened.map_err(|error| CallFailure::NotLoaded(message(&error)))?;
    Ok(Box::leak(Box::new(library)))
}

/// The mapped files of NVIDIA's families, and the paths of all other mapped objects.
fn mapped(host: &Host) -> (Vec<MappedFile>, Vec<Vec<u8>>) {
    let maps = host.read(Path::new("/proc/self/maps")).unwrap_or_default();
    let lines = maps.split(|byte| *byte == b'\n');
    let is_library = |path: &&[u8]| {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        std::str::from_utf8(name).is_ok_and(|name| catalog().family_of(name).is_some())
    };
    let paths = lines.filter_map(|line| Some(&line[line.iter().position(|byte| *byte == b'/')?..]));
    let mut found: Vec<&[u8]> = paths.collect();
    found.sort_unstable();
    found.dedup();
    let file = |path: &[u8]| MappedFile {
        path: String::from_utf8_lossy(path).into_owned(),
        id: host
            .stat(Path::new(OsStr::from_bytes(path)))
            .ok()
            .map(|stat| stat.id),
    };
    let (libraries, others): (Vec<&[u8]>, Vec<&[u8]>) = found.into_iter().partition(is_library);
    // Caches and devices are not objects.
    let is_object = |path: &&[u8]| path.windows(3).any(|part| part == b".so");
    let others = others.into_iter().filter(is_object);
    (
        libraries.into_iter().map(file).collect(),
        others.map(<[u8]>::to_vec).collect(),
    )
}
