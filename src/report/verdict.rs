//! The verdict of a proof, and its steps.

use std::ffi::OsString;
use std::path::Path;

use super::Style;
use super::causes;
use super::hints::shell_words;
use super::refusal::{self, AlignedRows, RefusalPart};
use super::words::word;
use crate::modes::Level;
use crate::text::{binary_size, show};
use crate::verify::protocol::{Busy, ChildStep, GpuFound, ProofStep, StepResult};
use crate::verify::{ChildFacts, Proof, ProofCause, Skip, StepFailure, StepRecord, Verdict};
use crate::version::{CudaVersion, Version};

/// Removes the line of progress.
pub const NO_MORE_PROGRESS: &str = "\r\x1b[K";

/// Steps that take long, for [`progress`].
pub const LOOKING: &str = "looking for NVIDIA libraries";
pub const UNPACKING: &str = "reading the layers of the image";

/// The line of progress of something that takes long.
pub fn progress(line: &str) -> String {
    format!("{NO_MORE_PROGRESS}cudarun: {line} …")
}

/// A line of progress, which the next one overwrites.
pub fn proving(place: &ProofStep) -> String {
    format!(
        "{NO_MORE_PROGRESS}cudarun: proving: {} …",
        self::place(place)
    )
}

/// Why the next start is worked out again.
pub fn not_kept(changed: &Path) -> String {
    format!(
        "cudarun: this decision is not kept: `{}` changed meanwhile (or has a time in the future), so the next start decides again\n",
        show(changed)
    )
}

/// One line for a start with `-v`, or if nothing could be proved.
pub fn proof_line(verdict: &Verdict, is_known: bool) -> String {
    match verdict {
        Verdict::Skipped { .. } | Verdict::Busy { .. } => {
            format!("cudarun: not proved: {}\n", why_not_proved(verdict))
        }
        Verdict::Passed { proof } => {
            let names: Vec<String> = proof.finding.gpus.iter().map(name).collect();
            let processors = if names.is_empty() {
                "the CPU".to_owned()
            } else {
                names.join(", ")
            };
            let when = if is_known { "earlier " } else { "" };
            format!(
                "cudarun: proved {when}on {processors} in {:.0} ms\n",
                proof.milliseconds
            )
        }
        Verdict::Failed { .. } => String::new(),
    }
}

fn why_not_proved(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Skipped { why } => skip(*why).to_owned(),
        Verdict::Busy { proof } => busy_gpus(&proof.finding).join("; "),
        Verdict::Passed { .. } | Verdict::Failed { .. } => String::new(),
    }
}

/// The end of a start that demands a GPU and whose libraries could not be proved there.
pub fn gpu_not_proved(verdict: &Verdict, words: &[OsString], style: Style) -> String {
    format!(
        "{} a GPU is required, but its libraries are not proved: {}\n\n{} cudarun verify {}\n",
        style.error("error:"),
        why_not_proved(verdict),
        style.hint("hint:"),
        shell_words(words)
    )
}

/// The sets that failed before one passed, a line each.
pub fn fallback(given_up: &[ProofCause], style: Style) -> String {
    let mut text = String::new();
    for cause in given_up {
        text.push_str(&format!(
            "{} {}; trying the next best set\n",
            style.warning("warning:"),
            causes::in_a_line(cause)
        ));
    }
    text
}

/// The full verdict: for `verify`, and for a start that failed its proof.
pub fn verdict(verdict: &Verdict, given_up: &[ProofCause], is_known: bool, style: Style) -> String {
    match verdict {
        Verdict::Skipped {
            why: Skip::NothingToTry,
        } => format!("{}\n", skip(Skip::NothingToTry)),
        Verdict::Skipped { why } => format!("{} {}\n", style.warning("not proved:"), skip(*why)),
        Verdict::Passed { proof } => {
            let kept = if is_known {
                ", earlier: nothing has changed since"
            } else {
                ""
            };
            format!(
                "{} ({}{kept})\n{}{}",
                style.good("proved"),
                extent(proof),
                fallback(given_up, style),
                found(proof, style)
            )
        }
        Verdict::Busy { proof } => {
            let mut text = String::new();
            for reason in busy_gpus(&proof.finding) {
                text.push_str(&format!("{} {reason}\n", style.warning("not proved:")));
            }
            text + &fallback(given_up, style) + &found(proof, style)
        }
        Verdict::Failed {
            proof,
            failure,
            cause,
        } => {
            let mut text = format!(
                "{} the set failed its proof: {} [{}]\n",
                style.error("error:"),
                causes::sentence(cause),
                word(&cause.fault)
            );
            for group in evidence(failure, cause, given_up, is_known) {
                text.push_str(&style.columns(group.prefix, &group.rows));
            }
            text.push_str(&format!("\n{}", cure(cause, style)));
            if !proof.steps.is_empty() {
                text.push_str(&format!("\n{}", table(&proof.steps, style)));
            }
            text.push_str(&format!("\n{}\n", extent(proof)));
            text
        }
    }
}

