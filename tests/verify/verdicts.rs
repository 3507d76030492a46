//! The proof, with a driver and a cuDNN built here whose behaviour a variable sets: whatever happens to the child is a
//! verdict with a cause, within the time limit, and never a crash of cudarun.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use cudarun::catalog::{Fault, errors, statuses};
use cudarun::diagnose::LogReader;
use cudarun::environment::Environment;
use cudarun::host::Host;
use cudarun::inventory::{self, Inventory, KernelDriver, Problem, Scope};
use cudarun::modes::Level;
use cudarun::report::{Style, failed_start, possible_cause};
use cudarun::verify::protocol::{Busy, ChildStep, StepResult};
use cudarun::verify::{
    self, ProofCause, ProofEvidence, ProofSettings, ProofSubject, Skip, StepFailure, TriedLibrary,
    Verdict,
};
use nix::sys::signal::Signal;

use crate::support::{CUDARUN, Workshop, stand_in};

struct World {
    workshop: Workshop,
}

/// Sets with a library that lacks a function: directory, library, function.
const LACKING: [(&str, &str, &str); 3] = [
    ("no-synchronize", "driver", "cuCtxSynchronize"),
    ("no-init", "driver", "cuInit"),
    ("no-create", "cudnn", "cudnnCreate"),
];

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let workshop = Workshop::new();
    for (directory, major) in [("set", 9), ("set8", 8)] {
        stand_in::driver(&workshop, directory);
        stand_in::cudnn(&workshop, directory, major);
        workshop.library(
            &format!("{directory}/libcudart.so.13"),
            "libcudart.so.13",
            "int nothing;",
            &[],
        );
    }
    for (directory, from, function) in LACKING {
        if from == "driver" {
            stand_in::lacking_driver(&workshop, directory, function);
            stand_in::cudnn(&workshop, directory, 9);
        } else {
            stand_in::driver(&workshop, directory);
            stand_in::lacking_cudnn(&workshop, directory, function);
        }
        workshop.library(
            &format!("{directory}/libcudart.so.13"),
            "libcudart.so.13",
            "int nothing;",
            &[],
        );
    }
    stand_in::driver(&workshop, "both");
    stand_in::cudnn(&workshop, "both", 8);
    stand_in::cudnn(&workshop, "both", 9);
    stand_in::cublas(&workshop, "both", 8);
    stand_in::cublas(&workshop, "both", 12);
    stand_in::cublas(&workshop, "both", 13);
    workshop.library(
        "both/libcudart.so.13",
        "libcudart.so.13",
        "int nothing;",
        &[],
    );
    workshop.library(
        "other/libcublas.so.13",
        "libcublas.so.13",
        "int nothing;",
        &[],
    );
    workshop.library("other/libcudnn.so.9", "libcudnn.so.9", "int nothing;", &[]);
    World { workshop }
});

/// How the next proof is made.
struct Trial<'w> {
    world: &'w World,
    directory: &'static str,
    mode: String,
    level: Level,
    limit: Duration,
    variables: Vec<(&'static str, String)>,
}

impl World {
    fn path(&self, below: &str) -> PathBuf {
        self.workshop.path(below).canonicalize().unwrap()
    }

    fn trial(&self, mode: &str) -> Trial<'_> {
        Trial {
            world: self,
            directory: "set",
            mode: mode.to_owned(),
            level: Level::Conv,
            limit: Duration::from_secs(20),
            variables: Vec::new(),
        }
    }

    /// The libraries in a directory, as the inventory reads them.
    fn subject(&self, directory: &str) -> ProofSubject {
        let host = Host::here();
        let count = if directory == "both" { 7 } else { 3 };
        let directory = self.path(directory);
        let scope = Scope {
            machine: 62,
            own_directories: vec![directory.clone()],
            ..Scope::default()
        };
        let inventory = inventory::scan(&host, &scope, &mut inventory::ScanCache::default());
        let mine = inventory
            .installations
            .iter()
            .filter(|installation| installation.directory == directory);
        let libraries: Vec<TriedLibrary> = mine.filter_map(TriedLibrary::of).collect();
        assert_eq!(libraries.len(), count);
        let mut subject = ProofSubject {
            libraries,
            is_planned: true,
        };
        for library in &mut subject.libraries {
            // The stand-in is whole as it is.
            let is_missing = |problem: &Problem| matches!(problem, Problem::Missing { .. });
            library
                .installation
                .problems
                .retain(|problem| !is_missing(problem));
        }
        subject
    }
}

impl<'w> Trial<'w> {
    fn of(mut self, directory: &'static str) -> Trial<'w> {
        self.directory = directory;
        self
    }

    fn at(mut self, level: Level) -> Trial<'w> {
        self.level = level;
        self
    }

