//! Causes of a failed proof in words: a name, a sentence, the evidence, a remedy.

use super::cause_words;
use super::words::{self, binary_size, word};
use crate::catalog::CauseKey as Key;
use crate::catalog::display_name;
use crate::formats::names;
use crate::text::{list, show};
use crate::verify::{Cause, CauseKind, Culprit, Evidence};
use crate::version::CudaVersion;

pub(super) fn sentence(cause: &Cause) -> String {
    hidden(cause).unwrap_or_else(|| words(cause.kind).0.replace("{}", &culprit(cause)))
}

/// `CUDA_VISIBLE_DEVICES=7, but this machine has only GPU 0`
fn hidden(cause: &Cause) -> Option<String> {
    let set = cause.evidence.iter().find_map(|evidence| match evidence {
        Evidence::Variable { name, value } => Some((name, value)),
        _ => None,
    });
    let gpus = cause.evidence.iter().find_map(|evidence| match evidence {
        Evidence::Gpus { count } => Some(*count),
        _ => None,
    });
    let ((name, value), count) = set.zip(gpus)?;
    let is_number = value
        .split(',')
        .next()
        .is_some_and(|first| first.trim().parse::<u32>().is_ok());
    let has = match count {
        _ if !is_number => "no GPU of this machine has that name".to_owned(),
        1 => "this machine has only GPU 0".to_owned(),
        count => format!("this machine has only GPUs 0 to {}", count - 1),
    };
    Some(format!("{name}={}, but {has}", show(value)))
}

pub(super) fn remedy(cause: &Cause) -> String {
    let is_bundled = |culprit: &Culprit| {
        names::split(&culprit.soname).is_some_and(|(stem, _)| names::without_hash(stem).is_some())
    };
    match (words(cause.kind).1, &cause.culprit) {
        ("", Some(culprit)) if is_bundled(culprit) => format!(
            "install a whole {} and start with cudarun: the package brings a part of it alone",
            display_name(&culprit.family)
        ),
        ("", Some(culprit)) => format!(
            "reinstall the package of {} in {}: `cudarun list` shows the others",
            display_name(&culprit.family),
            show(&culprit.directory)
        ),
        ("", None) => "reinstall it: `cudarun list` shows what is installed".to_owned(),
        (remedy, _) => remedy.to_owned(),
    }
}

/// The sentence, in which `{}` is a placeholder for the library at fault, and the remedy. An empty remedy means to
/// reinstall the library.
fn words(kind: CauseKind) -> (&'static str, &'static str) {
    let same = |key| cause_words::words(key).0;
    match kind {
        CauseKind::NoDriver => (
            "libcuda.so.1 is not installed",
            "install the NVIDIA driver; start a container with `--gpus all`",
        ),
        CauseKind::StubDriver => (
            same(Key::Stub),
            "remove the directory of stubs from LD_LIBRARY_PATH, or start with cudarun",
        ),
        CauseKind::GpusHidden => cause_words::words(Key::GpusHidden),
        CauseKind::NoDevice => (
            "the driver finds no GPU",
            "check that `nvidia-smi -L` lists a GPU; start a container with `--gpus all`",
        ),
        CauseKind::CompatRefused => (
            same(Key::CompatRefused),
            "remove the compat directory from LD_LIBRARY_PATH, or start with cudarun",
        ),
        CauseKind::DriverMismatch => cause_words::words(Key::DriverMismatch),
        CauseKind::DriverTooOld => (
            "the driver is too old for {}",
            "update the NVIDIA driver, or install a build for an older CUDA",
        ),
        CauseKind::DriverIncomplete => (
            "a part of the driver's user-space libraries is missing",
            "install libnvidia-ptxjitcompiler in the driver's version; a container must get it from the host",
        ),
        CauseKind::DriverUnreachable => (
            "the driver does not work",
            "run `nvidia-smi`, then `sudo modprobe nvidia_uvm`; `sudo dmesg | grep NVRM` shows more",
        ),
        CauseKind::NotReady => (
            "the machine is not ready for CUDA yet",
            "check `systemctl status nvidia-fabricmanager`, and the MPS server if one runs",
        ),
        CauseKind::SublibraryMissing => (same(Key::Incomplete), ""),
        CauseKind::SublibraryForeign => (
            same(Key::Mixed),
            "start with cudarun, which takes all parts from one installation, or reinstall the library",
        ),
        CauseKind::LibraryDoesNotLoad => (
            "{} cannot be loaded",
            "install the library that the message names; `cudarun explain` shows what requires it",
        ),
        CauseKind::LibraryDamaged => (same(Key::Damaged), ""),
        CauseKind::NoEngine => ("{} cannot compute a plain convolution", ""),
        CauseKind::NoKernelImage => (
            same(Key::NoKernel),
            "install a build for this GPU: `cudarun list -v` shows the GPUs of each installation",
        ),
        CauseKind::CompilationFailed => (
            "{} could not compile a kernel",
            "install the NVRTC of the same CUDA: `cudarun list nvrtc` shows what is installed",
        ),
        CauseKind::Refused => ("{} reports an error", ""),
        CauseKind::OutOfMemory => (
            same(Key::OutOfMemory),
            "wait, or choose another GPU with CUDA_VISIBLE_DEVICES: see `nvidia-smi`",
        ),
        CauseKind::HostMemory => ("this process does not have enough host memory", LIMITS),
        CauseKind::Killed => ("another process or the kernel killed the proof", LIMITS),
        CauseKind::GpuBusy => cause_words::words(Key::GpuBusy),
        CauseKind::GpuFault => cause_words::words(Key::GpuFault),
        CauseKind::WrongNumbers => (same(Key::WrongNumbers), ""),
        CauseKind::ForeignFiles => (
            "files from outside the set were mapped",
            "remove them from LD_PRELOAD and LD_LIBRARY_PATH",
        ),
        CauseKind::TimedOut => (
            "the proof did not finish in time",
            "try again; `--verify never` starts without a proof",
        ),
        CauseKind::Crashed => ("{} crashes", ""),
        CauseKind::NoReport => ("{} ended the process of the proof", ""),
    }
}