/// A start that failed its proof: the cause, the evidence, and what to type, without the steps of the proof.
pub fn failed_start(
    verdict: &Verdict,
    given_up: &[ProofCause],
    is_known: bool,
    style: Style,
) -> String {
    let Verdict::Failed { failure, cause, .. } = verdict else {
        return String::new();
    };
    let mut groups = evidence(failure, cause, given_up, is_known);
    // The name of the cause, as docs/proof.md lists it, stands behind what the proof saw.
    let code = style.dim(&format!("[{}]", word(&cause.fault)));
    groups[0].rows[0].push(code);
    let fault = RefusalPart {
        title: format!("{} {}", style.error("error:"), causes::sentence(cause)),
        groups,
    };
    refusal::page(&[fault], &cure(cause, style), false, style)
}

fn cure(cause: &ProofCause, style: Style) -> String {
    format!("{} {}\n", style.hint("hint:"), causes::remedy(cause))
}

/// What the proof saw, and the sets that failed after the first.
fn evidence(
    failure: &StepFailure,
    cause: &ProofCause,
    given_up: &[ProofCause],
    is_known: bool,
) -> Vec<AlignedRows> {
    let mut rows = vec![vec!["proof".to_owned(), self::failure(failure)]];
    rows.extend(causes::evidence(cause));
    let mut others: Vec<Vec<String>> = Vec::new();
    for cause in given_up.iter().skip(1) {
        others.push(vec![format!(
            "tried without it: {}",
            causes::in_a_line(cause)
        )]);
    }
    if given_up
        .last()
        .is_some_and(|cause| cause.is_of_library() && cause.culprit.is_some())
    {
        others.push(vec!["no other set fits".to_owned()]);
    }
    if is_known {
        let known = "result of less than a minute ago; `cudarun verify --fresh` tries again";
        others.push(vec![known.to_owned()]);
    }
    vec![AlignedRows::new(rows), AlignedRows::new(others)]
}

/// Steps and findings of a proof that reached its end.
fn found(proof: &Proof, style: Style) -> String {
    let finding = &proof.finding;
    let mut text = table(&proof.steps, style);
    for gpu in &finding.gpus {
        text.push_str(&self::gpu(gpu));
    }
    let cuda = finding.driver_cuda.map(u32::try_from);
    if let Some(Ok(number)) = cuda {
        let cuda = CudaVersion::from_number(number);
        text.push_str(&format!("the driver supports CUDA up to {cuda}\n"));
    }
    for (soname, number) in &finding.cudnn {
        let (soname, version) = (show(soname), cudnn_version(*number));
        text.push_str(&format!("{soname} is cuDNN {version}\n"));
    }
    text.push_str(&format!("{} files mapped\n", finding.mapped.len()));
    let has_computed = proof
        .steps
        .iter()
        .any(|taken| taken.place.step == ChildStep::Compute);
    if proof.level >= Level::Conv
        && !has_computed
        && finding.gpus.iter().all(|gpu| gpu.busy.is_none())
    {
        text.push_str("nothing was computed: the set has no cuDNN\n");
    }
    text
}

/// `level conv, 412 ms, seed 7`
fn extent(proof: &Proof) -> String {
    format!(
        "level {}, {:.0} ms, seed {}",
        word(&proof.level),
        proof.milliseconds,
        proof.seed
    )
}

fn gpu(gpu: &GpuFound) -> String {
    let mut parts = vec![name(gpu)];
    if let Some(capability) = &gpu.capability {
        parts.push(format!("compute capability {}", show(capability)));
    }
    format!("GPU {}: {}\n", gpu.gpu, parts.join(", "))
}

fn name(gpu: &GpuFound) -> String {
    gpu.name
        .as_ref()
        .map_or_else(|| format!("GPU {}", gpu.gpu), show)
}

/// The GPUs that could not be tried, each with the reason.
fn busy_gpus(finding: &ChildFacts) -> Vec<String> {
    let mut reasons = Vec::new();
    for gpu in &finding.gpus {
        let Some(busy) = &gpu.busy else { continue };
        let why = match busy {
            Busy::OutOfMemory { call, free, total } => {
                let free = free.or(gpu.free).map(binary_size);
                let total = total.or(gpu.memory).map(binary_size);
                let memory = match (free, total) {
                    (Some(free), Some(total)) => format!("{free} of {total} are free"),
                    (None, Some(total)) => {
                        format!("{} found too little free memory of {total}", show(call))
                    }
                    _ => show(call),
                };
                format!("is out of memory ({memory}): `nvidia-smi` shows the processes that use it")
            }
            Busy::Exclusive { .. } => {
                "is in exclusive use by another process: see `nvidia-smi`".to_owned()
            }
            Busy::Prohibited => {
                "allows no process (compute mode Prohibited): sudo nvidia-smi -c DEFAULT".to_owned()
            }
        };
        reasons.push(format!("GPU {} ({}) {why}", gpu.gpu, name(gpu)));
    }
    reasons
}