    fn within(mut self, seconds: u64) -> Trial<'w> {
        self.limit = Duration::from_secs(seconds);
        self
    }

    fn with(mut self, name: &'static str, value: &str) -> Trial<'w> {
        self.variables.push((name, value.to_owned()));
        self
    }

    fn verdict(self) -> Verdict {
        let subject = self.world.subject(self.directory);
        self.verdict_on(&subject)
    }

    fn verdict_on(self, subject: &ProofSubject) -> Verdict {
        let world = self.world;
        let mut variables = vec![
            (
                "LD_LIBRARY_PATH",
                world.path(self.directory).display().to_string(),
            ),
            ("STAND_IN", self.mode),
            (
                "STAND_IN_LOCK",
                world.workshop.path("lock").display().to_string(),
            ),
            (
                "FOREIGN",
                world.path("other/libcublas.so.13").display().to_string(),
            ),
        ];
        variables.extend(self.variables);
        let env: Environment = variables.into_iter().collect();
        let settings = ProofSettings {
            level: self.level,
            seed: 7,
            limit: self.limit,
        };
        let inventory = Inventory {
            driver: Some(KernelDriver {
                version: "580.95.05".parse().unwrap(),
                cuda: None,
                from: PathBuf::new(),
            }),
            devices: vec!["/dev/nvidia0".into()],
            ..Inventory::default()
        };
        let host = Host::here();
        verify::run(
            &host,
            Path::new(CUDARUN),
            subject,
            &env,
            &inventory,
            settings,
            &mut |_, _| {},
        )
        .unwrap()
    }

    #[track_caller]
    fn fails(self) -> (StepFailure, ProofCause) {
        let mode = self.mode.clone();
        match self.verdict() {
            Verdict::Failed { failure, cause, .. } => (failure, cause),
            other => panic!("{mode}: {other:?}"),
        }
    }

    #[track_caller]
    fn passes(self) {
        let mode = self.mode.clone();
        let verdict = self.verdict();
        assert!(
            matches!(verdict, Verdict::Passed { .. }),
            "{mode}: {verdict:?}"
        );
    }
}

#[test]
fn a_set_that_works_is_proved() {
    let Verdict::Passed { proof } = WORLD.trial("").verdict() else {
        panic!()
    };
    let finding = &proof.finding;
    assert_eq!(finding.cudnn, [("libcudnn.so.9".to_owned(), 91900)].into());
    assert_eq!(finding.driver_cuda, Some(13000));
    let [gpu] = finding.gpus.as_slice() else {
        panic!("{:?}", finding.gpus)
    };
    assert_eq!(
        (gpu.name.as_deref(), gpu.capability.as_deref()),
        (Some("Stand-in"), Some("9.0"))
    );
    assert_eq!((gpu.free, gpu.memory), (Some(70 << 30), Some(80 << 30)));
    assert_eq!(finding.mapped.len(), 3);
    let steps: Vec<ChildStep> = proof.steps.iter().map(|taken| taken.place.step).collect();
    let expected = [
        ChildStep::LoadDriver,
        ChildStep::CuInit,
        ChildStep::Load,
        ChildStep::Devices,
        ChildStep::Context,
        ChildStep::Handle,
        ChildStep::Compute,
        ChildStep::Load,
        ChildStep::Mapped,
    ];
    assert_eq!(steps, expected);
    let result = proof.steps.iter().find_map(|taken| taken.result.clone());
    assert_eq!(result, Some(StepResult::Right));
}

#[test]
fn each_level_does_what_it_says() {
    let log = WORLD.workshop.path("levels.log");
    let counts = |level: Level| {
        let _ = std::fs::remove_file(&log);
        let trial = WORLD
            .trial("")
            .at(level)
            .with("STAND_IN_LOG", &log.display().to_string());
        assert!(
            matches!(trial.verdict(), Verdict::Passed { .. }),
            "{level:?}"
        );
        (
            stand_in::counted(&log, "created"),
            stand_in::counted(&log, "convolved"),
        )
    };
    assert_eq!(counts(Level::Load), (0, 0), "(handles, convolutions)");
    assert_eq!(counts(Level::Handle), (1, 0), "(handles, convolutions)");
    assert_eq!(counts(Level::Conv), (1, 1), "(handles, convolutions)");
    // Version checks need no GPU, and are asked where there may be none.
    let (failure, cause) = WORLD
        .trial("cuInit:100 cudnnGraphVersionCheck:3009")
        .at(Level::Load)
        .fails();
    assert!(
        matches!(failure, StepFailure::Status { code: 3009, .. }),
        "{failure:?}"
    );
    assert_eq!(
        cause.fault,
        Fault::Incomplete,
        "there is no libcudnn_graph here"
    );
    WORLD.trial("cuInit:100").at(Level::Load).passes();
    // A proof of the level `deep` counts for `load`.
    let (failure, _) = WORLD
        .trial("cudnnGraphVersionCheck:3009")
        .at(Level::Deep)
        .fails();
    assert!(
        matches!(failure, StepFailure::Status { code: 3009, .. }),
        "{failure:?}"
    );
    WORLD.trial("").at(Level::Deep).passes();
}

