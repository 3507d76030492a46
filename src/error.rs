//! One error type for everything that ends a command, with its words and its exit code in each form of the command line.
//! The command to type after it is in `report`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};

use crate::catalog::{Wheel, display_name, toolkits, wheels};
use crate::storage::{NoPlace, UnusablePlace};
use crate::text::{list, os, plain, short, show};
use crate::version::Version;

/// A typed reason that a later room defines. `report` implements the words, so a type without words does not compile.
pub trait TypedReason: Debug {
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
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The PATH that the program itself would get has no such program.
    #[error("`{}` was not found{}", show(.name), name_of_program(.name))]
    NotFound { name: PathBuf },
    /// The file exists, but cannot be run.
    #[error("`{}` cannot be run: {why}{}", show(.path), name_of_program(.path))]
    NotExecutable { path: PathBuf, why: ExecRefusal },
    /// The operating system refused at the last moment.
    #[error("`{}` cannot be run: {}", show(.path), os(.error))]
    Exec { path: PathBuf, error: io::Error },
    /// `--uses` names a package that is not installed where the program would look for it.
    #[error("--uses {}: {}", short(.name), no_such_package(.sites))]
    NoSuchPackage { name: String, sites: Vec<PathBuf> },
    /// `list` names an unknown library family.
    #[error("unknown library family `{}`", show(.name))]
    NoSuchFamily {
        name: String,
        families: Vec<&'static str>,
    },
    /// `list --running` names a process that has ended.
    #[error("no process {pid}")]
    NoSuchProcess { pid: u32 },
    /// `list --running` names a process that only its user, or root, may look at.
    #[error("process {pid} cannot be looked at: only its user and root may")]
    ProcessOfAnother { pid: u32 },
    /// No wheel of a family is in the range, for this machine.
    #[error("{}", no_wheel(.family, .range))]
    NoWheel { family: &'static str, range: String },
    /// `--also` names a directory that does not exist.
    #[error("{option} `{}`: no such directory", show(.path))]
    NoSuchDirectory { option: &'static str, path: PathBuf },
    /// No toolkit fits a build.
    #[error("{}", .0.sentence())]
    NoToolkit(Box<dyn TypedReason>),
    /// A setting cannot be used.
    #[error("{}", .0.sentence())]
    Setting(Box<dyn TypedReason>),
    /// A kernel or a service cannot be made to start with cudarun.
    #[error("{}", .0.sentence())]
    Hook(Box<dyn TypedReason>),
    /// This process has more rights than its user.
    #[error(
        "cudarun has more rights than its user (set-user-ID, set-group-ID or file capabilities)"
    )]
    MoreRights,
    /// `--root` or `--node`, with a verb that starts a program or writes for this machine. `there` holds these options.
    #[error("{}", not_there(.verb, &show(&.there[0])))]
    NothingRunsUnderRoot {
        verb: &'static str,
        there: Vec<OsString>,
    },
    /// `--node` without an image, with a verb that a description does not answer.
    #[error("--node `{}` has only what `doctor` found on that machine", show(.file))]
    OnlyOnNode { file: PathBuf },
    /// A container on the node of `--node` gets the driver in a way that cudarun does not know.
    #[error("--node `{}` describes {machine}, where a container gets the driver in another way", show(.file))]
    OtherDriverWay {
        file: PathBuf,
        machine: &'static str,
    },
    /// A description of a machine or an image cannot be used.
    #[error("{option} `{}` cannot be used: {}", show(.value), show(.why))]
    Unusable {
        option: &'static str,
        value: PathBuf,
        why: String,
    },
    /// A value on the command line is not of its kind.
    #[error("{message}")]
    Usage {
        message: String,
        hint: Option<String>,
    },
    /// `--root` does not name a usable directory.
    #[error("--root `{}` {}", show(.root), no_root(.root, .error))]
    RootUnusable { root: PathBuf, error: io::Error },
    /// Other users can write to every directory that could hold the cache, or it cannot be written.
    #[error("no safe directory for cudarun's cache; tried:{}", .tried.iter().map(
        |(path, why)| format!("\n  {}  {}", show(path), why.at(path))).collect::<String>())]
    NoCache {
        tried: Vec<(PathBuf, UnusablePlace)>,
    },
    /// An option of the command line pins libraries, and this program cannot be pinned.
    #[error("{option} has no effect here: {}", .why.sentence())]
    NotPinned {
        option: &'static str,
        why: Box<dyn TypedReason>,
    },
    /// The program does not load the audit module of `trace`.
    #[error("the program cannot be traced: {}", .0.sentence())]
    NotTraced(Box<dyn TypedReason>),
    /// `diagnose` got the name of a text in the place of a program.
    #[error("`{}` is a text, not a program", show(.text))]
    NoProgram { text: OsString },
    /// This process is in a shell of ours.
    #[error("already in a cudarun shell of `{}`: type `exit` first", show(.project))]
    NestedShell { project: OsString },
    /// A shell would be as any other: nothing is planned for the program, or for the project.
    #[error("{}", no_plan(.program.as_deref()))]
    NoPlan { program: Option<PathBuf> },
    /// `init` and `--save` never overwrite a file, and `--html` and `--lock` only files that cudarun wrote.
    #[error("`{}` exists, and cudarun does not overwrite it", show(.path))]
    Exists { path: PathBuf },
    /// Wheels cannot be fetched.
    #[error("{why}")]
    Fetch {
        why: String,
        hint: Option<&'static str>,
    },
    /// The file for the output cannot be written.
    #[error("cannot write `{}`: {}", show(.path), os(.error))]
    Unwritten { path: PathBuf, error: io::Error },
    /// The system refused another step, which `what` names.
    #[error("{what}: {}", os(.error))]
    Io { what: String, error: io::Error },
}

