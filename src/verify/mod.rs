//! The proof: a child of this same binary, started in exactly the environment that the program will get,
//! loads the libraries as the program would, creates a cuDNN handle and compares a convolution with the
//! CPU's. Whatever happens to the child is a verdict. Must not know how the plan came about.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::environment::Environment;
use crate::error::Error;
use crate::host::{FileId, Host};
use crate::solve::Plan;

pub mod child;
mod cudnn;
mod listen;
pub mod protocol;
mod reference;

use listen::{End, Heard, listen};
use protocol::{Finding, Report, Request, Step};

/// Longer than a cold file server needs for a gigabyte; a proof takes a second.
pub const TIME_LIMIT: Duration = Duration::from_mins(2);
/// Which GPUs a program is to see.
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";
/// `CUDA_ERROR_NO_DEVICE`
const NO_DEVICE: i64 = 100;

/// What a proof showed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Verdict {
    /// There is nothing to prove it on.
    Skipped {
        why: Skip,
    },
    Passed {
        steps: Vec<Taken>,
        finding: Finding,
    },
    Failed {
        steps: Vec<Taken>,
        failure: Failure,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Skip {
    /// No kernel driver, or no device node to reach a GPU by.
    NoGpu,
    /// `CUDA_VISIBLE_DEVICES` hides them all.
    GpusHidden,
    /// The plan holds no library that could be tried.
    NothingToTry,
    /// `--verify=never`.
    NotAsked,
    /// The same set was proved on this machine, and nothing has changed since.
    ProvedBefore,
}

/// A step that the child took, and how long it took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Taken {
    pub step: Step,
    pub milliseconds: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "failure", rename_all = "kebab-case")]
pub enum Failure {
    /// A library did not load.
    Load {
        step: Step,
        name: String,
        message: String,
    },
    /// A call answered with an error code.
    Status {
        step: Step,
        call: String,
        code: i64,
        name: Option<String>,
        message: Option<String>,
    },
    /// The convolution came out wrong, by this much or with what is no number.
    WrongNumbers {
        largest_error: Option<f64>,
        at: usize,
    },
    /// Files were mapped that are not in the plan.
    Foreign {
        files: Vec<PathBuf>,
    },
    /// The child was killed by a signal.
    Signal {
        step: Option<Step>,
        signal: i32,
        last_words: Option<String>,
    },
    /// The child ended without a report; its code is not known where SIGCHLD is ignored.
    Exited {
        step: Option<Step>,
        code: Option<i32>,
        last_words: Option<String>,
    },
    TimedOut {
        step: Option<Step>,
        seconds: u64,
    },
}

/// Proves a plan in the environment that the program will get; `executable` is this binary.
pub fn run(
    host: &Host,
    executable: &Path,
    plan: &Plan,
    env: &Environment,
    limit: Duration,
) -> Result<Verdict, Error> {
    let request = request(plan);
    if request.is_empty() {
        return Ok(Verdict::Skipped { why: Skip::NothingToTry });
    }
    let heard = listen(start(executable, env, &request)?, limit);
    Ok(judge(host, plan, env, heard))
}

/// What the child is to try: the driver, the cuDNN of the plan, and every other family's main library.
fn request(plan: &Plan) -> Request {
    let mut request = Request { version: protocol::VERSION, ..Request::default() };
    for pick in &plan.picks {
        let copy = &pick.copy;
        let main =
            crate::catalog::catalog().family(&copy.family).and_then(|family| copy.member(&family.main));
        let Some(main) = main else { continue };
        match copy.family.as_str() {
            "driver" => request.driver = Some(main.soname.clone()),
            "cudnn" if request.cudnn.is_none() => request.cudnn = Some(main.soname.clone()),
            _ => request.load.push(main.soname.clone()),
        }
    }
    request
}

fn start(executable: &Path, env: &Environment, request: &Request) -> Result<Child, Error> {
    #[allow(clippy::disallowed_methods, reason = "this is where the verifying child is started")]
    let mut command = std::process::Command::new(executable);
    command
        .arg(protocol::CHILD)
        .env_clear()
        .envs(env.iter())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A group of its own, so that what it may start goes with it.
        .process_group(0);
    let mut child = command.spawn().map_err(|error| Error::Verifier { error })?;
    if let Some(mut input) = child.stdin.take() {
        // A child that is gone already has its verdict in how it ended.
        let _ = serde_json::to_writer(&mut input, request);
        let _ = input.flush();
    }
    Ok(child)
}

/// A report is what the child has to say, and how it ended after that is nobody's proof; without one, how
/// it ended is all there is.
fn judge(host: &Host, plan: &Plan, env: &Environment, heard: Heard) -> Verdict {
    let Heard { steps, current: step, report, last_words, end } = heard;
    let failure = match (report, end) {
        (Some(Report::Passed(finding)), _) => {
            let files = foreign_files(host, plan, &finding.mapped);
            if files.is_empty() {
                return Verdict::Passed { steps, finding };
            }
            Failure::Foreign { files }
        }
        (Some(Report::Failed(failure)), _) => match (env.get(VISIBLE), failure) {
            (Some(visible), Failure::Status { step: Step::CuInit, call, code: NO_DEVICE, name, .. }) => {
                if env.hides_gpus() {
                    return Verdict::Skipped { why: Skip::GpusHidden };
                }
                let message = Some(format!("{VISIBLE} is `{}`", visible.to_string_lossy()));
                Failure::Status { step: Step::CuInit, call, code: NO_DEVICE, name, message }
            }
            (_, failure) => failure,
        },
        (None, End::TimedOut(seconds)) => Failure::TimedOut { step, seconds },
        (None, End::Signal(signal)) => Failure::Signal { step, signal, last_words },
        (None, End::Code(code)) => Failure::Exited { step, code, last_words },
    };
    Verdict::Failed { steps, failure }
}

/// Of the NVIDIA files that the child had mapped, those that the plan does not hold.
fn foreign_files(host: &Host, plan: &Plan, mapped: &[PathBuf]) -> Vec<PathBuf> {
    let id = |path: &PathBuf| host.stat(path).ok().map(|stat| stat.id);
    let picked = |id: FileId| plan.picks.iter().any(|pick| pick.copy.has_file(id));
    mapped.iter().filter(|path| !id(path).is_some_and(picked)).cloned().collect()
}
