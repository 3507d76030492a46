//! The proof: a child of this binary, started in the environment of the program, loads the libraries as the program would. The
//! child has none of the program's own search paths, so it gets the plan's view where those lead to the plan. It uses every
//! visible GPU and compares its results with the CPU's. Everything that happens to the child is a verdict with a cause. This
//! room does not know how the plan was made.
//!
//! The levels `handle` and `conv` have two children: one loads the libraries that the other does not use while it
//! starts the driver. A level does not include all levels before it: only `load` and `deep` load every file, which
//! takes a second.
//!
//! Where the program's own search paths lead to the plan, the child gets a view of it, because it does not have these
//! paths. The status of a call alone is ambiguous, so the driver comes first, then printed messages, known facts about
//! the files, memory, and last the code (`profiles/statuses.toml`). A proof of `handle` or `conv` does not count for
//! `load`, since it does not load every file. If the process that proves is killed, the kernel passes the turn on.
//! Failures are kept for a minute, so that 64 ranks need not each find them.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::catalog::{Fault, catalog};
use crate::environment::{Environment, preload_elements};
use crate::error::Error;
use crate::host::Host;
use crate::inventory::Inventory;
use crate::modes::Level;
use crate::variables;

pub mod cause;
pub mod child;
mod diagnosis;
pub mod kept_proofs;
mod listen;
pub mod protocol;
pub mod subject;
mod verdict;

pub use cause::{Culprit, ProofCause, ProofEvidence};
pub use listen::{OnProgress, end_all};
pub use protocol::StepFailure;
pub use subject::{ProofSubject, TriedLibrary};
pub use verdict::{ChildFacts, OtherFile, Proof, Skip, StepRecord, Verdict};

use listen::{ChildOutput, End, children, listen, pid_of};
use protocol::{LibraryRequest, MappedFile, ProofRequest};

/// Longer than a cold file server needs for a gigabyte. A proof takes a second, and a deep one ten.
const TIME_LIMIT: Duration = Duration::from_mins(2);
/// The first deep proof compiles kernels.
const DEEP_LIMIT: Duration = Duration::from_mins(5);

/// The settings of a proof.
#[derive(Clone, Copy, Debug)]
pub struct ProofSettings {
    pub level: Level,
    pub seed: u32,
    pub limit: Duration,
}

/// The time limit of a proof.
pub fn limit(level: Level) -> Duration {
    if level == Level::Deep {
        DEEP_LIMIT
    } else {
        TIME_LIMIT
    }
}

/// Proves a subject in the environment of the program. `executable` is this binary. Fails only where a child cannot be
/// started.
pub fn run(
    host: &Host,
    executable: &Path,
    subject: &ProofSubject,
    env: &Environment,
    inventory: &Inventory,
    settings: ProofSettings,
    progress: OnProgress<'_>,
) -> Result<Verdict, Error> {
    if subject.libraries.is_empty() {
        return Ok(Verdict::Skipped {
            why: Skip::NothingToTry,
        });
    }
    let start = Instant::now();
    let output = match attempt(host, executable, subject, env, settings, progress) {
        Ok(output) => output,
        Err(error) => {
            // The first child, if no second one could be started.
            end_all();
            return Err(Error::io("cannot start the proof")(error));
        }
    };
    let milliseconds = start.elapsed().as_secs_f64() * 1e3;
    let failure = observed_failure(subject, env, &output);
    let proof = Proof {
        level: settings.level,
        seed: settings.seed,
        milliseconds,
        steps: output.steps,
        finding: output.facts,
    };
    let Some(failure) = failure else {
        let is_busy = proof.finding.gpus.iter().any(|gpu| gpu.busy.is_some());
        return Ok(if is_busy {
            Verdict::Busy { proof }
        } else {
            Verdict::Passed { proof }
        });
    };
    let scene = diagnosis::Scene {
        host,
        subject,
        env,
        inventory,
        facts: &proof.finding,
        stderr_tail: &output.stderr_tail,
    };
    let cause = diagnosis::diagnose(&failure, &scene);
    // A person hides the GPUs from the program.
    if cause.fault == Fault::GpusHidden && env.hides_gpus() {
        return Ok(Verdict::Skipped {
            why: Skip::GpusHidden,
        });
    }
    Ok(Verdict::Failed {
        proof,
        failure,
        cause,
    })
}

