//! One error type for all that ends a command, and its exit code in each form of the command line.
//! Words are in `report`.

use std::io;
use std::path::PathBuf;

use crate::storage::{NoPlace, Unfit};

/// What ends a command early.
#[derive(Debug)]
pub enum Error {
    /// No such program on the PATH that the program itself would get.
    NotFound {
        name: PathBuf,
    },
    /// There is one, but it cannot be run.
    NotExecutable {
        path: PathBuf,
        why: Refusal,
    },
    /// The operating system refused at the last moment.
    Exec {
        path: PathBuf,
        error: io::Error,
    },
    /// `--uses` names a package that is not installed where the program would look for it.
    NoSuchPackage {
        name: String,
        sites: Vec<PathBuf>,
    },
    /// `explain --next` passes over more sets than there are.
    NoOtherSet {
        passed: usize,
    },
    /// `list` was asked for a family that there is not.
    NoSuchFamily {
        name: String,
        families: Vec<&'static str>,
    },
    /// `--without` names a source that there is not.
    NoSuchSource {
        name: String,
        sources: Vec<&'static str>,
    },
    /// `--also` names a directory that is not there.
    NoSuchDirectory {
        option: &'static str,
        path: PathBuf,
    },
    /// Something that is set cannot be used: where it stands and what is wrong with it.
    Setting {
        why: String,
        hint: Option<String>,
    },
    /// `list --python` was given another program.
    NotPython {
        program: PathBuf,
    },
    /// `--root` or `--machine` with a verb that would run something.
    NothingRunsUnderRoot {
        option: &'static str,
        verb: &'static str,
    },
    /// What `--machine` names describes no machine.
    MachineUnusable {
        file: PathBuf,
        why: String,
    },
    RootUnusable {
        root: PathBuf,
        error: io::Error,
    },
    /// No place for the view that nobody else can write to.
    NoCache {
        tried: Vec<(PathBuf, Unfit)>,
    },
    /// Some step of writing the view failed.
    View {
        path: PathBuf,
        error: io::Error,
    },
    /// A person has said by an option what libraries must be, and this start cannot be made to obey.
    NotPinned {
        option: &'static str,
        why: String,
    },
    /// `trace` could not watch the program.
    NotTraced {
        why: String,
    },
    /// The verifying child could not be started at all.
    Verifier {
        error: io::Error,
    },
    Output {
        error: io::Error,
    },
    /// `init` writes over nothing.
    Exists {
        path: PathBuf,
    },
    /// What was allowed cannot be kept in a place that only we can write to.
    NotKept {
        path: PathBuf,
        error: io::Error,
    },
    /// The file for a report cannot be written.
    Report {
        path: PathBuf,
        error: io::Error,
    },
}

/// Why a file is not run.
#[derive(Debug)]
pub enum Refusal {
    PermissionDenied,
    IsDirectory,
    /// Its `#!` line names this file, which cannot be run.
    Interpreter {
        file: PathBuf,
        error: io::Error,
    },
    /// Its `#!` lines lead to one another.
    Circle,
    System {
        error: io::Error,
    },
}

/// Which promise the exit code keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The program's own status, or 125, 126, 127 when it was not started.
    Run,
    /// 0 yes, 1 the answer is no, 2 could not answer.
    Answer,
}

impl Error {
    pub fn code(&self, form: Form) -> u8 {
        if form == Form::Answer {
            return 2;
        }
        match self {
            Error::NotFound { .. } => 127,
            Error::Exec { error, .. } if error.kind() == io::ErrorKind::NotFound => 127,
            Error::NotExecutable { .. } | Error::Exec { .. } => 126,
            Error::NoSuchPackage { .. }
            | Error::NoOtherSet { .. }
            | Error::NoSuchFamily { .. }
            | Error::NoSuchSource { .. }
            | Error::NoSuchDirectory { .. }
            | Error::Setting { .. }
            | Error::Exists { .. }
            | Error::NotKept { .. }
            | Error::NotTraced { .. }
            | Error::NotPinned { .. }
            | Error::NotPython { .. }
            | Error::NothingRunsUnderRoot { .. }
            | Error::RootUnusable { .. }
            | Error::MachineUnusable { .. }
            | Error::NoCache { .. }
            | Error::View { .. }
            | Error::Verifier { .. }
            | Error::Output { .. }
            | Error::Report { .. } => 125,
        }
    }
}

impl From<NoPlace> for Error {
    fn from(none: NoPlace) -> Error {
        Error::NoCache { tried: none.tried }
    }
}
