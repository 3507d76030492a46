//! Causes of error messages in words, and the commands that cure them.

use super::doctor_words;
use super::hints::{self, shell_words};
use super::words::{at, family, quoted_to_show};
use crate::catalog::{CauseKey as Key, catalog, knowledge};
use crate::causes::{Cause, Certainty};
use crate::doctor::{Element, Evidence};
use crate::inventory::ReadFault;
use crate::solve::Hint;
use crate::text::show;
use crate::variables;
use crate::version::Version;

/// A command to type or an instruction, and the reason to believe in it.
pub(super) struct Cure {
    pub command: String,
    pub why: String,
}

/// An instruction that `words` ends with where nothing was solved.
const BUILD: &str = "install a build for this GPU: no library path can help";
const TOOLKIT: &str = "install the CUDA toolkit of the CUDA that the program was built for";

/// The sentence, in which `{}` is a placeholder for what the message is about, and the cure where nothing better is
/// known; an empty one if `doctor` or the solver have a better one.
#[expect(clippy::too_many_lines, reason = "a few lines for each cause")]
fn words(key: Key) -> (&'static str, &'static str) {
    match key {
        Key::NotInstalled => ("{} is not installed", "install it: `cudarun list` shows what is here"),
        Key::NotOnPath => ("{} is installed where the program does not look", ""),
        Key::OtherMajor => (
            "only other versions of {} are installed",
            "install the version that the message names, or a build of the program for the one that is here",
        ),
        Key::OlderFirst => ("an older {} comes first", ""),
        Key::Mixed => ("parts of {} come from different installations", ""),
        Key::Incomplete => ("a part of {} is missing", "reinstall it: `cudarun list` shows what is here"),
        Key::Damaged => ("{} is damaged", "remove the damaged file, or install its package again"),
        Key::BareName => (
            "{} exists only with a number in its name",
            "install its development package, which has the name without a number",
        ),
        Key::Builtins => ("the builtins of NVRTC are not beside it", "reinstall this NVRTC"),
        Key::TwoPackages => ("two packages install {} over each other", "uninstall both, and install one"),
        Key::AbiOtherBuild => (
            "an extension was built for another version of its framework",
            "install the version of the extension that belongs to the installed framework",
        ),
        Key::CpuBuild => (
            "{} is a build without CUDA",
            "install its build with CUDA: the project's page names the package index",
        ),
        Key::LibstdcxxOld => {
            ("the C++ library that comes first lacks {}", "put the newer libstdc++.so.6 first")
        }
        Key::PathPoisons => ("LD_LIBRARY_PATH gives libraries of an environment to every program", ""),
        Key::KnownBad => ("this version of {} is known to be bad", "install another version"),
        Key::WrongNumbers => ("{} computes wrong numbers", "install another version"),
        Key::NoDriver => {
            ("no NVIDIA driver is installed", "install the NVIDIA driver: no library path can help")
        }
        Key::DriverNotLoaded => ("the kernel has not loaded the NVIDIA driver", "sudo modprobe nvidia"),
        Key::DriverMismatch => (
            "the driver's libraries and the kernel's driver have different versions",
            "restart the machine, so that the kernel loads the installed driver",
        ),
        Key::DriverTooOld => (
            "the driver is too old for the program's CUDA",
            "update the NVIDIA driver, or install a build for an older CUDA: no library path can help",
        ),
        Key::CompatRefused => (
            "the forward-compatibility libcuda comes first, and this driver or GPU does not support it",
            "remove the compat directory from LD_LIBRARY_PATH",
        ),
        Key::Stub => (
            "the libcuda.so.1 that comes first is a stub for linking",
            "remove the directory of stubs from LD_LIBRARY_PATH",
        ),
        Key::UvmMissing => ("the driver's unified memory does not work", "sudo nvidia-modprobe -u -c 0"),
        Key::Fabric => (
            "the fabric manager of the NVSwitches does not run",
            "sudo systemctl restart nvidia-fabricmanager, in the driver's version",
        ),
        Key::DeviceNotPermitted => (
            "this user may not open the device nodes of the GPUs",
            "ask the administrator for access; in a batch system, request a GPU",
        ),
        Key::GpusHidden => ("CUDA_VISIBLE_DEVICES hides the GPUs", "unset CUDA_VISIBLE_DEVICES"),
        Key::NoSuchGpu => (
            "the program asks for a GPU that does not exist",
            "start as many processes as GPUs are visible: `nvidia-smi -L` lists them",
        ),
        Key::GpuBusy => (
            "another process has exclusive use of the GPU",
            "wait for the other process, or allow several with `sudo nvidia-smi -c DEFAULT`",
        ),
        Key::OutOfMemory => (
            "the GPU is out of memory",
            "use smaller batches, or choose another GPU with CUDA_VISIBLE_DEVICES: see `nvidia-smi`",
        ),
        Key::NoKernel => ("{} has no code for this GPU", BUILD),
        Key::EngineOtherGpu => ("the engine was built for another GPU", "build the engine again on this GPU"),
        Key::EngineOtherVersion => {
            ("the engine was built by another TensorRT", "build the engine again with this TensorRT")
        }
        Key::GpuUnsupportedOp => ("this GPU does not support the operation", BUILD),
        Key::GpuFault => (
            "the GPU reports a fault of its own",
            "check `nvidia-smi -q` and `sudo dmesg | grep -i xid`: the GPU may need a reset",
        ),
        Key::ContainerNoGpu => (
            "this container has no GPU",
            "start the container with `--gpus all` (podman: `--device nvidia.com/gpu=all`, apptainer: `--nv`)",
        ),
        Key::ContainerToolkitMissing => (
            "Docker does not know the NVIDIA Container Toolkit",
            "install nvidia-container-toolkit; sudo nvidia-ctk runtime configure --runtime=docker; sudo systemctl restart docker",
        ),
        Key::ContainerToolkitOld => {
            ("the NVIDIA Container Toolkit is too old for the driver", "update nvidia-container-toolkit")
        }
        Key::ContainerRequires => (
            "the image requires a newer driver",
            "update the NVIDIA driver, or use an image for an older CUDA: no library path can help",
        ),
        Key::ContainerLostGpu => ("this container has lost its GPUs", "restart the container"),
        Key::ContainerCapability => (
            "the container was started without this part of the driver",
            "start the container with NVIDIA_DRIVER_CAPABILITIES=compute,utility,video",
        ),
        Key::ShmSmall => (
            "the shared memory of the container is too small",
            "start the container with `--shm-size 8g` or `--ipc host`",
        ),
        Key::ToolkitMissing => ("no CUDA toolkit with nvcc is here", TOOLKIT),
        Key::ToolkitMismatch => ("nvcc has another CUDA than the framework", TOOLKIT),
        Key::ToolkitMixed => (
            "the parts of the CUDA toolkit have different versions",
            "install nvcc, NVVM and CRT headers of one release",
        ),
        Key::ToolkitTooOldForGpu => (
            "the CUDA toolkit is older than the GPU",
            "install a newer CUDA toolkit, or compile for an older architecture",
        ),
        Key::ToolkitVariable => (
            "a variable that names the toolkit is no directory",
            "export CUDA_HOME=DIR, the directory of one toolkit",
        ),
        Key::HostCompiler => (
            "the C++ compiler is too new for this nvcc",
            "export NVCC_PREPEND_FLAGS='-ccbin=g++-N', with an older g++, or install a newer CUDA toolkit",
        ),
        Key::HeadersMissing => {
            ("the header {} is not installed", "install the development package of this library")
        }
        Key::PtxasMissing => {
            ("no ptxas is here", "pip install nvidia-cuda-nvcc-cu12, or install a CUDA toolkit")
        }
        Key::PtxasOld => (
            "the ptxas that is used is older than the GPU or the compiler",
            "export TRITON_PTXAS_PATH=/usr/local/cuda/bin/ptxas, of a newer CUDA toolkit",
        ),
        Key::LibdeviceMissing => (
            "libdevice.10.bc is not where the program looks",
            "export XLA_FLAGS=--xla_gpu_cuda_data_dir=DIR, with DIR/nvvm/libdevice/libdevice.10.bc",
        ),
        Key::PtxNewerThanDriver => (
            "code was compiled by a newer CUDA than the driver supports",
            "update the NVIDIA driver, or compile with the driver's CUDA: no library path can help",
        ),
        Key::NvrtcOlderThanGpu => {
            ("NVRTC is older than the GPU", "install a build of the program for a newer CUDA")
        }
        Key::NvjitlinkOlder => ("nvJitLink is older than NVRTC", "install both in one version"),
        Key::EnvironmentDropped => (
            "sudo or a program with more rights removed LD_LIBRARY_PATH",
            "start cudarun inside: `sudo cudarun PROGRAM`",
        ),
        Key::NetworkInterface => {
            ("the network interface does not exist", "export NCCL_SOCKET_IFNAME=NAME, as `ip link` shows it")
        }
        Key::LockedMemory => ("too little memory may be locked", "ulimit -l unlimited"),
        Key::BuiltWithOtherDriver => {
            ("the program was built against another driver", "build it again, or update the NVIDIA driver")
        }
        Key::ProgramFault => (
            "the program's own kernel or call is wrong; no library is",
            "CUDA_LAUNCH_BLOCKING=1 shows the call",
        ),
        Key::OtherSystem => ("this is a message of Windows: nothing on this machine tells its cause", ""),
        Key::Harmless => ("this message is harmless: it also appears in programs that work", ""),
    }
}

