//! The proof: a child of this same binary, started in exactly the environment that the program will get, loads the
//! libraries as the program would, takes every visible GPU into use and compares what it computes with the CPU's.
//! Whatever happens to the child is a verdict with a cause. Must not know how the plan came about.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::cli::Level;
use crate::environment::Environment;
use crate::error::Error;
use crate::host::{FileId, Host};
use crate::version::DriverVersion;

pub mod cause;
pub mod child;
mod diagnosis;
mod interrupt;
pub mod kept;
mod listen;
mod offspring;
pub mod protocol;
pub mod subject;

pub use cause::{Cause, Culprit, Evidence, Kind};
pub use subject::{Library, Subject};

use interrupt::Interrupts;
use listen::{End, Heard, listen};
use offspring::Offspring;
use protocol::{Asked, Came, Found, GpuFound, MappedFile, Place, Request};

/// Longer than a cold file server needs for a gigabyte; a proof takes a second, and a deep one ten.
const TIME_LIMIT: Duration = Duration::from_mins(2);
/// All that libraries can do takes longer the first time: they compile.
const DEEP_LIMIT: Duration = Duration::from_mins(5);

/// What a proof showed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
#[allow(clippy::large_enum_variant, reason = "there is one of it at a time")]
pub enum Verdict {
    /// There is nothing to prove it on.
    Skipped {
        why: Skip,
    },
    Passed {
        proof: Proof,
    },
    /// Nothing failed, but a GPU could not be tried: another process has it, or its memory.
    Busy {
        proof: Proof,
    },
    Failed {
        proof: Proof,
        failure: Failure,
        cause: Cause,
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
    /// No directory can be used for the view that a proof needs.
    NoPlace,
    /// `--verify=never`.
    NotAsked,
    /// The same set was proved on this machine, and nothing has changed since.
    ProvedBefore,
}

/// What was done and found, whatever came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    pub level: Level,
    /// What the random numbers were made from: the same seed, the same numbers.
    pub seed: u32,
    /// From the start of the child to its end.
    pub milliseconds: f64,
    pub steps: Vec<Taken>,
    pub finding: Finding,
}

/// A step that the child took, how long it took, and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Taken {
    #[serde(flatten)]
    pub place: Place,
    pub milliseconds: f64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub came: Option<Came>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// `cuDriverGetVersion`: 13000 is CUDA 13.0.
    pub driver_cuda: Option<i32>,
    pub gpus: Vec<GpuFound>,
    /// `cudnnGetVersion` by SONAME: 91900 is 9.19.0.
    pub cudnn: BTreeMap<String, u64>,
    /// Every NVIDIA file that was mapped at the end.
    pub mapped: Vec<MappedFile>,
    /// What else was mapped, and how it looked: a proof holds for these.
    #[serde(default)]
    pub beside: Vec<Beside>,
}

/// A file that is not NVIDIA's, and how it looked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Beside {
    path: Vec<u8>,
    id: FileId,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Beside {
    /// None of a file that is gone.
    pub fn look(host: &Host, path: &Path) -> Option<Beside> {
        let stat = host.stat(path).ok()?;
        let (size, modified, changed) = (stat.size, stat.modified, stat.changed);
        Some(Beside { path: path.as_os_str().as_bytes().to_vec(), id: stat.id, size, modified, changed })
    }

    pub fn path(&self) -> PathBuf {
        OsStr::from_bytes(&self.path).into()
    }
}

/// What happened, as it was observed. What it means is the [`Cause`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "failure", rename_all = "kebab-case")]
pub enum Failure {
    /// A library did not load.
    Load {
        at: Place,
        name: String,
        message: String,
    },
    /// A call answered with an error code.
    Status {
        at: Place,
        call: String,
        code: i64,
        name: Option<String>,
        message: Option<String>,
    },
    /// A number came out wrong, by more than rounding explains, or is none.
    WrongNumbers {
        at: Place,
        largest_error: Option<f64>,
        element: usize,
        allowed: f64,
    },
    /// Files were mapped that are not in the plan.
    Foreign {
        files: Vec<String>,
    },
    /// The child was killed by a signal.
    Signal {
        at: Option<Place>,
        signal: i32,
    },
    /// The child ended without a report; its code is not known where SIGCHLD is ignored.
    Exited {
        at: Option<Place>,
        code: Option<i32>,
    },
    TimedOut {
        at: Option<Place>,
        seconds: u64,
    },
}

/// How a proof is made.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    pub level: Level,
    pub seed: u32,
    pub limit: Duration,
}

impl Ask {
    pub fn new(level: Level, seed: u32) -> Ask {
        Ask { level, seed, limit: limit(level) }
    }
}

