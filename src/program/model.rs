//! The program and what it needs, as values.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::condition::Condition;
use super::note::{EnvironmentLoss, Note};
use super::requirement::{First, ImportCertainty, Load, Requirement};
use crate::catalog::catalog;
use crate::environment::Environment;
use crate::formats::elf;
use crate::host::Host;
use crate::text;
use crate::version::CudaVersion;

/// What was typed: a program and its arguments, as bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    pub program: OsString,
    pub arguments: Vec<OsString>,
}

#[derive(Debug, Serialize)]
pub struct Program {
    /// The file that exec gets: what PATH says of what was typed.
    #[serde(serialize_with = "text::path")]
    pub path: PathBuf,
    /// From the program to what really runs: wrappers, links, `#!` lines, shims.
    pub steps: Vec<Step>,
    #[serde(skip)]
    pub machine: u16,
    pub packages: Vec<Package>,
    pub requirements: Vec<Requirement>,
    /// What is asked of the machine itself.
    pub conditions: Vec<Condition>,
    pub notes: Vec<Note>,
    #[serde(serialize_with = "text::paths")]
    pub site_packages: Vec<PathBuf>,
    /// How packages of its Python are installed, where it is a Python program.
    #[serde(skip)]
    pub pip: Option<Pip>,
    /// Every directory that the program's own files name to be searched: DT_RPATH and DT_RUNPATH.
    #[serde(skip)]
    pub own_directories: BTreeSet<PathBuf>,
    /// The executable that the loader starts; none where nothing about it can be pinned.
    #[serde(skip)]
    pub executable: Option<PathBuf>,
    /// How the executable is called, links not resolved.
    #[serde(skip)]
    pub called: Option<Called>,
    /// It goes through a program that starts several: mpirun, torchrun, xargs.
    #[serde(skip)]
    pub is_launched: bool,
    /// What it opens at run time, in order, as far as that is known.
    #[serde(skip)]
    pub loads: Vec<Load>,
    /// Whether another current directory could lead to another decision, which is nowhere written down.
    #[serde(skip)]
    pub is_of_directory: bool,
    /// What all this was read from.
    #[serde(skip)]
    pub watched: BTreeSet<PathBuf>,
    /// Of these it matters whether they are there and which they are, not what they hold.
    #[serde(skip)]
    pub located: BTreeSet<PathBuf>,
    /// It was told to start nothing, whatever it could.
    #[serde(skip)]
    pub starts_nothing: bool,
    /// Where it will be, where a wrapper changes that.
    #[serde(skip)]
    pub inside: Option<Surroundings>,
    /// The wrapper that keeps from it what would be set, and how.
    #[serde(skip)]
    pub loss: Option<(String, EnvironmentLoss)>,
    /// The variables of the stronger modes that a wrapper on the way sets anew or takes away.
    #[serde(skip)]
    pub undone: BTreeSet<&'static str>,
}

/// The path by which an executable is called.
#[derive(Clone, Debug)]
pub struct Called {
    pub path: PathBuf,
    /// Python finds its environment by this path.
    pub is_python: bool,
}

/// What a program finds around it.
#[derive(Clone, Debug)]
pub struct Surroundings {
    pub environment: Environment,
    pub directory: PathBuf,
}

/// How to call pip for one Python and no other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pip {
    #[serde(serialize_with = "text::path")]
    pub python: PathBuf,
    /// It has a pip of its own; otherwise another one must be told where to go.
    pub is_own: bool,
}

/// One step from a name to what runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    pub how: How,
    #[serde(serialize_with = "text::path")]
    pub to: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    Path,
    Link,
    Interpreter,
    Env,
    Shim,
    Wrapper,
    Script,
    Module,
    Code,
}

/// A Python package that uses a GPU.
#[derive(Clone, Debug, Serialize)]
pub struct Package {
    pub name: String,
    pub version: Option<String>,
    #[serde(serialize_with = "text::path")]
    pub directory: PathBuf,
    pub cuda: Option<CudaVersion>,
    /// It is built without CUDA, and asks for nothing.
    pub cpu_only: bool,
    pub standing: ImportCertainty,
    /// Where it is imported, as far as that is known.
    pub imported_by: Option<String>,
    /// The result of each thing that its profile tells to read.
    #[serde(skip)]
    pub readings: Vec<Reading>,
}