fn table(steps: &[StepRecord], style: Style) -> String {
    let mut rows = Vec::new();
    for taken in steps {
        rows.push(vec![
            place(&taken.place),
            format!("{:.1} ms", taken.milliseconds),
            taken.result.as_ref().map(result).unwrap_or_default(),
        ]);
    }
    style.columns("  ", &rows)
}

fn result(result: &StepResult) -> String {
    match result {
        StepResult::Right => "right".to_owned(),
        StepResult::NotSupported { call, code, name } => {
            let name = name.as_ref().map(show).unwrap_or_default();
            format!("not supported here: {} answers {code} {name}", show(call))
        }
        StepResult::NotLoaded { message } => format!("not loaded: {}", show(message)),
    }
}

/// A step in words.
pub(super) fn place(place: &ProofStep) -> String {
    let file = place.of.as_ref().map(show).unwrap_or_default();
    let what = match (place.step, place.computation) {
        (ChildStep::LoadDriver | ChildStep::Load | ChildStep::LoadFile, _) => {
            format!("load {file}")
        }
        (ChildStep::CuInit, _) => "cuInit".to_owned(),
        (ChildStep::Devices, _) => "find the GPUs".to_owned(),
        (ChildStep::Context, _) => "create a context".to_owned(),
        (ChildStep::VersionChecks, _) => format!("check the versions of the parts of {file}"),
        (ChildStep::Handle, _) => format!("handle of {file}"),
        (ChildStep::Compute, Some(computation)) => format!("{} by {file}", word(&computation)),
        (ChildStep::Compute, None) => "compute".to_owned(),
        (ChildStep::Mapped, _) => "list the mapped files".to_owned(),
    };
    match place.gpu {
        Some(gpu) => format!("GPU {gpu}: {what}"),
        None => what,
    }
}

fn skip(why: Skip) -> &'static str {
    match why {
        Skip::NoGpu => "no NVIDIA GPU is reachable (`cudarun verify --level load` needs none)",
        Skip::GpusHidden => "CUDA_VISIBLE_DEVICES hides every GPU",
        Skip::NothingToTry => "nothing to prove: no NVIDIA library is used",
        Skip::NoPlace => "a proof needs a view, and no directory can hold one",
        Skip::LeftOut => "the program uses libraries that are not pinned",
        Skip::NotAsked => "--verify=never",
    }
}

/// The observation that failed the proof.
fn failure(failure: &StepFailure) -> String {
    match failure {
        StepFailure::Load { name, message, .. } => {
            format!("{} does not load: {}", show(name), show(message))
        }
        StepFailure::Status {
            call,
            code,
            name,
            message,
            at: step,
        } => {
            let mut text = format!("{} answered {code}", show(call));
            if let Some(name) = name {
                text.push_str(&format!(" ({})", show(name)));
            }
            if let Some(message) = message {
                text.push_str(&format!(": {}", show(message)));
            }
            format!("{text}, {}", at_step(Some(step)))
        }
        StepFailure::WrongNumbers {
            largest_error,
            element,
            allowed,
            at: step,
        } => {
            let wrong = match largest_error {
                Some(error) => format!("off by {error:e} (allowed: {allowed:e})"),
                None => "not a number".to_owned(),
            };
            format!("element {element} is {wrong}, {}", at_step(Some(step)))
        }
        StepFailure::Foreign { files } => {
            let files: Vec<String> = files.iter().map(show).collect();
            format!("mapped from outside the set: {}", files.join(", "))
        }
        StepFailure::Signal { at: step, signal } => {
            let name = nix::sys::signal::Signal::try_from(*signal)
                .map_or("a signal", nix::sys::signal::Signal::as_str);
            format!("ended by {name} ({signal}) {}", at_step(step.as_ref()))
        }
        StepFailure::Exited { at: step, code } => {
            let how = match code {
                Some(code) => format!("with status {code} and no report"),
                None => "without a report".to_owned(),
            };
            format!("ended {how} {}", at_step(step.as_ref()))
        }
        StepFailure::TimedOut { at: step, seconds } => {
            format!("no answer after {seconds} s {}", at_step(step.as_ref()))
        }
    }
}

fn at_step(step: Option<&ProofStep>) -> String {
    match step {
        Some(step) => format!("at \"{}\"", place(step)),
        None => "before the first step".to_owned(),
    }
}

/// 91900 is 9.19.0, 8907 is 8.9.7.
fn cudnn_version(number: u64) -> String {
    let number = u32::try_from(number).unwrap_or(0);
    let scale = if number < 10_000 { 1000 } else { 10_000 };
    Version::from_scaled(number, scale, 100).to_string()
}
