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

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use super::protocol::{
    Busy, Computation, ComputeMode, Failure, LibraryRequest, Line, MappedFile, Observation,
    Operation, Precision, ProofStep, Request, Step, StepResult, format,
};
use crate::catalog::{CauseKind, catalog, is_driver_call, statuses};
use crate::cli::Level;
use crate::host::Host;

mod bench;
mod call;
mod convolution;
mod cudnn;
mod deep;
mod driver;
mod numbers;
mod outcome;

use bench::{Bench, Loaded};
use convolution::SMALL;
use cudnn::Cudnn;
use driver::{Context, Driver};
use outcome::{ComputationFault, Refused, settle};

/// With fewer free bytes, a library's error is probably about memory, whatever its code.
const LITTLE_MEMORY: u64 = 1 << 30;
/// `CUDA_ERROR_OUT_OF_MEMORY`
const OUT_OF_MEMORY: i64 = 2;
/// `CUDA_ERROR_NO_DEVICE`
const NO_DEVICE: i64 = 100;
/// `CUDA_ERROR_DEVICE_UNAVAILABLE`, also for a GPU that another process uses exclusively.
const UNAVAILABLE: i64 = 46;
/// The codes of older drivers for that: `CUDA_ERROR_INVALID_DEVICE`, `CUDA_ERROR_UNKNOWN`.
const UNAVAILABLE_ONCE: [i64; 2] = [101, 999];

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
    let mut parent = Parent { output };
    let mut prover = Prover {
        request: &request,
        parent: &mut parent,
        loaded: Vec::new(),
    };
    let last = prover
        .prove(host)
        .map_or_else(Line::Failed, |()| Line::Passed);
    parent.say(&last);
    0
}

fn read_request() -> Option<Request> {
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
}

impl Parent {
    fn say(&mut self, line: &Line) {
        // Fails if a library has closed the pipe: the parent then has no report.
        let _ = self.output.write_all((format(line) + "\n").as_bytes());
    }

    fn enter(&mut self, place: ProofStep) -> ProofStep {
        self.say(&Line::Entering(place.clone()));
        place
    }

    fn found(&mut self, found: Observation) {
        self.say(&Line::Found(found));
    }
}

/// The libraries of a proof, as they are loaded.
struct Prover<'r> {
    request: &'r Request,
    parent: &'r mut Parent,
    loaded: Vec<Loaded>,
}

impl<'r> Prover<'r> {
    fn prove(&mut self, host: &Host) -> Result<(), Failure> {
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
        self.parent.enter(ProofStep::at(Step::Mapped));
        let (mapped, others) = mapped(host);
        self.parent.found(Observation::Mapped(mapped));
        self.parent.found(Observation::OtherFiles(others));
        Ok(())
    }

    fn load_driver(&mut self) -> Result<Driver, Failure> {
        let asked = self.request.of_family("driver").next();
        let soname = asked.map_or("libcuda.so.1", |asked| asked.soname.as_str());
        let at = self
            .parent
            .enter(ProofStep::at(Step::LoadDriver).with(soname));
        let library = load(
            &at,
            soname,
            asked.and_then(|asked| asked.directory.as_deref()),
        )?;
        let driver = Driver::new(library).map_err(|function| no_function(&at, function))?;
        self.loaded.push(Loaded {
            family: "driver".to_owned(),
            soname: soname.to_owned(),
            library,
        });
        let at = self.parent.enter(ProofStep::at(Step::CuInit).with(soname));
        driver.init().map_err(|refused| status(&at, refused))?;
        let cuda = driver.cuda().map_err(|refused| status(&at, refused))?;
        self.parent.found(Observation::DriverCuda(cuda));
        Ok(driver)
    }

    /// Loads the main files that are not loaded yet.
    fn load_main_files(&mut self) -> Result<(), Failure> {
        self.request
            .libraries
            .iter()
            .try_for_each(|asked| self.load_main(asked))
    }

    fn load_main(&mut self, asked: &'r LibraryRequest) -> Result<(), Failure> {
        if self
            .loaded
            .iter()
            .any(|loaded| loaded.soname == asked.soname)
        {
            return Ok(());
        }
        let at = self
            .parent
            .enter(ProofStep::at(Step::Load).with(&asked.soname));
        let library = load(&at, &asked.soname, asked.directory.as_deref())?;
        if asked.family == "cudnn" {
            let cudnn = Cudnn::new(library).map_err(|function| no_function(&at, function))?;
            let (soname, version) = (asked.soname.clone(), cudnn.version());
            self.parent.found(Observation::Cudnn { soname, version });
        }
        self.loaded.push(Loaded {
            family: asked.family.clone(),
            soname: asked.soname.clone(),
            library,
        });
        Ok(())
    }