const LIMITS: &str = "try again; check `ulimit -a`, the limits of the batch system, and `sudo dmesg` for the OOM killer";

/// The sentence with place and name, for a line of its own.
pub(super) fn in_a_line(cause: &Cause) -> String {
    let place = match &cause.culprit {
        Some(culprit) => format!(" ({})", show(&culprit.directory)),
        None => String::new(),
    };
    format!("{}{place} [{}]", sentence(cause), word(&cause.kind))
}

/// `cuDNN 9.14.0`, without the version if it is unknown.
fn culprit(cause: &Cause) -> String {
    let named = cause.evidence.iter().find_map(|evidence| match evidence {
        Evidence::Library {
            family: name,
            version,
            ..
        } if name != "driver" => {
            let version = version
                .map(|version| format!(" {version}"))
                .unwrap_or_default();
            Some(format!("{}{version}", display_name(name)))
        }
        _ => None,
    });
    let is_driver = |evidence: &Evidence| matches!(evidence, Evidence::Library { family, .. } if family == "driver");
    let other = if cause.evidence.iter().any(is_driver) {
        "the driver"
    } else {
        "a library"
    };
    named.unwrap_or_else(|| other.to_owned())
}

/// The evidence as rows.
pub(super) fn evidence(cause: &Cause) -> Vec<Vec<String>> {
    let row = |label: &str, text: String| vec![label.to_owned(), text];
    let one = |evidence: &Evidence| match evidence {
        Evidence::Said { line } => row("said", show(line)),
        Evidence::Variable { name, value } => row("set", format!("{name}={}", show(value))),
        Evidence::KernelDriver { version } => row("kernel", format!("driver {version}")),
        Evidence::Library {
            family: name,
            soname,
            version,
            origin,
            directory,
        } => {
            let version = version
                .map(|version| format!(" {version}"))
                .unwrap_or_default();
            let soname = show(soname);
            let directory = show(directory);
            row(
                "used",
                format!(
                    "{}{version}: {soname} in {directory} ({origin})",
                    display_name(name)
                ),
            )
        }
        Evidence::DriverCuda { number } => {
            let cuda = CudaVersion::from_number(u32::try_from(*number).unwrap_or(0));
            row("driver", format!("supports CUDA up to {cuda}"))
        }
        Evidence::Missing { stems, directory } => {
            let stems: Vec<String> = stems.iter().map(show).collect();
            row(
                "missing",
                format!("{} in {}", list(&stems), show(directory)),
            )
        }
        Evidence::Foreign {
            file,
            version,
            rest,
        } => {
            let rest = rest
                .map(|rest| format!(", the rest {rest}"))
                .unwrap_or_default();
            row("foreign", format!("{} is {version}{rest}", show(file)))
        }
        Evidence::Truncated { file } => row("short", format!("{} ends too early", show(file))),
        Evidence::Memory { gpu, free, total } => row(
            "memory",
            format!(
                "{} of {} free on GPU {gpu}",
                binary_size(*free),
                binary_size(*total)
            ),
        ),
        Evidence::NoDeviceNodes => row("lacks", "/dev/nvidia0".to_owned()),
        Evidence::Gpus { count } => row("here", words::counted(*count, "GPU")),
    };
    cause.evidence.iter().map(one).collect()
}
