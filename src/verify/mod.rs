//! The proof: a child of this same binary, started in exactly the environment that the program will get,
//! loads the libraries as the program would, creates a cuDNN handle and compares a convolution with the
//! CPU's. Whatever happens to the child is a verdict. Must not know how the plan came about.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::environment::Environment;
use crate::error::Error;
use crate::host::{FileId, Host};
use crate::solve::Plan;

pub mod child;
mod cudnn;
pub mod protocol;
mod reference;

use protocol::{Finding, Line, Request, Step};

/// Longer than a cold file server needs for a gigabyte; a proof takes a second.
pub const TIME_LIMIT: Duration = Duration::from_mins(2);
/// How long nothing is heard before it is asked whether the child still lives.
const GLANCE: Duration = Duration::from_millis(1);
/// How long lines that were said before the end may take to arrive.
const LINGER: Duration = Duration::from_millis(50);
/// What the child may say on standard error before it is no longer kept.
const ERROR_LIMIT: usize = 16 << 10;
/// And on standard output.
const OUTPUT_LIMIT: u64 = 1 << 20;

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
    /// The child ended without a report.
    Exited {
        step: Option<Step>,
        code: i32,
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

/// What was heard of the child, and how it ended.
struct Heard {
    steps: Vec<Taken>,
    current: Option<Step>,
    report: Option<protocol::Report>,
    last_words: Option<String>,
    end: End,
}

enum End {
    Code(i32),
    Signal(i32),
    TimedOut(u64),
}

fn listen(mut child: Child, limit: Duration) -> Heard {
    let (lines, received) = mpsc::channel();
    if let Some(output) = child.stdout.take() {
        std::thread::spawn(move || {
            for line in BufReader::new(output.take(OUTPUT_LIMIT)).lines() {
                let Ok(line) = line else { break };
                if lines.send(line).is_err() {
                    break;
                }
            }
        });
    }
    let errors = child.stderr.take().map(|stderr| std::thread::spawn(move || last_words(stderr)));
    let mut heard =
        Heard { steps: Vec::new(), current: None, report: None, last_words: None, end: End::Code(0) };
    let started = Instant::now();
    let mut entered = started;
    // What the child has started may hold its output open after it has ended: both are watched.
    let mut has_ended = false;
    let timed_out = loop {
        match received.recv_timeout(if has_ended { LINGER } else { GLANCE }) {
            Ok(line) => {
                let parsed = protocol::parse(&line);
                if parsed.is_some() {
                    heard.finish_step(entered);
                    entered = Instant::now();
                }
                match parsed {
                    Some(Line::Entering(step)) => heard.current = Some(step),
                    Some(Line::Report(report)) => heard.report = Some(report),
                    None => {}
                }
            }
            Err(pause) => {
                if has_ended {
                    break false;
                }
                has_ended = ended(&child);
                if pause == mpsc::RecvTimeoutError::Disconnected && !has_ended {
                    std::thread::sleep(GLANCE);
                }
            }
        }
        if started.elapsed() >= limit {
            break !has_ended;
        }
    };
    // Whatever it started goes with it. The child is not waited for before: its number stays its own.
    let _ = killpg(pid_of(&child), Signal::SIGKILL);
    heard.end = match child.wait() {
        _ if timed_out => End::TimedOut(limit.as_secs()),
        Ok(status) => status.signal().map_or(End::Code(status.code().unwrap_or(0)), End::Signal),
        Err(_) => End::Code(0),
    };
    heard.last_words = errors.and_then(|errors| errors.join().ok()).flatten();
    heard
}

/// Whether the child has ended; it is left to be waited for.
fn ended(child: &Child) -> bool {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    !matches!(waitid(Id::Pid(pid_of(child)), flags), Ok(WaitStatus::StillAlive) | Err(Errno::EINTR))
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX))
}

impl Heard {
    fn finish_step(&mut self, entered: Instant) {
        if let Some(step) = self.current.take() {
            self.steps.push(Taken { step, milliseconds: entered.elapsed().as_secs_f64() * 1e3 });
        }
    }
}

/// The last line that is not empty, of as much as is kept.
fn last_words(stderr: impl Read) -> Option<String> {
    let mut kept: Vec<u8> = Vec::new();
    let mut reader = BufReader::new(stderr);
    let mut buffer = [0; 4096];
    while let Ok(count) = reader.read(&mut buffer) {
        if count == 0 {
            break;
        }
        kept.extend_from_slice(&buffer[..count]);
        if kept.len() > 2 * ERROR_LIMIT {
            kept.drain(..kept.len() - ERROR_LIMIT);
        }
    }
    let text = String::from_utf8_lossy(&kept);
    text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}

fn judge(host: &Host, plan: &Plan, env: &Environment, heard: Heard) -> Verdict {
    let Heard { steps, current, report, last_words, end } = heard;
    let failed = |steps, failure| Verdict::Failed { steps, failure };
    match (report, end) {
        (_, End::TimedOut(seconds)) => failed(steps, Failure::TimedOut { step: current, seconds }),
        (_, End::Signal(signal)) => failed(steps, Failure::Signal { step: current, signal, last_words }),
        (Some(protocol::Report::Failed(failure)), _) if hides_gpus(&failure, env) => {
            Verdict::Skipped { why: Skip::GpusHidden }
        }
        (Some(protocol::Report::Failed(failure)), _) => failed(steps, failure),
        (Some(protocol::Report::Passed(finding)), End::Code(0)) => {
            let foreign = foreign_files(host, plan, &finding.mapped);
            if foreign.is_empty() {
                Verdict::Passed { steps, finding }
            } else {
                failed(steps, Failure::Foreign { files: foreign })
            }
        }
        (_, End::Code(code)) => failed(steps, Failure::Exited { step: current, code, last_words }),
    }
}

/// `cuInit` finds no device, and a variable says that it should not.
fn hides_gpus(failure: &Failure, env: &Environment) -> bool {
    matches!(failure, Failure::Status { step: Step::CuInit, code: 100, .. })
        && env.get("CUDA_VISIBLE_DEVICES").is_some()
}

/// Of the NVIDIA files that the child had mapped, those that the plan does not hold.
fn foreign_files(host: &Host, plan: &Plan, mapped: &[PathBuf]) -> Vec<PathBuf> {
    let id = |path: &PathBuf| host.stat(path).ok().map(|stat| stat.id);
    let picked = |id: FileId| plan.picks.iter().any(|pick| pick.copy.has_file(id));
    mapped.iter().filter(|path| !id(path).is_some_and(picked)).cloned().collect()
}
