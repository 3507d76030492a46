//! What a proof showed.

use super::Style;
use super::style::columns;
use crate::text::{escape, show};
use crate::verify::protocol::Step;
use crate::verify::{Failure, Skip, Verdict};
use crate::version::{CudaVersion, Version};

/// One line for a start under `-v`.
pub fn proof_line(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Skipped { why } => format!("cudarun: not proved: {}\n", skip(*why)),
        Verdict::Passed { steps, finding } => {
            let time: f64 = steps.iter().map(|taken| taken.milliseconds).sum();
            let device = finding.device.as_deref().unwrap_or("the CPU");
            format!("cudarun: proved on {} in {time:.0} ms\n", escape(device.as_bytes()))
        }
        Verdict::Failed { .. } => String::new(),
    }
}

/// The verdict in full: for `verify`, and for a start that failed its proof.
pub fn verdict(verdict: &Verdict, style: Style) -> String {
    match verdict {
        Verdict::Skipped { why } => format!("not proved: {}\n", skip(*why)),
        Verdict::Passed { steps, finding } => {
            let mut text = table(steps);
            if let Some(device) = &finding.device {
                let capability = finding.capability.as_deref().unwrap_or("?");
                text.push_str(&format!(
                    "GPU {}, compute capability {capability}\n",
                    escape(device.as_bytes())
                ));
            }
            if let Some(cuda) = finding.driver_cuda.and_then(|number| u32::try_from(number).ok()) {
                text.push_str(&format!("driver for CUDA up to {}\n", CudaVersion::from_number(cuda)));
            }
            if let Some(error) = finding.largest_error {
                let cudnn = finding.cudnn.map(cudnn_version).unwrap_or_default();
                let compared =
                    if error == 0.0 { "equals".to_owned() } else { format!("is within {error:e} of") };
                text.push_str(&format!("cuDNN {cudnn}: a convolution {compared} the CPU's\n"));
            }
            text.push_str(&format!("{} files mapped, all of the plan\n", finding.mapped.len()));
            text.push_str(&format!("{}\n", style.good("proved")));
            text
        }
        Verdict::Failed { steps, failure } => {
            let mut text = format!(
                "{} the picked set failed its proof: {}\n",
                style.error("error:"),
                self::failure(failure)
            );
            if let Some(advice) = advice(failure) {
                text.push_str(&format!("\n{} {advice}\n", style.hint("hint:")));
            }
            if !steps.is_empty() {
                text.push_str(&format!("\n{}", table(steps)));
            }
            text
        }
    }
}

fn table(steps: &[crate::verify::Taken]) -> String {
    let rows: Vec<Vec<String>> = steps
        .iter()
        .map(|taken| vec![step(taken.step).to_owned(), format!("{:.1} ms", taken.milliseconds)])
        .collect();
    columns("  ", &rows)
}

fn step(step: Step) -> &'static str {
    match step {
        Step::LoadDriver => "load the driver's library",
        Step::CuInit => "cuInit",
        Step::Device => "take the first GPU",
        Step::LoadCudnn => "load cuDNN",
        Step::CudnnVersion => "ask cuDNN for its version",
        Step::CudnnCreate => "create a cuDNN handle",
        Step::Convolution => "convolution",
        Step::Compare => "compare with the CPU",
        Step::LoadOthers => "load the other libraries",
        Step::Mapped => "read what is mapped",
    }
}

fn skip(why: Skip) -> &'static str {
    match why {
        Skip::NoGpu => "no NVIDIA GPU can be reached from here",
        Skip::GpusHidden => "CUDA_VISIBLE_DEVICES hides the GPUs",
        Skip::NothingToTry => "there is no library to try",
        Skip::NotAsked => "--verify=never",
        Skip::ProvedBefore => "it was proved before, and nothing has changed since",
    }
}

fn failure(failure: &Failure) -> String {
    let at = |at: &Option<Step>| {
        at.map_or_else(|| "before the first step".to_owned(), |at| format!("at \"{}\"", step(at)))
    };
    let said = |words: &Option<String>| {
        words.as_ref().map(|words| format!("; it said: {}", escape(words.as_bytes()))).unwrap_or_default()
    };
    match failure {
        Failure::Load { name, message, .. } => {
            format!("{} does not load: {}", escape(name.as_bytes()), escape(message.as_bytes()))
        }
        Failure::Status { call, code, name, message, .. } => {
            let name =
                name.as_ref().map(|name| format!(" ({})", escape(name.as_bytes()))).unwrap_or_default();
            let message =
                message.as_ref().map(|text| format!(": {}", escape(text.as_bytes()))).unwrap_or_default();
            format!("{call} answered {code}{name}{message}")
        }
        Failure::WrongNumbers { largest_error: Some(error), at } => {
            format!("the convolution came out wrong: off by {error:e} at element {at}")
        }
        Failure::WrongNumbers { largest_error: None, at } => {
            format!("the convolution came out wrong: element {at} is no number")
        }
        Failure::Foreign { files } => {
            let files: Vec<String> = files.iter().map(show).collect();
            format!("it mapped files that are not in the plan: {}", files.join(", "))
        }
        Failure::Signal { step, signal, last_words } => {
            let name = nix::sys::signal::Signal::try_from(*signal)
                .map_or("a signal", nix::sys::signal::Signal::as_str);
            format!("it was ended by {name} ({signal}) {}{}", at(step), said(last_words))
        }
        Failure::Exited { step, code, last_words } => {
            let how = code.map_or_else(
                || "without a report".to_owned(),
                |code| format!("with status {code} and no report"),
            );
            format!("it ended {how} {}{}", at(step), said(last_words))
        }
        Failure::TimedOut { step, seconds } => format!("no answer after {seconds} s {}", at(step)),
    }
}

/// What a person can do, for the codes that say what is wrong.
fn advice(failure: &Failure) -> Option<&'static str> {
    let Failure::Status { code, step, .. } = failure else { return None };
    match (step, code) {
        (Step::CuInit, 803) => Some(
            "the driver's user-space libraries are not those of the kernel's driver: cudarun list driver shows both",
        ),
        (Step::CuInit, 804) => {
            Some("forward compatibility does not serve this GPU: take the compat directory away")
        }
        (Step::CuInit, 100) => {
            Some("no GPU is visible: look at CUDA_VISIBLE_DEVICES and at the devices in /dev")
        }
        (Step::CuInit, 999) => {
            Some("the driver cannot be reached: try nvidia-smi, and look at the kernel's log")
        }
        (_, 2) => Some("the GPU is out of memory: nvidia-smi shows who uses it"),
        _ => None,
    }
}

/// 91900 is 9.19.0, 8907 is 8.9.7.
fn cudnn_version(number: u64) -> String {
    let number = u32::try_from(number).unwrap_or(0);
    let scale = if number < 10_000 { 1000 } else { 10_000 };
    Version::from_scaled(number, scale, 100).to_string()
}