/// How long a proof may take.
pub fn limit(level: Level) -> Duration {
    if level == Level::Deep { DEEP_LIMIT } else { TIME_LIMIT }
}

/// What is known of the machine besides.
#[derive(Clone, Copy, Debug, Default)]
pub struct Machine {
    /// The version of the kernel's driver.
    pub driver: Option<DriverVersion>,
    /// How many device nodes there are to reach GPUs by.
    pub devices: usize,
}

/// Is told again and again which step is being taken, and how long the proof has taken so far.
pub type Progress<'p> = &'p mut dyn FnMut(&Place, Duration);

/// Proves a subject in the environment that the program will get; `executable` is this binary.
pub fn run(
    host: &Host,
    executable: &Path,
    subject: &Subject,
    env: &Environment,
    ask: Ask,
    machine: Machine,
    progress: Progress<'_>,
) -> Result<Verdict, Error> {
    if subject.libraries.is_empty() {
        return Ok(Verdict::Skipped { why: Skip::NothingToTry });
    }
    let (request, rest) = requests(subject, ask);
    let mut interrupts = Interrupts::hold();
    loop {
        let began = Instant::now();
        let heard = attempt(host, executable, env, (&request, rest.as_ref()), ask.limit, progress);
        if interrupts.let_go() {
            // The signal has had no effect on this process, and must have none on the proof: it is made again, and this
            // time nothing is held.
            continue;
        }
        let heard = heard.map_err(|error| Error::Verifier { error })?;
        let milliseconds = began.elapsed().as_secs_f64() * 1e3;
        return Ok(judge(host, subject, env, ask, machine, heard, milliseconds));
    }
}

/// Starts the children and listens to them. When it returns, nothing that they have started is left.
fn attempt(
    host: &Host,
    executable: &Path,
    env: &Environment,
    (request, rest): (&Request, Option<&Request>),
    limit: Duration,
    progress: Progress<'_>,
) -> io::Result<Heard> {
    let offspring = Offspring::expect(host);
    let mut hear = || -> io::Result<Heard> {
        let child = start(executable, env, request, &offspring)?;
        let Some(rest) = rest else { return listen(host, child, limit, progress) };
        let rest = start(executable, env, rest, &offspring)?;
        std::thread::scope(|scope| {
            let listen_to_rest = move || listen(host, rest, limit, &mut |_, _| {});
            let rest = std::thread::Builder::new().spawn_scoped(scope, listen_to_rest)?;
            let heard = listen(host, child, limit, progress)?;
            match rest.join() {
                Ok(rest) => Ok(heard.and(rest?)),
                Err(_) => Ok(heard),
            }
        })
    };
    let heard = hear();
    offspring.end();
    heard
}

/// What the child is to try, in the order of the plan, the driver first. What it only loads and does not use, another one
/// loads meanwhile: that takes as long as the driver needs to wake up.
fn requests(subject: &Subject, ask: Ask) -> (Request, Option<Request>) {
    let with_files = matches!(ask.level, Level::Load | Level::Deep);
    let asked = subject.libraries.iter().map(|library| {
        let others = library.files.iter().filter(|file| with_files && file.soname != library.soname);
        let mut files: Vec<String> = others.map(|file| file.soname.clone()).collect();
        files.dedup();
        // What must be there and is not does not load either.
        let suffix = library.soname.split_once(".so").map_or("", |(_, suffix)| suffix);
        let missing = library.missing.iter().filter(|_| with_files);
        files.extend(missing.map(|stem| format!("{stem}.so{suffix}")));
        let directory = library.found_in.as_ref().and_then(|place| place.to_str().map(str::to_owned));
        Asked { family: library.family.clone(), soname: library.soname.clone(), files, directory }
    });
    let mut libraries: Vec<Asked> = asked.collect();
    libraries.sort_by_key(|asked| asked.family != "driver");
    let is_used = |asked: &Asked| with_files || ["driver", "cudnn"].contains(&asked.family.as_str());
    let (used, rest): (Vec<Asked>, Vec<Asked>) = libraries.into_iter().partition(is_used);
    let request = |level, libraries| Request {
        version: protocol::VERSION,
        level,
        seed: ask.seed,
        parent: std::process::id(),
        libraries,
    };
    let rest = if rest.is_empty() { None } else { Some(request(Level::Load, rest)) };
    (request(ask.level, used), rest)
}