    /// Loads the other files. cuDNN needs all of its own. Files of other families may need libraries that are not
    /// NVIDIA's (RDMA, MPI), or a driver that is missing here.
    fn load_other_files(&mut self) -> Result<(), Failure> {
        let has_driver = self.request.of_family("driver").next().is_some();
        for asked in &self.request.libraries {
            for soname in &asked.files {
                let at = self
                    .parent
                    .enter(ProofStep::at(Step::LoadFile).with(soname));
                match load(&at, soname, asked.directory.as_deref()) {
                    Ok(library) => {
                        let (family, soname) = (asked.family.clone(), soname.clone());
                        self.loaded.push(Loaded {
                            family,
                            soname,
                            library,
                        });
                    }
                    Err(Failure::Load { message, .. })
                        if asked.family != "cudnn"
                            || !has_driver && message.contains("libcuda.so.1") =>
                    {
                        self.parent
                            .say(&Line::Result(StepResult::NotLoaded { message }));
                    }
                    Err(failure) => return Err(failure),
                }
            }
        }
        Ok(())
    }

    /// cuDNN's own checks, before its other files are loaded.
    fn check_versions(&mut self) -> Result<(), Failure> {
        for loaded in of_family(&self.loaded, "cudnn") {
            let at = self
                .parent
                .enter(ProofStep::at(Step::VersionChecks).with(&loaded.soname));
            let cudnn =
                Cudnn::new(loaded.library).map_err(|function| no_function(&at, function))?;
            cudnn
                .check_versions(loaded.library)
                .map_err(|refused| status(&at, refused))?;
        }
        Ok(())
    }
}

/// Several libraries have different SONAMEs, such as those of cuDNN 8 and 9.
fn of_family<'l>(loaded: &'l [Loaded], family: &str) -> impl Iterator<Item = &'l Loaded> {
    loaded.iter().filter(move |loaded| loaded.family == family)
}