pub(super) fn sentence(cause: &Cause<'_>) -> String {
    let subject = cause.subject.as_deref().filter(|subject| *subject != "framework").unwrap_or("the library");
    let name = subject.rsplit('/').next().unwrap_or(subject);
    let known = catalog().family(&name.to_lowercase());
    let shown = known.map_or_else(|| show(name), |known| family(&known.name).to_owned());
    words(cause.key).0.replace("{}", &shown)
}

/// The cures that fit, the best first. `program` is shown as typed.
pub(super) fn cures(cause: &Cause<'_>, program: &[std::ffi::OsString], elements: &[Element]) -> Vec<Cure> {
    let mut cures = Vec::new();
    let mut add = |command: String, why: &str| cures.push(Cure { command, why: why.to_owned() });
    if cause.certainty == Certainty::IsNot {
        return cures;
    }
    if cause.plan_helps {
        add(format!("cudarun {}", shell_words(program)), "the plan does not have this fault");
    }
    if let Some(directory) = &cause.directory_helps {
        let directory = hints::argument(directory.as_os_str());
        let path = variables::LIBRARY_PATH;
        add(format!("export {path}={directory}${{{path}:+:${path}}}"), "");
    }
    if cause.unset_helps {
        let is_path = |one: &&Evidence| matches!(one, Evidence::Element { .. });
        let place = cause.evidence.iter().find(is_path).and_then(|one| match one {
            Evidence::Element { variable, position, .. } => elements
                .iter()
                .find(|element| element.variable == *variable && element.position == *position)
                .and_then(|element| element.set_by.first()),
            _ => None,
        });
        let set = place.map(|line| format!("set in {}", at(&line.path, Some(line.number))));
        add(format!("unset {}", variables::LIBRARY_PATH), &set.unwrap_or_default());
    }
    if let Some(hint) = &cause.hint {
        // The solver has checked the hint for a start by cudarun.
        let command = hints::hint(hint);
        match hint {
            Hint::Pip { .. } | Hint::Apt { .. } => {
                add(format!("{command} && cudarun {}", shell_words(program)), "");
            }
            _ => add(command, ""),
        }
    }
    if let Some(command) = replacement(cause) {
        add(command, "");
    }
    for finding in &cause.findings {
        if let Some(remedy) = doctor_words::remedy(finding) {
            add(remedy, "");
        }
    }
    for evidence in &cause.evidence {
        // A name without a number may be a script for the linker.
        if let Evidence::Fault { path, fault: ReadFault::NotElf } = evidence
            && !path.as_os_str().as_encoded_bytes().ends_with(b".so")
        {
            add(format!("rm {}", hints::argument(path.as_os_str())), "this file is no library");
        }
    }
    let known = words(cause.key).1;
    if cures.is_empty() && !known.is_empty() {
        cures.push(Cure { command: known.to_owned(), why: String::new() });
    }
    if let Some(pip) = &cause.pip {
        for cure in &mut cures {
            cure.command = hints::for_python(&cure.command, pip);
        }
    }
    cures
}