/// A number that a profile tells to read, as it was found, with the file; `None` where no record could be read.
#[derive(Clone, Debug)]
pub struct Reading {
    pub sought: Sought,
    pub found: Option<(String, PathBuf)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sought {
    /// The CUDA that the package was built for.
    Cuda,
    /// The version of a family that it was compiled against.
    Floor(String),
    /// The number in the SONAME of a library that it opens, by the library's stem.
    Soname(String),
}

/// What will run in the end.
#[derive(Debug)]
pub(super) struct Running {
    /// The executable as it is invoked, links not resolved: Python finds its environment by this name.
    pub executable: PathBuf,
    pub arguments: Vec<OsString>,
}

impl Program {
    /// A program of which nothing is known yet.
    pub fn new(path: PathBuf) -> Program {
        Program {
            steps: vec![Step { how: How::Path, to: path.clone() }],
            path,
            machine: elf::X86_64,
            packages: Vec::new(),
            requirements: Vec::new(),
            conditions: Vec::new(),
            notes: Vec::new(),
            site_packages: Vec::new(),
            pip: None,
            own_directories: BTreeSet::new(),
            executable: None,
            called: None,
            is_launched: false,
            loads: Vec::new(),
            is_of_directory: false,
            watched: BTreeSet::new(),
            located: BTreeSet::new(),
            starts_nothing: false,
            inside: None,
            loss: None,
            undone: BTreeSet::new(),
        }
    }

    /// Tells whether a directory is in its Python environment.
    pub fn is_in_site(&self, directory: &Path) -> bool {
        self.site_packages.iter().any(|site| directory.starts_with(site))
    }

    pub(super) fn step(&mut self, how: How, to: &Path) {
        self.steps.push(Step { how, to: to.to_owned() });
        self.watched.insert(to.to_owned());
    }

    /// Directories by their real names, each requirement once.
    pub(super) fn settle(&mut self, host: &Host) {
        let mut real: BTreeMap<PathBuf, Option<PathBuf>> = BTreeMap::new();
        let mut settled: Vec<Requirement> = Vec::new();
        // One that is not there yet would be searched once it is.
        let named = self.requirements.iter().flat_map(|requirement| &requirement.search_first);
        self.located.extend(named.map(|first| first.directory.clone()));
        self.located.extend(self.own_directories.iter().cloned());
        for mut requirement in std::mem::take(&mut self.requirements) {
            let directories = requirement.search_first.iter().filter_map(|first| {
                let real = real
                    .entry(first.directory.clone())
                    .or_insert_with(|| host.canonical(&first.directory).ok());
                Some(First { directory: real.clone()?, rule: first.rule })
            });
            requirement.search_first = directories.collect();
            let same = |other: &Requirement| {
                (&other.want, &other.by.name, &other.search_first, other.need)
                    == (&requirement.want, &requirement.by.name, &requirement.search_first, requirement.need)
            };
            if !settled.iter().any(same) {
                settled.push(requirement);
            }
        }
        let first = settled.iter().flat_map(|requirement| &requirement.search_first);
        self.own_directories =
            self.own_directories.iter().filter_map(|directory| host.canonical(directory).ok()).collect();
        self.own_directories.extend(first.map(|first| first.directory.clone()));
        self.requirements = settled;
    }

    /// A framework of which a part is found is not missing, wherever the rest of it is imported from.
    pub(super) fn forget_what_was_found(&mut self) {
        let is_found = |module: &str| {
            catalog()
                .framework_of(module)
                .is_some_and(|framework| self.packages.iter().any(|package| package.name == framework.name))
        };
        self.notes
            .retain(|note| !matches!(note, Note::NotWhereItIsSought { module, .. } if is_found(module)));
    }

    /// A program gets nothing where a wrapper keeps the environment from it; noted only where that matters.
    pub(super) fn lose_environment(&mut self) {
        let Some((wrapper, loss)) = self.loss.clone() else { return };
        if self.requirements.iter().any(Requirement::is_wish) || self.notes.iter().any(Note::hides_a_program)
        {
            self.requirements.clear();
            // What is said of the wrapper itself comes from the same cause.
            self.notes
                .retain(|note| !note.hides_a_program() && !matches!(note, Note::SecureExecution { .. }));
            self.notes.push(Note::LosesEnvironment { wrapper, loss });
        }
    }

    /// The program that all wrappers lead to.
    pub fn runs(&self) -> &Path {
        let step = self.steps.iter().rfind(|step| step.how == How::Wrapper);
        step.map_or(&self.path, |step| &step.to)
    }

    /// Whether the program puts directories of its own before what it is given in `LD_LIBRARY_PATH`.
    pub fn rewrites_library_path(&self) -> bool {
        self.notes.iter().any(|note| matches!(note, Note::Packed { .. }))
    }

    /// Whether the loader would not obey an environment at all.
    pub fn cannot_be_pinned(&self) -> Option<&Note> {
        self.notes.iter().find(|note| {
            matches!(
                note,
                Note::Static { .. }
                    | Note::SecureExecution { .. }
                    | Note::ForeignMachine
                    | Note::ForeignLoader { .. }
                    | Note::NotReadable
            )
        })
    }
}
