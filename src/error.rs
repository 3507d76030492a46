//! One error type for everything that ends a command, and its exit code in each form of the command line.
//! The words are in `report`.

use std::ffi::OsString;
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};

use crate::storage::{NoPlace, Unfit};
use crate::version::Version;

/// A typed reason that a later room defines. `report` implements the words, so a type without words does not compile.
pub trait Reason: Debug {
    fn sentence(&self) -> String;

    /// Returns the command to type, if one is known.
    fn hint(&self) -> Option<String> {
        None
    }
}

/// The C library's version, `None` if unknown: before glibc 2.35, an auditor slows down every library call.
#[derive(Clone, Copy, Debug)]
pub struct OldLoader {
    pub glibc: Option<Version>,
}

/// An error that ends a command.
#[derive(Debug)]
pub enum Error {
    /// The PATH that the program itself would get has no such program.
    NotFound { name: PathBuf },
    /// The file exists, but cannot be run.
    NotExecutable { path: PathBuf, why: Refusal },
    /// The operating system refused at the last moment.
    Exec { path: PathBuf, error: io::Error },
    /// `--uses` names a package that is not installed where the program would look for it.
    NoSuchPackage { name: String, sites: Vec<PathBuf> },
    /// `explain --next` skips more sets than there are.
    NoOtherSet { fitting: usize, skipped: usize },
    /// `list` names an unknown library family.
    NoSuchFamily {
        name: String,
        families: Vec<&'static str>,
    },
    /// `fetch` names a family with something else than a range.
    BadRange { family: &'static str, text: String },
    /// No wheel of a family is in the range, for this machine.
    NoWheel { family: &'static str, range: String },
    /// `--without` names an unknown source.
    NoSuchSource {
        name: String,
        sources: Vec<&'static str>,
    },
    /// `--also` names a directory that does not exist.
    NoSuchDirectory { option: &'static str, path: PathBuf },
    /// No toolkit fits a build.
    NoToolkit(Box<dyn Reason>),
    /// A setting cannot be used.
    Setting(Box<dyn Reason>),
    /// `list --python` names a program that is not Python.
    NotPython { program: PathBuf },
    /// This process has more rights than its user.
    MoreRights,
    /// `--root` or `--machine`, with a verb that starts a program or writes for this machine. `there` holds these options.
    NothingRunsUnderRoot {
        verb: &'static str,
        there: Vec<OsString>,
    },
    /// The file of `--machine` does not describe a machine; `why` is the parser's or the system's message.
    MachineUnusable { file: PathBuf, why: String },
    /// A lock is for one program, and the descriptions or options name another number.
    NotOneProgram { count: usize },
    /// The command line of a program to describe is more than one word.
    NotQuoted { line: String },
    /// No file can have this name of a machine.
    NotANode { name: String },
    /// `--root` does not name a usable directory.
    RootUnusable { root: PathBuf, error: io::Error },
    /// `--root` does not name a usable image.
    ImageUnusable { root: PathBuf, why: String },
    /// Other users can write to every directory that could hold the cache, or it cannot be written.
    NoCache { tried: Vec<(PathBuf, Unfit)> },
    /// A step of writing the view failed.
    View { path: PathBuf, error: io::Error },
    /// An option of the command line pins libraries, and this program cannot be pinned.
    NotPinned {
        option: &'static str,
        why: Box<dyn Reason>,
    },
    /// The program does not load the audit module of `trace`.
    NotTraced(Box<dyn Reason>),
    /// `diagnose` cannot read its text.
    Unreadable { path: PathBuf, error: io::Error },
    /// `diagnose` got the name of a text in the place of a program.
    NoProgram { text: OsString },
    /// This process is in a shell of ours.
    NestedShell { project: OsString },
    /// A shell would be as any other: nothing is planned for the program, or for the project.
    NoPlan { program: Option<PathBuf> },
    /// The child process of the proof could not be started.
    Verifier { error: io::Error },
    /// Standard output is closed or full.
    Output { error: io::Error },
    /// `init` and `--save` never overwrite a file, and `--html` and `--lock` only files that cudarun wrote.
    Exists { path: PathBuf },
    /// Wheels cannot be fetched.
    Fetch(Box<dyn Reason>),
    /// `allow` cannot write its record.
    NotKept { path: PathBuf, error: io::Error },
    /// The file for the output cannot be written.
    Report { path: PathBuf, error: io::Error },
}

/// The reason why a file is not run.
#[derive(Debug)]
pub enum Refusal {
    /// The permissions of a directory above it do not allow it.
    PermissionDenied,
    /// Its own permissions do not allow it.
    NotExecutable,
    /// It is a directory.
    IsDirectory,
    /// The file that its `#!` line names cannot be run.
    Interpreter { file: PathBuf, error: io::Error },
    /// Its `#!` lines form a circle.
    Circle,
    /// Another error of the system.
    System { error: io::Error },
}

/// The meaning of the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The program's own status, or 125, 126, 127 if it was not started.
    Run,
    /// 0 yes, 1 no, 2 unknown.
    Answer,
}

impl Error {
    /// The error of a file for an output.
    pub fn unwritten(path: &Path, error: io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::AlreadyExists => Error::Exists {
                path: path.to_owned(),
            },
            _ => Error::Report {
                path: path.to_owned(),
                error,
            },
        }
    }

    pub fn code(&self, form: Form) -> u8 {
        if form == Form::Answer {
            return if matches!(self, Error::NoToolkit(_)) {
                1
            } else {
                2
            };
        }
        match self {
            Error::NotFound { .. } => 127,
            Error::Exec { error, .. } if error.kind() == io::ErrorKind::NotFound => 127,
            Error::NotExecutable { .. } | Error::Exec { .. } => 126,
            _ => 125,
        }
    }
}

impl From<NoPlace> for Error {
    fn from(none: NoPlace) -> Error {
        Error::NoCache { tried: none.tried }
    }
}
