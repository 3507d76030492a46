//! Why a proof failed, in words: a name, a sentence, the evidence, a remedy.

use super::verdict::bytes;
use super::words::{family, list};
use crate::text::{escape, show};
use crate::verify::{Cause, Evidence, Kind};
use crate::version::CudaVersion;

/// The name of a cause, as JSON and the documentation have it.
pub(super) fn name(kind: Kind) -> String {
    serde_json::to_value(kind).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
}

/// What is wrong, in a sentence.
pub(super) fn sentence(cause: &Cause) -> String {
    let library = culprit(cause);
    match cause.kind {
        Kind::NoDriver => "there is no libcuda.so.1 here".to_owned(),
        Kind::StubDriver => "the libcuda.so.1 that is found is a stub to link against".to_owned(),
        Kind::GpusHidden => "CUDA_VISIBLE_DEVICES leaves no GPU".to_owned(),
        Kind::NoDevice => "the driver finds no GPU".to_owned(),
        Kind::CompatRefused => {
            "the forward-compatibility libcuda does not go with this driver and GPU".to_owned()
        }
        Kind::DriverMismatch => {
            "the driver's user-space libraries are not those of the kernel's driver".to_owned()
        }
        Kind::DriverTooOld => format!("the driver is too old for {library}"),
        Kind::DriverIncomplete => "a part of the driver's user-space libraries is missing".to_owned(),
        Kind::DriverUnreachable => "the driver does not work".to_owned(),
        Kind::NotReady => "the machine is not ready for CUDA yet".to_owned(),
        Kind::SublibraryMissing => format!("a part of {library} is missing"),
        Kind::SublibraryForeign => format!("{library} is mixed from more than one version"),
        Kind::LibraryDoesNotLoad => format!("{library} cannot be loaded"),
        Kind::LibraryDamaged => format!("a file of {library} is damaged"),
        Kind::NoEngine => format!("{library} has no way to compute a plain convolution"),
        Kind::NoKernelImage => format!("{library} has no code for this GPU"),
        Kind::CompilationFailed => format!("{library} could not compile a kernel"),
        Kind::Refused => format!("{library} refuses to work"),
        Kind::OutOfMemory => "the GPU is out of memory".to_owned(),
        Kind::HostMemory => "there is not enough memory for this process".to_owned(),
        Kind::Killed => "the process that tried it was killed by somebody else, or by the kernel".to_owned(),
        Kind::GpuBusy => "the GPU is in use by another process that has it for itself".to_owned(),
        Kind::GpuFault => "the GPU reports a fault of its own".to_owned(),
        Kind::WrongNumbers => format!("{library} computes wrong numbers"),
        Kind::ForeignFiles => "files were mapped that are not of the set".to_owned(),
        Kind::TimedOut => "there was no answer in time".to_owned(),
        Kind::Crashed => format!("{library} crashes"),
        Kind::NoReport => format!("{library} ended the process that tried it"),
    }
}

/// The same for a line of its own, with the place.
pub(super) fn in_a_line(cause: &Cause) -> String {
    let place = match &cause.culprit {
        Some(culprit) => format!(" ({})", show(&culprit.directory)),
        None => String::new(),
    };
    format!("{}{place} [{}]", sentence(cause), name(cause.kind))
}

/// `cuDNN 9.14.0`, or what it is called where its version is not known.
fn culprit(cause: &Cause) -> String {
    let named = cause.evidence.iter().find_map(|evidence| match evidence {
        Evidence::Library { family: name, version, .. } if name != "driver" => {
            let version = version.map(|version| format!(" {version}")).unwrap_or_default();
            Some(format!("{}{version}", family(name)))
        }
        _ => None,
    });
    let has_driver =
        cause.evidence.iter().any(|it| matches!(it, Evidence::Library { family, .. } if family == "driver"));
    named.unwrap_or_else(|| if has_driver { "the driver" } else { "a library" }.to_owned())
}