/// Uses each GPU in turn. A busy GPU is no failure.
fn use_gpus(
    driver: &Driver,
    request: &Request,
    loaded: &[Loaded],
    parent: &mut Parent,
) -> Result<(), Failure> {
    let at = parent.enter(ProofStep::at(Step::Devices));
    let devices = driver.devices().map_err(|refused| status(&at, refused))?;
    if devices.is_empty() {
        let none = Refused {
            call: "cuDeviceGetCount",
            code: NO_DEVICE,
            name: None,
            message: None,
        };
        return Err(status(&at, none));
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
        let at = parent.enter(ProofStep::at(Step::Context).on(gpu));
        let retained = driver.retain(device);
        let context =
            match retained.and_then(|context| driver.set_current(context).map(|()| context)) {
                Ok(context) => context,
                Err(refused) => {
                    // The GPU's memory is unknown without a context.
                    pass_over(gpu, busy(None, &refused, mode), &at, refused, parent)?;
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
            Err((at, ComputationFault::Refused(refused))) => {
                pass_over(
                    gpu,
                    busy(driver.memory(), &refused, mode),
                    &at,
                    refused,
                    parent,
                )?;
            }
            Err((at, wrong)) => return Err(failure(at, wrong)),
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
    request: &Request,
    loaded: &[Loaded],
    used: &[(u32, Context)],
    parent: &mut Parent,
) -> Result<(), Failure> {
    for nccl in of_family(loaded, "nccl") {
        let computation = Computation {
            operation: Operation::AllReduce,
            precision: Precision::Fp32,
        };
        let at = parent.enter(
            ProofStep::at(Step::Compute)
                .with(&nccl.soname)
                .computing(computation),
        );
        match settle(
            Precision::Fp32,
            deep::all_reduce(driver, nccl.library, used, request.seed),
        ) {
            Ok(came) => parent.say(&Line::Result(came)),
            Err(ComputationFault::Refused(refused)) => {
                // The last context is still current.
                let gpu = used.last().map_or(0, |(gpu, _)| *gpu);
                let why = busy(driver.memory(), &refused, ComputeMode::Default);
                pass_over(gpu, why, &at, refused, parent)?;
            }
            Err(wrong) => return Err(failure(at, wrong)),
        }
    }
    Ok(())
}

fn failure(at: ProofStep, wrong: ComputationFault) -> Failure {
    match wrong {
        ComputationFault::Refused(refused) => status(&at, refused),
        ComputationFault::NoFunction(function) => no_function(&at, function),
        ComputationFault::Numbers {
            largest_error,
            element,
            allowed,
        } => Failure::WrongNumbers {
            at,
            largest_error,
            element,
            allowed,
        },
    }
}

/// Makes a handle of each cuDNN and a convolution, and at the level `deep` the handles and computations of the tables.
fn on_gpu(
    bench: &Bench<'_>,
    request: &Request,
    parent: &mut Parent,
) -> Result<(), (ProofStep, ComputationFault)> {
    for loaded in of_family(bench.libraries, "cudnn") {
        let at = parent.enter(
            ProofStep::at(Step::Handle)
                .with(&loaded.soname)
                .on(bench.gpu),
        );
        let cudnn = Cudnn::new(loaded.library)
            .map_err(|function| (at.clone(), ComputationFault::NoFunction(function)))?;
        let handle = cudnn
            .create()
            .map_err(|refused| (at.clone(), refused.into()))?;
        if request.level >= Level::Conv {
            let computation = Computation {
                operation: Operation::Convolution,
                precision: Precision::Fp32,
            };
            let at = parent.enter(
                ProofStep::at(Step::Compute)
                    .with(&loaded.soname)
                    .on(bench.gpu)
                    .computing(computation),
            );
            let came = convolution::run(&cudnn, handle, bench.driver, &SMALL, bench.seed)
                .map_err(|stop| (at.clone(), stop.into()))?;
            parent.say(&Line::Result(came));
        }
        cudnn
            .destroy(handle)
            .map_err(|refused| (at, refused.into()))?;
    }
    if request.level >= Level::Deep {
        for (family, make) in deep::HANDLES {
            for loaded in of_family(bench.libraries, family) {
                let at = parent.enter(
                    ProofStep::at(Step::Handle)
                        .with(&loaded.soname)
                        .on(bench.gpu),
                );
                make(&call::Api::plain(loaded.library)).map_err(|stop| (at, stop.into()))?;
            }
        }
        for &(operation, precisions, family, run) in deep::TABLE {
            for loaded in of_family(bench.libraries, family) {
                for &precision in precisions {
                    let computation = Computation {
                        operation,
                        precision,
                    };
                    let at = parent.enter(
                        ProofStep::at(Step::Compute)
                            .with(&loaded.soname)
                            .on(bench.gpu)
                            .computing(computation),
                    );
                    let came = settle(precision, run(bench, loaded, precision))
                        .map_err(|wrong| (at, wrong))?;
                    parent.say(&Line::Result(came));
                }
            }
        }
    }
    Ok(())
}

/// A GPU that is busy is passed over; any other refusal is a failure.
fn pass_over(
    gpu: u32,
    why: Option<Busy>,
    at: &ProofStep,
    refused: Refused,
    parent: &mut Parent,
) -> Result<(), Failure> {
    let why = why.ok_or_else(|| status(at, refused))?;
    parent.found(Observation::Busy { gpu, why });
    Ok(())
}

/// Returns the reason if a failed call means that the GPU is busy, and not that a library is at fault.
fn busy(memory: Option<(u64, u64)>, refused: &Refused, mode: ComputeMode) -> Option<Busy> {
    let (free, total) = memory.unzip();
    let call = refused.call.to_owned();
    let is_of_driver = is_driver_call(refused.call);
    let is_exclusive = refused.code == UNAVAILABLE
        || mode == ComputeMode::ExclusiveProcess && UNAVAILABLE_ONCE.contains(&refused.code);
    if is_of_driver && is_exclusive {
        return Some(Busy::Exclusive { call });
    }
    let has_little = free.is_some_and(|free| free < LITTLE_MEMORY) && may_be_of_memory(refused);
    let is_out = is_of_driver && refused.code == OUT_OF_MEMORY || has_little;
    is_out.then_some(Busy::OutOfMemory { call, free, total })
}

/// False for codes of cuDNN that name another cause.
fn may_be_of_memory(refused: &Refused) -> bool {
    let cause = statuses().of_cudnn(refused.code);
    !refused.call.starts_with("cudnn")
        || matches!(cause, Some(CauseKind::OutOfMemory | CauseKind::Refused))
}

/// Loads a library by SONAME, so that the loader searches for it as it does for the program, or from a directory that
/// only the program itself searches.
fn load(at: &ProofStep, name: &str, directory: Option<&str>) -> Result<&'static Library, Failure> {
    let file = directory.map_or_else(
        || name.to_owned(),
        |directory| format!("{directory}/{name}"),
    );
    // SAFETY: runs the constructors of a chosen library. If they crash, that is the verdict.
    let opened = unsafe { Library::open(Some(file), RTLD_NOW | RTLD_LOCAL) };
    let library = opened.map_err(|error| Failure::Load {
        at: at.clone(),
        name: name.to_owned(),
        message: call::loaders_words(&error),
    })?;
    Ok(Box::leak(Box::new(library)))
}

fn no_function(at: &ProofStep, function: &str) -> Failure {
    let name = at.of.clone().unwrap_or_default();
    Failure::Load {
        at: at.clone(),
        name,
        message: format!("no function {function}"),
    }
}

fn status(at: &ProofStep, refused: Refused) -> Failure {
    Failure::Status {
        at: at.clone(),
        call: refused.call.to_owned(),
        code: refused.code,
        name: refused.name,
        message: refused.message,
    }
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