/// Starts the children and listens to them. When it returns, they and the processes of their groups have ended.
fn attempt(
    host: &Host,
    executable: &Path,
    subject: &ProofSubject,
    env: &Environment,
    settings: ProofSettings,
    progress: OnProgress<'_>,
) -> io::Result<ChildOutput> {
    let with_files = matches!(settings.level, Level::Load | Level::Deep);
    // In the order of the plan, the driver first.
    let mut libraries = Vec::new();
    for library in &subject.libraries {
        libraries.push(library_request(library, with_files));
    }
    libraries.sort_by_key(|library| library.family != "driver");
    let (used, unused): (Vec<_>, Vec<_>) = libraries
        .into_iter()
        .partition(|library| with_files || ["driver", "cudnn"].contains(&library.family.as_str()));
    let child = start(executable, env, settings.level, settings.seed, used)?;
    host.trip("proof");
    if unused.is_empty() {
        return listen(host, child, settings.limit, progress);
    }
    // A second child, since to load them takes as long as the driver needs to wake up.
    let second = start(executable, env, Level::Load, settings.seed, unused)?;
    std::thread::scope(|scope| {
        let second = std::thread::Builder::new().spawn_scoped(scope, move || {
            listen(host, second, settings.limit, &mut |_, _| {})
        })?;
        let output = listen(host, child, settings.limit, progress)?;
        match second.join() {
            Ok(second) => Ok(output.merge(second?)),
            Err(_) => Ok(output),
        }
    })
}

fn library_request(library: &TriedLibrary, with_files: bool) -> LibraryRequest {
    let mut files = Vec::new();
    if with_files {
        for file in &library.installation.files {
            if file.soname != library.soname {
                files.push(file.soname.clone());
            }
        }
        files.dedup();
        // A missing file is asked for too, and fails to load.
        let suffix = library
            .soname
            .split_once(".so")
            .map_or("", |(_, suffix)| suffix);
        for stem in library.missing() {
            files.push(format!("{stem}.so{suffix}"));
        }
    }
    let directory = library.found_in.as_deref().and_then(Path::to_str);
    LibraryRequest {
        family: library.installation.family.clone(),
        soname: library.soname.clone(),
        files,
        directory: directory.map(str::to_owned),
    }
}

fn start(
    executable: &Path,
    env: &Environment,
    level: Level,
    seed: u32,
    libraries: Vec<LibraryRequest>,
) -> io::Result<Child> {
    #[allow(
        clippy::disallowed_methods,
        reason = "this is where the verifying child is started"
    )]
    let mut command = std::process::Command::new(executable);
    command
        // A list of processes shows this instead of /proc/self/exe.
        .arg0("cudarun")
        .arg(protocol::CHILD)
        .env_clear()
        .envs(env.iter())
        .env(variables::PROOF, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // In its own group, so that processes that it starts end with it.
        .process_group(0);
    let mut child = command.spawn()?;
    children().push(pid_of(&child));
    if let Some(mut input) = child.stdin.take() {
        let request = ProofRequest {
            level,
            seed,
            parent: std::process::id(),
            libraries,
        };
        // If the child has ended already, its exit status gives the verdict.
        let _ = serde_json::to_writer(&mut input, &request);
        let _ = input.flush();
    }
    Ok(child)
}

/// The child's report decides. Without a report, the way in which the child ended does.
fn observed_failure(
    subject: &ProofSubject,
    env: &Environment,
    output: &ChildOutput,
) -> Option<StepFailure> {
    let at = output.current.clone();
    match (&output.report, output.end) {
        (Some(Ok(())), _) => {
            let files = foreign_files(subject, env, &output.facts.mapped);
            (!files.is_empty()).then_some(StepFailure::Foreign { files })
        }
        (Some(Err(failure)), _) => Some(failure.clone()),
        (None, End::TimedOut(seconds)) => Some(StepFailure::TimedOut { at, seconds }),
        (None, End::Signal(signal)) => Some(StepFailure::Signal { at, signal }),
        (None, End::Code(code)) => Some(StepFailure::Exited { at, code }),
    }
}

/// With a plan, the mapped NVIDIA files outside it, except for families that only `LD_PRELOAD` loads. In an unchanged
/// environment, the files of another version than the rest of their library.
fn foreign_files(subject: &ProofSubject, env: &Environment, mapped: &[MappedFile]) -> Vec<String> {
    let mut only_preloaded = Vec::new();
    if let Some(preload) = env.get(variables::PRELOAD) {
        for element in preload_elements(preload) {
            let family = family_name(Path::new(&element));
            only_preloaded.extend(family.filter(|family| subject.of_family(family).is_none()));
        }
    }
    let mut files = Vec::new();
    for file in mapped {
        let path = Path::new(&file.path);
        let is_foreign = match file.id {
            None => subject.is_planned,
            Some(_) if !subject.is_planned => subject.with_foreign(&file.path).is_some(),
            Some(id) => {
                !subject.has_file(id)
                    && !family_name(path).is_some_and(|family| only_preloaded.contains(&family))
            }
        };
        if is_foreign {
            files.push(file.path.clone());
        }
    }
    files
}

fn family_name(file: &Path) -> Option<&'static str> {
    let (family, _) = catalog().family_of_file(file)?;
    Some(&family.name)
}