#[test]
fn a_deep_proof_computes_with_each_library_of_a_family() {
    let only = |mode: &str, name: &str| {
        let trial = WORLD.trial(mode).of("both");
        trial.with("STAND_IN_ONLY", name)
    };
    for name in ["libcublas.so.12", "libcublas.so.13"] {
        let mode = "cublasSgemm:14";
        let (failure, _) = only(mode, name).at(Level::Deep).fails();
        let StepFailure::Status { at, call, .. } = &failure else {
            panic!("{failure:?}")
        };
        assert_eq!(
            (at.of.as_deref(), call.as_str()),
            (Some(name), "cublasSgemm")
        );
        only(mode, name).passes();
        let (failure, cause) = only("wrong-product", name).at(Level::Deep).fails();
        assert!(
            matches!(failure, StepFailure::WrongNumbers { element: 5, .. }),
            "{failure:?}"
        );
        assert_eq!(cause.fault, Fault::WrongNumbers);
    }
    only("cublasSgemm:14", "neither").at(Level::Deep).passes();
}

#[test]
fn a_library_without_a_needed_function_is_the_one_at_fault() {
    for (directory, from, function) in LACKING {
        let level = if from == "driver" {
            Level::Conv
        } else {
            Level::Load
        };
        let (failure, cause) = WORLD.trial("").of(directory).at(level).fails();
        let StepFailure::Load { name, message, .. } = &failure else {
            panic!("{failure:?}")
        };
        let (soname, kind) = match from {
            "driver" => ("libcuda.so.1", Fault::DriverIncomplete),
            _ => ("libcudnn.so.9", Fault::LibraryDoesNotLoad),
        };
        assert_eq!((name.as_str(), cause.fault), (soname, kind), "{function}");
        assert!(message.ends_with(function), "{message}");
    }
}

#[test]
fn a_handle_is_destroyed_after_success_only() {
    let (failure, cause) = WORLD.trial("wrong destroy-crashes").fails();
    assert_eq!(cause.fault, Fault::WrongNumbers, "{failure:?}");
    let (failure, _) = WORLD
        .trial("cudnnConvolutionForward:5000 destroy-crashes")
        .fails();
    assert!(
        matches!(failure, StepFailure::Status { code: 5000, .. }),
        "{failure:?}"
    );
    let verdict = WORLD.trial("out-of-memory destroy-crashes").verdict();
    assert!(matches!(verdict, Verdict::Busy { .. }), "{verdict:?}");
    let (_, cause) = WORLD.trial("destroy-crashes").fails();
    assert_eq!(cause.fault, Fault::Crashed, "the control");
    let (failure, _) = WORLD.trial("cudnnDestroy:4000").fails();
    assert!(
        matches!(&failure, StepFailure::Status { call, code: 4000, .. } if call == "cudnnDestroy"),
        "{failure:?}"
    );
}

/// Every code of cuDNN's, from the call that makes a handle and from the one that convolves. The expected
/// names are repeated here, and not read from the table.
#[test]
fn every_code_of_cudnn_has_a_cause() {
    let expected = |code: i64| match code {
        14 | 1002 => Fault::Mixed,
        9 | 3000..=3004 | 3010..=3014 => Fault::NoEngine,
        6 | 3007 => Fault::NoKernel,
        3005 | 3006 => Fault::DriverTooOld,
        // Its files are all there and of one version: what it is linked against is not.
        11 | 1008 | 3008 | 3009 => Fault::LibraryDoesNotLoad,
        4001 => Fault::CompilationFailed,
        _ => Fault::Refused,
    };
    let table = &statuses().cudnn;
    assert!(table.len() > 50);
    for status in table {
        let directory = if status.code >= 1000 { "set" } else { "set8" };
        for call in ["cudnnCreate", "cudnnConvolutionForward"] {
            let (failure, cause) = WORLD
                .trial(&format!("{call}:{}", status.code))
                .of(directory)
                .fails();
            let StepFailure::Status { call: by, code, .. } = &failure else {
                panic!("{failure:?}")
            };
            assert_eq!((by.as_str(), *code), (call, status.code));
            assert_eq!(
                cause.fault,
                expected(status.code),
                "{} of {call}",
                status.name
            );
            let culprit = cause
                .culprit
                .as_ref()
                .map(|culprit| culprit.family.as_str());
            let is_of_library = cause.is_of_library();
            assert_eq!(
                culprit,
                is_of_library.then_some("cudnn"),
                "{} of {call}",
                status.name
            );
        }
    }
}

