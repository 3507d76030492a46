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
    let mut variable = None;
    let mut gpus = None;
    for evidence in &cause.evidence {
        match evidence {
            ProofEvidence::Variable { name, value } if variable.is_none() => {
                variable = Some((name, value));
            }
            ProofEvidence::Gpus { count } if gpus.is_none() => gpus = Some(*count),
            _ => {}
        }
    }
    let ((name, value), count) = variable.zip(gpus)?;
    let is_number = value
        .split(',')
        .next()
        .is_some_and(|first| first.trim().parse::<u32>().is_ok());
    let machine = match count {
        _ if !is_number => "no GPU of this machine has that name".to_owned(),
        1 => "this machine has only GPU 0".to_owned(),
        count => format!("this machine has only GPUs 0 to {}", count - 1),
    };
    Some(format!("{name}={}, but {machine}", show(value)))
}

pub(super) fn remedy(cause: &ProofCause) -> String {
    let reinstall = match &cause.culprit {
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
    let texts = [("reinstall", reinstall), ("cudarun", String::new())];
    filled(&cause.fault.row().cure, &texts).0
}

/// True for a library that a package brings under a name with a hash.
fn is_bundled(culprit: &Culprit) -> bool {
    names::split(&culprit.soname).is_some_and(|(stem, _)| names::without_hash(stem).is_some())
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
    let mut other = "a library";
    for evidence in &cause.evidence {
        if let ProofEvidence::Library {
            family, version, ..
        } = evidence
        {
            if family != "driver" {
                return titled(family, *version);
            }
            other = "the driver";
        }
    }
    other.to_owned()
}

/// The evidence as rows.
pub(super) fn evidence(cause: &ProofCause) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for evidence in &cause.evidence {
        let (label, text) = labelled(evidence);
        rows.push(vec![label.to_owned(), text]);
    }
    rows
}

fn labelled(evidence: &ProofEvidence) -> (&'static str, String) {
    match evidence {
        ProofEvidence::Said { line } => ("said", show(line)),
        ProofEvidence::Variable { name, value } => ("set", format!("{name}={}", show(value))),
        ProofEvidence::KernelDriver { version } => ("kernel", format!("driver {version}")),
        ProofEvidence::Library {
            family,
            soname,
            version,
            origin,
            directory,
        } => {
            let (soname, directory) = (show(soname), show(directory));
            let title = titled(family, *version);
            (
                "used",
                format!("{title}: {soname} in {directory} ({origin})"),
            )
        }
        ProofEvidence::DriverCuda { number } => {
            let cuda = CudaVersion::from_number(u32::try_from(*number).unwrap_or(0));
            ("driver", format!("supports CUDA up to {cuda}"))
        }
        ProofEvidence::Missing { stems, directory } => {
            let stems = list(stems.iter().map(show));
            ("missing", format!("{stems} in {}", show(directory)))
        }
        ProofEvidence::Foreign {
            file,
            version,
            rest,
        } => {
            let rest = rest
                .map(|rest| format!(", the rest {rest}"))
                .unwrap_or_default();
            ("foreign", format!("{} is {version}{rest}", show(file)))
        }
        ProofEvidence::Truncated { file } => ("short", format!("{} ends too early", show(file))),
        ProofEvidence::Memory { gpu, free, total } => (
            "memory",
            format!(
                "{} of {} free on GPU {gpu}",
                binary_size(*free),
                binary_size(*total)
            ),
        ),
        ProofEvidence::NoDeviceNodes => ("lacks", "/dev/nvidia0".to_owned()),
        ProofEvidence::Gpus { count } => ("here", words::counted(*count, "GPU")),
    }
}
