//! The proof: a child of this binary, started in the environment of the program, loads the libraries as the program would. The
//! child has none of the program's own search paths, so it gets the plan's view where those lead to the plan. It uses every
//! visible GPU and compares its results with the CPU's. Everything that happens to the child is a verdict with a cause. This
//! room does not know how the plan was made.
//!
//! The levels `handle` and `conv` have two children: one loads the libraries that the other does not use while it
//! starts the driver. A level does not include all levels before it: only `load` and `deep` load every file, which
//! takes a second.

use std::collections::BTreeSet;
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
pub struct Ask {
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
    ask: Ask,
    progress: OnProgress<'_>,
) -> Result<Verdict, Error> {
    if subject.libraries.is_empty() {
        return Ok(Verdict::Skipped {
            why: Skip::NothingToTry,
        });
    }
    let began = Instant::now();
    let output = attempt(
        host,
        executable,
        env,
        requests(subject, ask),
        ask.limit,
        progress,
    );
    let ChildOutput {
        steps,
        current: at,
        finding,
        report,
        stderr_tail,
        end,
    } = output.map_err(|error| {
        // The first child, if no second one could be started.
        end_all();
        Error::io("cannot start the proof")(error)
    })?;
    let milliseconds = began.elapsed().as_secs_f64() * 1e3;
    // The child's report decides. Without a report, the way in which the child ended does.
    let failure = match (report, end) {
        (Some(Ok(())), _) => {
            let files = foreign_files(subject, env, &finding.mapped);
            if files.is_empty() {
                None
            } else {
                Some(StepFailure::Foreign { files })
            }
        }
        (Some(Err(failure)), _) => Some(failure),
        (None, End::TimedOut(seconds)) => Some(StepFailure::TimedOut { at, seconds }),
        (None, End::Signal(signal)) => Some(StepFailure::Signal { at, signal }),
        (None, End::Code(code)) => Some(StepFailure::Exited { at, code }),
    };
    let is_busy = finding.gpus.iter().any(|gpu| gpu.busy.is_some());
    let proof = Proof {
        level: ask.level,
        seed: ask.seed,
        milliseconds,
        steps,
        finding,
    };
    let Some(failure) = failure else {
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
        finding: &proof.finding,
        stderr_tail: &stderr_tail,
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
    env: &Environment,
    (request, rest): (ProofRequest, Option<ProofRequest>),
    limit: Duration,
    progress: OnProgress<'_>,
) -> io::Result<ChildOutput> {
    let child = start(executable, env, &request)?;
    host.trip("proof");
    let Some(rest) = rest else {
        return listen(host, child, limit, progress);
    };
    let rest = start(executable, env, &rest)?;
    std::thread::scope(|scope| {
        let listen_to_rest = move || listen(host, rest, limit, &mut |_, _| {});
        let rest = std::thread::Builder::new().spawn_scoped(scope, listen_to_rest)?;
        let output = listen(host, child, limit, progress)?;
        match rest.join() {
            Ok(rest) => Ok(output.merge(rest?)),
            Err(_) => Ok(output),
        }
    })
}

/// The requests in the order of the plan, the driver first. A second child loads the libraries that are not used, since
/// that takes as long as the driver needs to wake up.
fn requests(subject: &ProofSubject, ask: Ask) -> (ProofRequest, Option<ProofRequest>) {
    let with_files = matches!(ask.level, Level::Load | Level::Deep);
    let mut libraries = Vec::new();
    for library in &subject.libraries {
        let mut files = Vec::new();
        if with_files {
            let others = library
                .installation
                .files
                .iter()
                .filter(|file| file.soname != library.soname);
            files.extend(others.map(|file| file.soname.clone()));
            files.dedup();
            // A missing file is asked for too, and fails to load.
            let suffix = library
                .soname
                .split_once(".so")
                .map_or("", |(_, suffix)| suffix);
            files.extend(library.missing().map(|stem| format!("{stem}.so{suffix}")));
        }
        let directory = library
            .found_in
            .as_ref()
            .and_then(|place| place.to_str().map(str::to_owned));
        libraries.push(LibraryRequest {
            family: library.installation.family.clone(),
            soname: library.soname.clone(),
            files,
            directory,
        });
    }
    libraries.sort_by_key(|library| library.family != "driver");
    let (used, rest): (Vec<_>, Vec<_>) = libraries
        .into_iter()
        .partition(|library| with_files || ["driver", "cudnn"].contains(&library.family.as_str()));
    let request = |level, libraries| ProofRequest {
        level,
        seed: ask.seed,
        parent: std::process::id(),
        libraries,
    };
    let first = request(ask.level, used);
    (
        first,
        (!rest.is_empty()).then(|| request(Level::Load, rest)),
    )
}

fn start(executable: &Path, env: &Environment, request: &ProofRequest) -> io::Result<Child> {
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
        // If the child has ended already, its exit status gives the verdict.
        let _ = serde_json::to_writer(&mut input, request);
        let _ = input.flush();
    }
    Ok(child)
}

/// With a plan, the mapped NVIDIA files outside it, except for families that only `LD_PRELOAD` loads. In an unchanged
/// environment, the files of another version than the rest of their library.
fn foreign_files(subject: &ProofSubject, env: &Environment, mapped: &[MappedFile]) -> Vec<String> {
    let family = |path: &Path| {
        catalog()
            .family_of_file(path)
            .map(|(family, _)| family.name.as_str())
    };
    let preload = env.get(variables::PRELOAD).map(preload_elements);
    let preload = preload.unwrap_or_default();
    let preloaded: BTreeSet<&str> = preload
        .iter()
        .filter_map(|element| family(Path::new(element)))
        .collect();
    let is_preloaded = |path: &str| {
        let family = family(Path::new(path)).filter(|family| preloaded.contains(family));
        family.is_some_and(|family| subject.of_family(family).is_none())
    };
    let is_foreign = |file: &&MappedFile| match file.id {
        Some(id) if subject.is_planned => !subject.has_file(id) && !is_preloaded(&file.path),
        Some(_) => subject.with_foreign(&file.path).is_some(),
        None => subject.is_planned,
    };
    mapped
        .iter()
        .filter(is_foreign)
        .map(|file| file.path.clone())
        .collect()
}