#[test]
fn every_code_of_the_driver_has_a_cause() {
    let expected = |code: i64| match code {
        34 => Fault::Stub,
        35 | 36 | 222 | 227 => Fault::DriverTooOld,
        100 | 101 => Fault::NoDevice,
        200 | 209 | 218 => Fault::NoKernel,
        221 => Fault::DriverIncomplete,
        214 | 220 | 226 | 714 => Fault::GpuFault,
        802 | 805..=810 | 919 => Fault::NotReady,
        803 => Fault::DriverMismatch,
        804 => Fault::CompatRefused,
        2 => Fault::HostMemory,
        46 => Fault::GpuBusy,
        _ => Fault::DriverUnreachable,
    };
    let table = &statuses().cuda;
    assert!(table.len() > 25);
    for status in table {
        let (failure, cause) = WORLD.trial(&format!("cuInit:{}", status.code)).fails();
        assert!(
            matches!(&failure, StepFailure::Status { call, .. } if call == "cuInit"),
            "{failure:?}"
        );
        assert_eq!(cause.fault, expected(status.code), "{}", status.name);
    }
    let (failure, _) = WORLD.trial("cuInit:803").fails();
    let StepFailure::Status { name, .. } = failure else {
        panic!("{failure:?}")
    };
    assert_eq!(
        name.as_deref(),
        Some("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
        "the driver's own name"
    );
    // An unknown code is reported with its number.
    let (failure, cause) = WORLD.trial("synchronize:4711").fails();
    assert!(
        matches!(failure, StepFailure::Status { code: 4711, .. }),
        "{failure:?}"
    );
    assert_eq!(cause.fault, Fault::Refused);
}

#[test]
fn messages_of_cudnn_are_shown() {
    let (failure, _) = WORLD.trial("cudnnCreate:1001").fails();
    let StepFailure::Status {
        at, name, message, ..
    } = failure
    else {
        panic!("{failure:?}")
    };
    assert_eq!((at.step, at.gpu), (ChildStep::Handle, Some(0)));
    assert_eq!(name.as_deref(), Some("CUDNN_STATUS_NOT_INITIALIZED"));
    assert_eq!(message.as_deref(), Some("a reason"));
}

#[test]
fn wrong_numbers_are_found_however_few_and_by_however_little() {
    let wrong = |mode: &str| {
        let (failure, cause) = WORLD.trial(mode).fails();
        assert_eq!(cause.fault, Fault::WrongNumbers, "{mode}");
        let StepFailure::WrongNumbers {
            largest_error,
            element,
            ..
        } = failure
        else {
            panic!("{failure:?}")
        };
        (largest_error, element)
    };
    assert_eq!(wrong("wrong"), (Some(0.5), 100));
    assert_eq!(wrong("nan"), (None, 7));
    let (lowest, _) = wrong("bit:0");
    assert!(
        lowest.is_some_and(|error| error > 0.0 && error < 1e-4),
        "{lowest:?}"
    );
    for bit in [1, 22, 23, 30, 31] {
        wrong(&format!("bit:{bit}"));
    }
}

#[test]
fn a_child_that_dies_is_placed_and_quoted() {
    let dies = |mode: &str, says: &str| {
        let (failure, cause) = WORLD.trial(mode).with("STAND_IN_SAYS", says).fails();
        let (StepFailure::Signal { at, .. } | StepFailure::Exited { at, .. }) = &failure else {
            panic!("{failure:?}");
        };
        assert_eq!(at.as_ref().unwrap().step, ChildStep::Handle, "{mode}");
        assert_eq!(
            cause.culprit.as_ref().map(|it| it.family.as_str()),
            Some("cudnn"),
            "{mode}"
        );
        (failure, cause)
    };
    let line = "Unable to load any of {libcudnn_graph.so.9.19.0, libcudnn_graph.so.9}";
    let (failure, cause) = dies("abort", line);
    assert!(
        matches!(failure, StepFailure::Signal { signal: 6, .. }),
        "{failure:?}"
    );
    assert_eq!(
        cause.fault,
        Fault::Incomplete,
        "there is no libcudnn_graph here"
    );
    assert!(
        cause.evidence.contains(&ProofEvidence::Said {
            line: line.to_owned()
        }),
        "{cause:?}"
    );
    let (_, cause) = dies(
        "abort",
        "Could not load library libcublas.so.12. Error: no such file",
    );
    assert_eq!(cause.fault, Fault::LibraryDoesNotLoad);
    let (_, cause) = dies("abort", "something else");
    assert_eq!(cause.fault, Fault::Crashed);
    assert!(
        cause.evidence.contains(&ProofEvidence::Said {
            line: "something else".to_owned()
        }),
        "{cause:?}"
    );
    let (failure, cause) = dies("crash", "");
    assert!(
        matches!(failure, StepFailure::Signal { signal: 11, .. }),
        "{failure:?}"
    );
    assert_eq!(cause.fault, Fault::Crashed);
    let (_, cause) = dies("bus", "");
    assert_eq!(
        cause.fault,
        Fault::Damaged,
        "what lies beyond the end of a file cannot be read"
    );
    let (failure, _) = dies("status:3", "");
    assert!(
        matches!(failure, StepFailure::Exited { code: Some(3), .. }),
        "{failure:?}"
    );
    let (failure, cause) = dies("leave", "");
    assert!(
        matches!(failure, StepFailure::Exited { code: Some(0), .. }),
        "{failure:?}"
    );
    assert_eq!(cause.fault, Fault::NoReport);
    // Only the process that killed it is at fault.
    let (_, cause) = WORLD.trial("kill").fails();
    assert_eq!((cause.fault, cause.culprit), (Fault::Killed, None));
    // A code that means anything, and a line that means one thing.
    let (_, cause) = WORLD
        .trial("cudnnCreate:1001")
        .with("STAND_IN_SAYS", "Could not load symbol cudnnGetLibConfig")
        .fails();
    assert_eq!(cause.fault, Fault::LibraryDoesNotLoad);
}

/// The actions of a library as the process ends are not part of the proof.
#[test]
fn a_crash_after_the_report_is_no_failure() {
    WORLD.trial("crash-late").passes();
}

/// Under a parent that ignores SIGCHLD, no process learns how a child ended: its report decides, and without
/// one there is no proof. Runs again in a process of its own, since a disposition is the whole process's.
#[test]
fn without_an_exit_status_the_report_decides() {
    const ALONE: &str = "CUDARUN_TESTS_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let mut again = Command::new(std::env::current_exe().unwrap());
        again
            .args([
                "verify::verdicts::without_an_exit_status_the_report_decides",
                "--exact",
            ])
            .env(ALONE, "");
        let output = again.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("1 passed"), "{said}");
        return;
    }
    WORLD.trial("").passes();
    let subject = WORLD.subject("set");
    // SAFETY: sets a disposition, and no handler.
    #[allow(unsafe_code)]
    unsafe {
        nix::sys::signal::signal(
            nix::sys::signal::Signal::SIGCHLD,
            nix::sys::signal::SigHandler::SigIgn,
        )
        .unwrap();
    }
    assert!(matches!(
        WORLD.trial("").verdict_on(&subject),
        Verdict::Passed { .. }
    ));
    for mode in ["abort", "leave"] {
        let verdict = WORLD.trial(mode).verdict_on(&subject);
        let Verdict::Failed {
            failure:
                StepFailure::Exited {
                    at: Some(at),
                    code: None,
                },
            ..
        } = verdict
        else {
            panic!("{mode}: {verdict:?}")
        };
        assert_eq!(at.step, ChildStep::Handle);
    }
}