/// `nvidia-nvvm 13.0.88` of the name of its records.
fn distribution(records: &str) -> Option<String> {
    Some(records.strip_suffix(".dist-info")?.replacen('-', " ", 1).replace('_', "-"))
}

/// The commands that install the one right package in place of those that the evidence names, or unset a variable.
fn replacement(cause: &Cause<'_>) -> Option<String> {
    let files = cause.evidence.iter().filter_map(|evidence| match evidence {
        Evidence::File { path, text, .. } => Some((path.file_name()?.to_str()?, text)),
        _ => None,
    });
    let packages: Vec<String> = files.clone().filter_map(|(name, _)| distribution(name)).collect();
    match cause.key {
        Key::TwoPackages => Some(doctor_words::reinstalled(&packages, packages.last()?)),
        Key::ToolkitVariable => cause.evidence.iter().find_map(|evidence| match evidence {
            Evidence::Variable { name, .. } => Some(format!("unset {name}")),
            _ => None,
        }),
        Key::ToolkitMixed => {
            let parts = packages.iter().filter_map(|part| {
                let (name, version) = part.split_once(' ')?;
                Some((name, version.parse::<Version>().ok()?.truncated(2)))
            });
            let (_, release) = parts.clone().find(|(name, _)| *name == "nvidia-cuda-nvcc")?;
            let others = parts.filter(|part| part.1 != release);
            let others: Vec<String> =
                others.map(|(name, _)| quoted_to_show(format!("{name}=={release}.*").as_ref())).collect();
            Some(format!("pip install {}", others.join(" "))).filter(|_| !others.is_empty())
        }
        // The wheels for CUDA 13 and later fill one directory.
        Key::HeadersMissing => cause.evidence.iter().find_map(|evidence| {
            let Evidence::Absent { path } = evidence else { return None };
            let root = path.parent()?.parent()?;
            root.parent()?.ends_with("site-packages/nvidia").then_some(())?;
            let cuda = root.file_name()?.to_str()?.strip_prefix("cu")?.parse().ok()?;
            let wheel = catalog().family(&path.file_stem()?.to_str()?.to_lowercase())?.wheel(cuda)?;
            Some(format!("pip install {wheel}"))
        }),
        Key::CpuBuild => {
            let (name, version) = files.clone().find_map(|(_, text)| text.split_once(' '))?;
            let distribution = knowledge().distribution(name)?;
            let version = version.split('+').next()?;
            // A plugin is added to the framework, and has its version; another build replaces it.
            if distribution.ends_with("-plugin") {
                let requirement = format!("{distribution}[with-cuda]=={version}");
                return Some(format!("pip install {}", quoted_to_show(requirement.as_ref())));
            }
            let requirement = format!("{distribution}~={version}");
            let [name, requirement] = [name, &requirement].map(|word| quoted_to_show(word.as_ref()));
            Some(format!("pip uninstall {name}; pip install {requirement}"))
        }
        _ => None,
    }
}