/// Rows of what it rests on.
pub(super) fn evidence(cause: &Cause) -> Vec<Vec<String>> {
    let row = |label: &str, text: String| vec![label.to_owned(), text];
    let one = |evidence: &Evidence| match evidence {
        Evidence::VersionEvidence { line } => row("said", escape(line.as_bytes())),
        Evidence::Variable { name, value } => row("set", format!("{name}={}", escape(value.as_bytes()))),
        Evidence::KernelDriver { version } => row("kernel", format!("driver {version}")),
        Evidence::Library { family: name, soname, version, origin, directory } => {
            let version = version.map(|version| format!(" {version}")).unwrap_or_default();
            let soname = escape(soname.as_bytes());
            let directory = escape(directory.as_bytes());
            row("used", format!("{}{version}: {soname} in {directory} ({origin})", family(name)))
        }
        Evidence::DriverCuda { number } => {
            let cuda = CudaVersion::from_number(u32::try_from(*number).unwrap_or(0));
            row("driver", format!("for CUDA up to {cuda}"))
        }
        Evidence::Missing { stems, directory } => {
            let stems: Vec<String> = stems.iter().map(|stem| escape(stem.as_bytes())).collect();
            row("missing", format!("{} in {}", list(&stems), escape(directory.as_bytes())))
        }
        Evidence::Foreign { file, version, rest } => {
            let rest = rest.map(|rest| format!(", the rest {rest}")).unwrap_or_default();
            row("foreign", format!("{} is {version}{rest}", escape(file.as_bytes())))
        }
        Evidence::Truncated { file } => row("short", format!("{} ends too early", escape(file.as_bytes()))),
        Evidence::Memory { gpu, free, total } => {
            row("memory", format!("{} of {} free on GPU {gpu}", bytes(*free), bytes(*total)))
        }
        Evidence::NoDeviceNodes => row("lacks", "/dev/nvidia0".to_owned()),
        Evidence::CutOff => {
            row("closed", "the descriptor of the report, which is not the library's".to_owned())
        }
    };
    cause.evidence.iter().map(one).collect()
}

/// What to do.
pub(super) fn remedy(cause: &Cause) -> String {
    let again = || match &cause.culprit {
        Some(culprit) => format!(
            "install {} in {} again, or take it away: `cudarun list` shows what else is here",
            family(&culprit.family),
            show(&culprit.directory)
        ),
        None => "install it again: `cudarun list` shows what is here".to_owned(),
    };
    match cause.kind {
        Kind::NoDriver => "install the NVIDIA driver; in a container, start it with `--gpus all`".to_owned(),
        Kind::StubDriver => {
            "take the directory of stubs out of LD_LIBRARY_PATH, or start with cudarun".to_owned()
        }
        Kind::GpusHidden => "unset CUDA_VISIBLE_DEVICES, or name GPUs that `nvidia-smi -L` lists".to_owned(),
        Kind::NoDevice => {
            "look whether `nvidia-smi -L` lists a GPU; in a container, start it with `--gpus all`".to_owned()
        }
        Kind::CompatRefused => {
            "take the compat directory out of LD_LIBRARY_PATH, or start with cudarun".to_owned()
        }
        Kind::DriverMismatch => {
            "restart the machine, so that the kernel's driver is the installed one".to_owned()
        }
        Kind::DriverTooOld => "update the NVIDIA driver, or take a build for an older CUDA".to_owned(),
        Kind::DriverIncomplete => {
            "install libnvidia-ptxjitcompiler of the driver's version; a container must be given it"
                .to_owned()
        }
        Kind::DriverUnreachable => {
            "try `nvidia-smi`, then `modprobe nvidia_uvm`; the kernel's log has more (`dmesg | grep NVRM`)"
                .to_owned()
        }
        Kind::NotReady => {
            "look at `systemctl status nvidia-fabricmanager`, and at the MPS server where one runs".to_owned()
        }
        Kind::SublibraryMissing
        | Kind::LibraryDamaged
        | Kind::Crashed
        | Kind::WrongNumbers
        | Kind::NoEngine
        | Kind::Refused
        | Kind::NoReport => again(),
        Kind::SublibraryForeign => {
            "let all parts come from one place: start with cudarun, or install the library again".to_owned()
        }
        Kind::LibraryDoesNotLoad => "install what it names; `cudarun explain` shows who needs it".to_owned(),
        Kind::NoKernelImage => {
            "take a build for this GPU: `cudarun list -v` shows for which GPUs each installation is".to_owned()
        }
        Kind::CompilationFailed => {
            "install the NVRTC of the same CUDA: `cudarun list nvrtc` shows what is here".to_owned()
        }
        Kind::OutOfMemory => {
            "wait, or choose another GPU with CUDA_VISIBLE_DEVICES: see `nvidia-smi`".to_owned()
        }
        Kind::HostMemory | Kind::Killed => {
            "try again; `ulimit -a`, the limits of the batch system and the kernel's log say what may have ended it".to_owned()
        }
        Kind::GpuBusy => {
            "wait for the other process, or allow more than one with `nvidia-smi -c DEFAULT`".to_owned()
        }
        Kind::GpuFault => "look at `nvidia-smi -q` and the kernel's log: the GPU may need a reset".to_owned(),
        Kind::ForeignFiles => "take them out of LD_PRELOAD and LD_LIBRARY_PATH".to_owned(),
        Kind::TimedOut => "try again; `--verify never` starts without a proof".to_owned(),
    }
}