#[test]
fn a_child_that_hangs_is_ended_in_time() {
    for mode in ["hang", "leave-group"] {
        let started = Instant::now();
        let (failure, cause) = WORLD.trial(mode).within(2).fails();
        assert!(
            matches!(&failure, StepFailure::TimedOut { at: Some(at), seconds: 2 } if at.step == ChildStep::Handle)
        );
        assert_eq!((cause.fault, cause.culprit), (Fault::TimedOut, None));
        assert!(started.elapsed() < Duration::from_secs(15), "{mode}");
    }
}

/// As by Ctrl-Z: the child, which has a group of its own, goes on or is stopped as well. This test starts itself, since it
/// cannot stop the other tests.
#[test]
fn the_time_in_which_a_proof_is_stopped_does_not_count() {
    const MARK: &str = "CUDARUN_TESTS_STOPPED";
    if std::env::var_os(MARK).is_some() {
        std::io::Write::write_all(&mut std::io::stdout(), format!("\n{MARK}\n").as_bytes())
            .unwrap();
        return WORLD.trial("slow:1500").within(4).passes();
    }
    let name = "verify::verdicts::the_time_in_which_a_proof_is_stopped_does_not_count";
    for with_child in [false, true] {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", name, "--nocapture"])
            .env(MARK, "1")
            .stdout(Stdio::piped());
        let mut inner = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(inner.stdout.take().unwrap()).lines();
        assert!(said.by_ref().any(|line| line.unwrap() == MARK));
        let child = || {
            let tasks = std::fs::read_dir(format!("/proc/{}/task", inner.id())).unwrap();
            let children = |task: std::io::Result<std::fs::DirEntry>| {
                std::fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default()
            };
            let all: String = tasks.map(children).collect();
            all.split_whitespace().map(str::to_owned).find(|pid| {
                let command =
                    std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                command.starts_with("cudarun\0--verify-child")
            })
        };
        let mut found = child();
        for _ in 0..600 {
            if found.is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
            found = child();
        }
        let mut pids = vec![found.expect("a proof"), inner.id().to_string()];
        if !with_child {
            pids.remove(0);
        }
        let send = |signal| {
            for pid in &pids {
                let pid = nix::unistd::Pid::from_raw(pid.parse().unwrap());
                nix::sys::signal::kill(pid, signal).unwrap();
            }
        };
        // It listens by then.
        std::thread::sleep(Duration::from_millis(700));
        send(Signal::SIGSTOP);
        std::thread::sleep(Duration::from_secs(5));
        send(Signal::SIGCONT);
        let rest: Vec<String> = said.map(Result::unwrap).collect();
        assert!(inner.wait().unwrap().success(), "{with_child}: {rest:#?}");
    }
}