/// The reason why a file is not run.
#[derive(Debug, thiserror::Error)]
pub enum ExecRefusal {
    /// The permissions of a directory above it do not allow it.
    #[error("permission denied")]
    PermissionDenied,
    #[error("permission denied: the file is not executable")]
    NotExecutable,
    #[error("is a directory")]
    IsDirectory,
    /// The file that its `#!` line names cannot be run.
    #[error("its interpreter {}: {}", show(.file), plain(&.error.to_string()))]
    Interpreter { file: PathBuf, error: io::Error },
    #[error("its `#!` lines form a circle")]
    Circle,
    /// Another error of the system.
    #[error("{}", plain(&.error.to_string()))]
    System { error: io::Error },
}

fn no_such_package(sites: &[PathBuf]) -> String {
    match sites {
        [] => "this program has no Python packages".to_owned(),
        sites => format!("no such package in {}", list(sites.iter().map(show))),
    }
}

fn no_wheel(family: &str, range: &str) -> String {
    if family == "driver" {
        return "a driver cannot be fetched: the administrator of the machine installs it"
            .to_owned();
    }
    let name = display_name(family);
    let range = if range == "*" {
        String::new()
    } else {
        format!(" {range}")
    };
    let offered = offered(family)
        .map(|all| format!(": the table has {all}"))
        .unwrap_or_default();
    format!("no wheel of {name}{range} is on offer for this machine{offered}")
}

/// The oldest and the newest version of a family, or of toolkits, in the table of wheels.
pub fn offered(family: &str) -> Option<String> {
    let of_family = wheels()
        .iter()
        .filter(|wheel| wheel.family == family)
        .flat_map(Wheel::releases);
    let toolkits = toolkits()
        .iter()
        .filter(|_| family == "toolkit")
        .map(|toolkit| toolkit.version);
    let all: BTreeSet<Version> = of_family.chain(toolkits).collect();
    Some(format!("{} to {}", all.first()?, all.last()?))
}

fn not_there(verb: &str, option: &str) -> String {
    match verb {
        "allow" | "hook" => format!("`{verb}` works only on this machine: remove {option}"),
        "fetch" => {
            format!("with {option}, `fetch` cannot fill the store: add --dry-run or --into DIR")
        }
        // Most people type no verb.
        "run" => format!("the program would be started, which is not possible with {option}"),
        _ => format!("`{verb}` starts a program, which is not possible with {option}"),
    }
}

fn no_root(root: &Path, error: &io::Error) -> String {
    match registry_name(root) {
        Some(_) => "is not a file; cudarun does not pull images".to_owned(),
        None => format!("cannot be used: {}", os(error)),
    }
}

/// The name of an image in a registry, or in the store of a container engine.
pub fn registry_name(root: &Path) -> Option<&str> {
    let text = root.to_str()?;
    let after = |prefix| text.strip_prefix(prefix);
    let is_path = text.starts_with(['/', '.'])
        || ["oci:", "docker-archive:", "oci-archive:"]
            .iter()
            .any(|kind| text.starts_with(kind))
        || text.contains(".tar")
        || text.contains(":/");
    after("docker://")
        .or(after("docker-daemon:"))
        .or((text.contains(':') && !is_path).then_some(text))
}

fn no_plan(program: Option<&Path>) -> String {
    match program {
        Some(program) => format!(
            "`{}` needs no NVIDIA library that is installed here, so a shell has nothing to set",
            show(program)
        ),
        None => "nothing to set in a shell: no environment here has a GPU framework, and no [requires] names a library"
            .to_owned(),
    }
}

/// The mistake in the name of a program, if the name shows it.
pub fn name_of_program(name: &Path) -> &'static str {
    let text = name.to_string_lossy();
    let file = text.rsplit('/').next().unwrap_or_default();
    match () {
        () if text.contains(": ") => ": it looks like an error message, not a program",
        () if text.contains(char::is_whitespace) => {
            ": if it is a whole command, remove the quotes around it"
        }
        () if text == "help" => ": the word after `help` is not a verb",
        () if file.ends_with(".ipynb") => ": a notebook is not a program",
        () if file.ends_with(".so") || file.contains(".so.") => ": it is a library, not a program",
        () if !text.contains('/') => " in PATH",
        () => "",
    }
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
            _ => Error::Unwritten {
                path: path.to_owned(),
                error,
            },
        }
    }

    /// The error of a step that `what` names.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let what = what.into();
        move |error| Error::Io { what, error }
    }

    /// The error of a description or an image that an option names.
    pub fn unusable(option: &'static str, value: &Path, why: impl Into<String>) -> Error {
        Error::Unusable {
            option,
            value: value.to_owned(),
            why: why.into(),
        }
    }

    /// The error of a step with a file.
    pub fn at(path: &Path) -> impl FnOnce(io::Error) -> Error {
        Error::io(format!("`{}`", show(path)))
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