fn start(
    executable: &Path,
    env: &Environment,
    request: &Request,
    offspring: &Offspring,
) -> io::Result<Child> {
    #[allow(clippy::disallowed_methods, reason = "this is where the verifying child is started")]
    let mut command = std::process::Command::new(executable);
    command
        .arg(protocol::CHILD)
        .env_clear()
        .envs(env.iter())
        .env(protocol::MARK, offspring.mark())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A group of its own, so that what it may start goes with it.
        .process_group(0);
    let mut child = command.spawn()?;
    if let Some(mut input) = child.stdin.take() {
        // A child that is gone already has its verdict in how it ended.
        let _ = serde_json::to_writer(&mut input, request);
        let _ = input.flush();
    }
    Ok(child)
}

/// A report is what the child has to say, and how it ended after that is nobody's proof; without one, how
/// it ended is all there is.
fn judge(
    host: &Host,
    subject: &Subject,
    env: &Environment,
    ask: Ask,
    machine: Machine,
    heard: Heard,
    milliseconds: f64,
) -> Verdict {
    let Heard { steps, current: at, finding, report, last_words, end } = heard;
    let failure = match (report, end) {
        (Some(Ok(())), _) => {
            let files = foreign_files(subject, &finding.mapped);
            if files.is_empty() { None } else { Some(Failure::Foreign { files }) }
        }
        (Some(Err(failure)), _) => Some(failure),
        (None, End::TimedOut(seconds)) => Some(Failure::TimedOut { at, seconds }),
        (None, End::Signal(signal)) => Some(Failure::Signal { at, signal }),
        (None, End::Code(code)) => Some(Failure::Exited { at, code }),
    };
    let is_busy = finding.gpus.iter().any(|gpu| gpu.busy.is_some());
    let proof = Proof { level: ask.level, seed: ask.seed, milliseconds, steps, finding };
    let Some(failure) = failure else {
        return if is_busy { Verdict::Busy { proof } } else { Verdict::Passed { proof } };
    };
    let scene =
        diagnosis::Scene { host, subject, env, machine, finding: &proof.finding, last_words: &last_words };
    let cause = diagnosis::of(&failure, &scene);
    // A person has said that the program shall have no GPU.
    if cause.kind == Kind::GpusHidden && env.hides_gpus() {
        return Verdict::Skipped { why: Skip::GpusHidden };
    }
    Verdict::Failed { proof, failure, cause }
}

/// The NVIDIA files that the child had mapped and that the plan does not hold; for an environment as it is, those that are
/// of another version than the rest of their library.
fn foreign_files(subject: &Subject, mapped: &[MappedFile]) -> Vec<String> {
    let is_foreign = |file: &&MappedFile| match file.id {
        Some(id) if subject.is_planned => !subject.has_file(id),
        Some(_) => subject.with_foreign(&file.path).is_some(),
        None => subject.is_planned,
    };
    mapped.iter().filter(is_foreign).map(|file| file.path.clone()).collect()
}

impl Finding {
    /// Takes up what another child has found.
    fn join(&mut self, other: Finding) {
        self.driver_cuda = self.driver_cuda.or(other.driver_cuda);
        self.gpus.extend(other.gpus);
        self.cudnn.extend(other.cudnn);
        self.mapped.extend(other.mapped);
        self.mapped.sort_by(|a, b| a.path.cmp(&b.path));
        self.mapped.dedup();
        self.beside.extend(other.beside);
        self.beside.sort();
        self.beside.dedup();
    }

    /// Takes up what the child has found.
    fn take(&mut self, host: &Host, found: Found) {
        let mut of = |gpu: u32, change: &dyn Fn(&mut GpuFound)| {
            self.gpus.iter_mut().filter(|known| known.gpu == gpu).for_each(change);
        };
        match found {
            Found::DriverCuda(cuda) => self.driver_cuda = Some(cuda),
            Found::Gpu(gpu) => self.gpus.push(gpu),
            Found::Memory { gpu, free, total } => of(gpu, &|known| {
                known.free = Some(free);
                known.memory = Some(total);
            }),
            Found::Busy { gpu, why } => of(gpu, &|known| known.busy = Some(why.clone())),
            Found::Cudnn { soname, version } => {
                self.cudnn.insert(soname, version);
            }
            Found::Mapped(files) => self.mapped = files,
            Found::Beside(paths) => {
                let look = |path: &Vec<u8>| Beside::look(host, Path::new(OsStr::from_bytes(path)));
                self.beside = paths.iter().filter_map(look).collect();
            }
        }
    }
}

impl Failure {
    /// At which step, where that is known.
    pub fn at(&self) -> Option<&Place> {
        match self {
            Failure::Load { at, .. } | Failure::Status { at, .. } | Failure::WrongNumbers { at, .. } => {
                Some(at)
            }
            Failure::Signal { at, .. } | Failure::Exited { at, .. } | Failure::TimedOut { at, .. } => {
                at.as_ref()
            }
            Failure::Foreign { .. } => None,
        }
    }
}