#[test]
fn processes_left_by_a_child_are_ended() {
    let started = Instant::now();
    WORLD.trial("fork").passes();
    assert!(started.elapsed() < Duration::from_secs(10));
    let set = WORLD.path("set/libcudnn.so.9").display().to_string();
    let left = || {
        let processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
            let pid: u32 = entry.unwrap().file_name().to_str()?.parse().ok()?;
            let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
            let is_ours = String::from_utf8_lossy(&environment).contains("STAND_IN=fork");
            let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
            (is_ours && maps.contains(&set)).then_some(pid)
        });
        processes.count()
    };
    while left() > 0 {
        assert!(
            started.elapsed() < Duration::from_secs(15),
            "a process is left"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn output_of_libraries_is_not_taken_for_a_report() {
    let started = Instant::now();
    for mode in ["noise", "flood", "chdir", "lock"] {
        WORLD.trial(mode).within(60).passes();
    }
    assert!(
        started.elapsed() < Duration::from_mins(1),
        "{:?}",
        started.elapsed()
    );
}

#[test]
fn a_library_that_closes_the_way_to_the_parent_leaves_no_report() {
    let (failure, cause) = WORLD.trial("close").fails();
    assert!(
        matches!(failure, StepFailure::Exited { code: Some(0), .. }),
        "{failure:?}"
    );
    assert_eq!(cause.fault, Fault::NoReport);
    assert_eq!(cause.culprit.map(|it| it.family), Some("cudnn".to_owned()));
}

#[test]
fn files_from_elsewhere_are_a_failure() {
    let (failure, cause) = WORLD.trial("foreign").fails();
    let files = vec![WORLD.path("other/libcublas.so.13").display().to_string()];
    assert_eq!(
        (failure, cause.fault),
        (StepFailure::Foreign { files }, Fault::ForeignFiles)
    );
    // A library in LD_PRELOAD is not part of the set and the program does not request it. It is a fault only if its family
    // is planned.
    let preloaded = |file: &str| {
        WORLD
            .trial("foreign")
            .with("LD_PRELOAD", WORLD.path(file).to_str().unwrap())
    };
    assert!(matches!(
        preloaded("other/libcublas.so.13").verdict(),
        Verdict::Passed { .. }
    ));
    assert!(matches!(
        preloaded("other/libcudnn.so.9").verdict(),
        Verdict::Failed { .. }
    ));
    // Without a plan, foreign files are no fault.
    let mut subject = WORLD.subject("set");
    subject.is_planned = false;
    assert!(matches!(
        WORLD.trial("foreign").verdict_on(&subject),
        Verdict::Passed { .. }
    ));
    // But two versions of one library in one process are a fault, even where numbers come out right.
    let other = WORLD.path("other/libcublas.so.13").display().to_string();
    let cudnn = subject
        .libraries
        .iter_mut()
        .find(|library| library.installation.family == "cudnn")
        .unwrap();
    cudnn
        .installation
        .problems
        .push(Problem::OtherVersionAmongTheRest {
            file: other,
            version: "9.14.0".parse().unwrap(),
        });
    assert!(
        matches!(WORLD.trial("").verdict_on(&subject), Verdict::Passed { .. }),
        "it is not mapped"
    );
    let Verdict::Failed { cause, .. } = WORLD.trial("foreign").verdict_on(&subject) else {
        panic!()
    };
    assert_eq!(cause.fault, Fault::Mixed);
}

/// A package is upgraded while its library is mapped.
#[test]
fn a_library_that_is_replaced_during_its_proof_is_not_foreign() {
    stand_in::driver(&WORLD.workshop, "replaced");
    let library = WORLD.path("replaced").join("libcudnn.so.9");
    stand_in::cudnn(&WORLD.workshop, "replaced", 9);
    WORLD.workshop.library(
        "replaced/libcudart.so.13",
        "libcudart.so.13",
        "int nothing;",
        &[],
    );
    let log = WORLD.workshop.path("replaced.log");
    let replace = || {
        while stand_in::counted(&log, "created") == 0 {
            std::thread::sleep(Duration::from_millis(10));
        }
        let new = library.with_extension("new");
        std::fs::copy(&library, &new).unwrap();
        std::fs::rename(&new, &library).unwrap();
    };
    let trial = WORLD
        .trial("slow:3000")
        .of("replaced")
        .with("STAND_IN_LOG", &log.display().to_string());
    std::thread::scope(|scope| {
        scope.spawn(replace);
        trial.passes();
    });
}

#[test]
fn hidden_gpus_are_no_fault_of_the_libraries() {
    let (_, cause) = WORLD.trial("cuInit:100").fails();
    assert_eq!((cause.fault, cause.evidence.len()), (Fault::NoDevice, 0));
    for hidden in ["", " ", "-1", "-1,0", "NoDevFiles"] {
        let verdict = WORLD
            .trial("cuInit:100")
            .with("CUDA_VISIBLE_DEVICES", hidden)
            .verdict();
        assert_eq!(
            verdict,
            Verdict::Skipped {
                why: Skip::GpusHidden
            },
            "{hidden:?}"
        );
    }
    // A batch system sets it always: what names a GPU that is there hides none.
    for (meant, kind) in [
        ("7", Fault::GpusHidden),
        ("GPU-1b2c", Fault::GpusHidden),
        ("0", Fault::NoDevice),
        ("0,-1", Fault::NoDevice),
    ] {
        let variable = ProofEvidence::Variable {
            name: "CUDA_VISIBLE_DEVICES".to_owned(),
            value: meant.to_owned(),
        };
        let mut evidence = vec![variable];
        // The machine has one GPU, which this variable does not name.
        evidence.extend((kind == Fault::GpusHidden).then_some(ProofEvidence::Gpus { count: 1 }));
        for mode in ["cuInit:100", "gpus:0"] {
            let trial = WORLD.trial(mode).with("CUDA_VISIBLE_DEVICES", meant);
            let verdict = trial.verdict();
            let Verdict::Failed { cause, .. } = &verdict else {
                panic!("{meant}, {mode}")
            };
            assert_eq!(
                (cause.fault, &cause.evidence),
                (kind, &evidence),
                "{meant}, {mode}"
            );
            let said = failed_start(&verdict, &[], false, Style::default());
            let first = match meant {
                "7" => "error: CUDA_VISIBLE_DEVICES=7, but this machine has only GPU 0\n",
                "GPU-1b2c" => {
                    "error: CUDA_VISIBLE_DEVICES=GPU-1b2c, but no GPU of this machine has that name\n"
                }
                _ => "error: the driver finds no GPU\n",
            };
            assert!(said.starts_with(first), "{said}");
        }
    }
    assert_eq!(
        WORLD.trial("gpus:0").fails().1.fault,
        Fault::NoDevice,
        "none is no proof"
    );
}

/// No library is at fault where a GPU has no memory, or belongs to another process; the other GPUs are tried.
#[test]
fn a_gpu_that_is_busy_is_its_own_verdict() {
    let busy = |mode: &str| {
        let Verdict::Busy { proof } = WORLD.trial(mode).verdict() else {
            panic!("{mode}")
        };
        let is_computed = |gpu: u32| {
            let on =
                |taken: &verify::StepRecord| taken.place.gpu == Some(gpu) && taken.result.is_some();
            proof.steps.iter().any(on)
        };
        let state =
            |gpu: &cudarun::verify::protocol::GpuFound| (gpu.busy.clone(), is_computed(gpu.gpu));
        proof.finding.gpus.iter().map(state).collect::<Vec<_>>()
    };
    let is_short = |busy: &Option<Busy>| matches!(busy, Some(Busy::OutOfMemory { .. }));
    for mode in [
        "full",
        "out-of-memory",
        "little cudnnCreate:4",
        "little cudnnConvolutionForward:4004",
    ] {
        let states = busy(mode);
        assert!(
            matches!(&states[..], [(why, false)] if is_short(why)),
            "{mode}: {states:?}"
        );
    }
    let [(Some(Busy::Exclusive { .. }), false)] = busy("exclusive").as_slice() else {
        panic!()
    };
    let [(Some(Busy::Prohibited), false)] = busy("prohibited").as_slice() else {
        panic!()
    };
    let states = busy("gpus:3 full:1");
    assert!(
        matches!(&states[..], [(None, true), (why, false), (None, true)] if is_short(why)),
        "{states:?}"
    );
    let [(None, true), (None, true), (Some(Busy::Prohibited), false)] =
        busy("gpus:3 prohibited:2").as_slice()
    else {
        panic!()
    };
    // One GPU's memory says nothing of another's failure.
    let (failure, cause) = WORLD.trial("gpus:2 full:0 retain:719").fails();
    assert!(
        matches!(&failure, StepFailure::Status { at, code: 719, .. } if at.gpu == Some(1)),
        "{failure:?}"
    );
    assert_eq!(cause.fault, Fault::DriverUnreachable);
    // In exclusive use by a code that says so.
    let (_, cause) = WORLD.trial("exclusive retain:214").fails();
    assert_eq!(cause.fault, Fault::GpuFault);
    // Some codes say what is wrong whatever the memory.
    assert_eq!(
        WORLD.trial("little cudnnCreate:1002").fails().1.fault,
        Fault::Mixed
    );
    // With enough memory, this code means something else.
    assert_eq!(WORLD.trial("cudnnCreate:4").fails().1.fault, Fault::Refused);
    let Verdict::Passed { proof } = WORLD.trial("gpus:4").verdict() else {
        panic!()
    };
    assert_eq!(proof.finding.gpus.len(), 4);
}

#[test]
fn a_library_that_does_not_load_is_named() {
    let without = |change: &dyn Fn(&mut TriedLibrary)| {
        let mut subject = WORLD.subject("set");
        change(
            subject
                .libraries
                .iter_mut()
                .find(|library| library.installation.family == "cudnn")
                .unwrap(),
        );
        match WORLD.trial("").verdict_on(&subject) {
            Verdict::Failed { failure, cause, .. } => (failure, cause),
            other => panic!("{other:?}"),
        }
    };
    let (failure, cause) = without(&|library| {
        library.soname = "libcudnn.so.77".to_owned();
    });
    let StepFailure::Load { at, name, message } = failure else {
        panic!("{failure:?}")
    };
    assert_eq!(
        (at.step, name.as_str()),
        (ChildStep::Load, "libcudnn.so.77")
    );
    assert!(
        message.contains("cannot open shared object file"),
        "{message}"
    );
    assert_eq!(cause.fault, Fault::LibraryDoesNotLoad);
    assert_eq!(
        cause.culprit.map(|culprit| culprit.directory),
        Some(WORLD.path("set"))
    );
}

/// Known facts about the files say more than the code.
#[test]
fn facts_from_files_decide_the_cause() {
    let with = |mode: &str, problem: Problem| {
        let mut subject = WORLD.subject("set");
        let mut libraries = subject.libraries.iter_mut();
        let cudnn = libraries
            .find(|library| library.installation.family == "cudnn")
            .unwrap();
        cudnn.installation.problems.push(problem);
        let Verdict::Failed { cause, .. } = WORLD.trial(mode).verdict_on(&subject) else {
            panic!("{mode}")
        };
        cause.fault
    };
    let engines = || "libcudnn_engines_precompiled".to_owned();
    for mode in [
        "cudnnConvolutionForward:3000",
        "cudnnCreateTensorDescriptor:1002",
        "abort",
        "cudnnCreate:1001",
    ] {
        assert_eq!(
            with(
                mode,
                Problem::Missing {
                    stems: vec![engines()]
                }
            ),
            Fault::Incomplete,
            "{mode}"
        );
        let foreign = Problem::OtherVersionAmongTheRest {
            file: engines(),
            version: "9.14.0".parse().unwrap(),
        };
        assert_eq!(with(mode, foreign), Fault::Mixed, "{mode}");
        assert_eq!(
            with(mode, Problem::Truncated { file: engines() }),
            Fault::Damaged,
            "{mode}"
        );
    }
    assert_eq!(
        WORLD.trial("cudnnConvolutionForward:3000").fails().1.fault,
        Fault::NoEngine,
        "the control"
    );
}

#[test]
fn driver_halves_and_substitutes_are_checked() {
    use inventory::Origin::{Compat, Driver};
    let kind = |code: u32, origin: inventory::Origin, version: &str| {
        let mut subject = WORLD.subject("set");
        let driver = subject
            .libraries
            .iter_mut()
            .find(|library| library.installation.family == "driver")
            .unwrap();
        driver.installation.origin = origin;
        driver.installation.version = version.parse().ok();
        let Verdict::Failed { cause, .. } =
            WORLD.trial(&format!("cuInit:{code}")).verdict_on(&subject)
        else {
            panic!()
        };
        assert!(
            cause
                .evidence
                .iter()
                .any(|it| matches!(it, ProofEvidence::KernelDriver { .. })),
            "{cause:?}"
        );
        cause.fault
    };
    assert_eq!(kind(803, Compat, "575.57.08"), Fault::CompatRefused);
    assert_eq!(kind(803, Driver, "575.57.08"), Fault::DriverMismatch);
    assert_eq!(kind(804, Compat, "590.44.01"), Fault::CompatRefused);
    assert_eq!(kind(804, Driver, "590.44.01"), Fault::DriverMismatch);
    assert_eq!(kind(999, Driver, "580.95.05"), Fault::DriverUnreachable);
    assert_eq!(kind(999, Driver, "590.44.01"), Fault::DriverMismatch);
}

#[test]
fn a_kept_verdict_is_reported_like_a_new_one() {
    let style = cudarun::report::Style::default();
    let say = |verdict: &Verdict| cudarun::report::verdict(verdict, &[], false, style);
    let text = say(&WORLD.trial("").verdict());
    for part in [
        "GPU 0: convolution by libcudnn.so.9",
        " right",
        "GPU 0: Stand-in, compute capability 9.0",
        "libcudnn.so.9 is cuDNN 9.19.0",
        "the driver supports CUDA up to 13.0",
        "proved (level conv, ",
        "seed 7)",
    ] {
        assert!(text.contains(part), "lacks `{part}`:\n{text}");
    }
    let text = say(&WORLD.trial("cudnnConvolutionForward:3000").verdict());
    let first =
        "error: the set failed its proof: cuDNN cannot compute a plain convolution [no-engine]\n";
    assert!(text.starts_with(first), "{text}");
    assert!(text.contains(
        "  proof  cudnnConvolutionForward answered 3000 (CUDNN_STATUS_OTHER): a reason, at \"GPU 0:"
    ));
    assert!(
        text.contains("\nhint: reinstall the package of cuDNN in "),
        "{text}"
    );
    let text = say(&WORLD.trial("gpus:2 full:1").verdict());
    let line = "not proved: GPU 1 (Stand-in) is out of memory (";
    assert!(text.contains(line), "{text}");
}

/// A cause that `diagnose` can find as well has the sentence that `diagnose` prints.
#[test]
fn verify_and_diagnose_use_the_same_sentence() {
    let diagnosed = |fault: Fault| {
        let sentences: Vec<String> = errors()
            .iter()
            .flat_map(|row| {
                let mut reading = LogReader::default();
                reading.take(row.sample[0].as_bytes());
                let message = reading
                    .messages()
                    .into_iter()
                    .find(|message| message.row.id == row.id)
                    .unwrap();
                let causes = row
                    .cause
                    .iter()
                    .filter(move |possible| possible.cause == fault);
                causes.map(move |possible| possible_cause(&message, possible).0)
            })
            .collect();
        let of_cudnn = sentences.iter().find(|sentence| sentence.contains("cuDNN"));
        of_cudnn.unwrap_or(&sentences[0]).clone()
    };
    for fault in [
        Fault::Stub,
        Fault::GpusHidden,
        Fault::CompatRefused,
        Fault::DriverMismatch,
        Fault::Incomplete,
        Fault::Mixed,
        Fault::NoKernel,
        Fault::OutOfMemory,
        Fault::GpuBusy,
        Fault::GpuFault,
    ] {
        let mut verdict = WORLD.trial("cudnnConvolutionForward:3000").verdict();
        let Verdict::Failed { cause, .. } = &mut verdict else {
            panic!("{verdict:?}")
        };
        cause.fault = fault;
        let text =
            cudarun::report::verdict(&verdict, &[], false, cudarun::report::Style::default());
        let first = format!("error: the set failed its proof: {} [", diagnosed(fault));
        assert!(text.starts_with(&first), "expected `{first}`:\n{text}");
    }
}
