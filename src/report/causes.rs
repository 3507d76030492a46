//! Causes of a failed proof in words: a name, a sentence, the evidence, a remedy.

use super::doctor::reinstall;
use super::words::{self, word};
use crate::catalog::{display_name, filled};
use crate::doctor::titled;
use crate::formats::names;
use crate::text::{binary_size, list, show};
use crate::verify::{Culprit, ProofCause, ProofEvidence};
use crate::version::CudaVersion;

pub(super) fn sentence(cause: &ProofCause) -> String {
    hidden(cause).unwrap_or_else(|| cause.fault.sentence_about(&culprit(cause)))
}

/// `CUDA_VISIBLE_DEVICES=7, but this machine has only GPU 0`
fn hidden(cause: &ProofCause) -> Option<String> {
    let set = cause.evidence.iter().find_map(|evidence| match evidence {
        ProofEvidence::Variable { name, value } => Some((name, value)),
        _ => None,
    });
    let gpus = cause.evidence.iter().find_map(|evidence| match evidence {
        ProofEvidence::Gpus { count } => Some(*count),
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

pub(super) fn remedy(cause: &ProofCause) -> String {
    let is_bundled = |culprit: &Culprit| {
        names::split(&culprit.soname).is_some_and(|(stem, _)| names::without_hash(stem).is_some())
    };
    let again = match &cause.culprit {
        Some(culprit) if is_bundled(culprit) => format!(
            "install a whole {} and start with cudarun: the package brings a part of it alone",
            display_name(&culprit.family)
        ),
        Some(culprit) => reinstall(&[
            ("of", display_name(&culprit.family).to_owned()),
            ("directory", show(&culprit.directory)),
        ]),
        None => reinstall(&[]),
    };
    // The proof was one of cudarun's plan.
    let texts = [("reinstall", again), ("cudarun", String::new())];
    filled(&cause.fault.row().cure, &texts).0
}

/// The sentence with place and name, for a line of its own.
pub(super) fn in_a_line(cause: &ProofCause) -> String {
    let place = match &cause.culprit {
        Some(culprit) => format!(" ({})", show(&culprit.directory)),
        None => String::new(),
    };
    format!("{}{place} [{}]", sentence(cause), word(&cause.fault))
}

/// `cuDNN 9.14.0`, without the version if it is unknown.
fn culprit(cause: &ProofCause) -> String {
    let named = cause.evidence.iter().find_map(|evidence| match evidence {
        ProofEvidence::Library {
            family: name,
            version,
            ..
        } if name != "driver" => Some(titled(name, *version)),
        _ => None,
    });
    let is_driver = |evidence: &ProofEvidence| matches!(evidence, ProofEvidence::Library { family, .. } if family == "driver");
    let other = if cause.evidence.iter().any(is_driver) {
        "the driver"
    } else {
        "a library"
    };
    named.unwrap_or_else(|| other.to_owned())
}

/// The evidence as rows.
pub(super) fn evidence(cause: &ProofCause) -> Vec<Vec<String>> {
    let row = |label: &str, text: String| vec![label.to_owned(), text];
    let one = |evidence: &ProofEvidence| match evidence {
        ProofEvidence::Said { line } => row("said", show(line)),
        ProofEvidence::Variable { name, value } => row("set", format!("{name}={}", show(value))),
        ProofEvidence::KernelDriver { version } => row("kernel", format!("driver {version}")),
        ProofEvidence::Library {
            family: name,
            soname,
            version,
            origin,
            directory,
        } => {
            let (soname, directory) = (show(soname), show(directory));
            let title = titled(name, *version);
            row(
                "used",
                format!("{title}: {soname} in {directory} ({origin})"),
            )
        }
        ProofEvidence::DriverCuda { number } => {
            let cuda = CudaVersion::from_number(u32::try_from(*number).unwrap_or(0));
            row("driver", format!("supports CUDA up to {cuda}"))
        }
        ProofEvidence::Missing { stems, directory } => {
            let stems: Vec<String> = stems.iter().map(show).collect();
            row(
                "missing",
                format!("{} in {}", list(&stems), show(directory)),
            )
        }
        ProofEvidence::Foreign {
            file,
            version,
            rest,
        } => {
            let rest = rest
                .map(|rest| format!(", the rest {rest}"))
                .unwrap_or_default();
            row("foreign", format!("{} is {version}{rest}", show(file)))
        }
        ProofEvidence::Truncated { file } => row("short", format!("{} ends too early", show(file))),
        ProofEvidence::Memory { gpu, free, total } => row(
            "memory",
            format!(
                "{} of {} free on GPU {gpu}",
                binary_size(*free),
                binary_size(*total)
            ),
        ),
        ProofEvidence::NoDeviceNodes => row("lacks", "/dev/nvidia0".to_owned()),
        ProofEvidence::Gpus { count } => row("here", words::counted(*count, "GPU")),
    };
    cause.evidence.iter().map(one).collect()
}
