//! What will really run, and what it has recorded that it needs. Reads files and runs nothing; must not
//! know what is installed elsewhere or what will be picked.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::catalog::catalog;
use crate::error::Error;
use crate::formats::elf;
use crate::host::Host;
use crate::loader::search::Searcher;
use crate::text;
use crate::version::CudaVersion;

mod arguments;
mod candidate;
mod executable;
mod framework;
mod imports;
mod installed;
mod loads;
mod package;
mod program;
mod python;
mod recorded;
mod requirement;
mod shim;

use executable::Image;
use program::Running;
pub use program::{locate, significant_arguments};
pub use requirement::{Asker, Before, First, Load, Need, Pin, Requirement, Want};

/// What was typed: a program and its arguments, as bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    pub program: OsString,
    pub arguments: Vec<OsString>,
}

#[derive(Debug, Serialize)]
pub struct Target {
    /// The file that exec gets: what PATH says of what was typed.
    #[serde(serialize_with = "text::path")]
    pub program: PathBuf,
    /// From the program to what really runs: links, `#!` lines, shims.
    pub steps: Vec<Step>,
    #[serde(skip)]
    pub machine: u16,
    pub packages: Vec<Package>,
    pub requirements: Vec<Requirement>,
    pub notes: Vec<Note>,
    #[serde(serialize_with = "text::paths")]
    pub site_packages: Vec<PathBuf>,
    /// How packages of its Python are installed, where it is a Python program.
    #[serde(skip)]
    pub pip: Option<Pip>,
    /// Every directory that the target's own files name to be searched: DT_RPATH and DT_RUNPATH.
    #[serde(skip)]
    pub own_directories: BTreeSet<PathBuf>,
    /// The executable that the loader starts; none where nothing about it can be pinned.
    #[serde(skip)]
    pub executable: Option<PathBuf>,
    /// What it opens at run time, in order, as far as that is known.
    #[serde(skip)]
    pub loads: Vec<Load>,
    /// What all this was read from.
    #[serde(skip)]
    pub watched: BTreeSet<PathBuf>,
    /// Of these it matters whether they are there and which they are, not what they hold.
    #[serde(skip)]
    pub located: BTreeSet<PathBuf>,
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
    pub standing: Standing,
    /// Where it is imported, as far as that is known.
    pub imported_by: Option<String>,
}

/// How sure it is that a package will be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// The program imports it.
    Imported,
    /// The program imports or runs what was not followed, and this is installed.
    Possible,
    /// It is installed, and what the program imports is known and does not need it.
    Installed,
}

/// What a person should know about how this target was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "note", rename_all = "kebab-case")]
pub enum Note {
    /// No dynamic loader runs, so nothing can be pinned.
    Static,
    /// The kernel makes the loader ignore the environment.
    SecureExecution { why: &'static str },
    /// Not a 64-bit program of a kind that NVIDIA's libraries exist for.
    ForeignMachine,
    /// Another C library, for which NVIDIA builds nothing.
    ForeignLoader {
        #[serde(serialize_with = "text::path")]
        loader: PathBuf,
    },
    /// A script for an interpreter that is not looked into.
    ScriptNotRead {
        #[serde(serialize_with = "text::path")]
        interpreter: PathBuf,
    },
    /// A program that does nothing but start another one.
    StartsAnother,
    /// A Python script or module that could not be read.
    SourceNotRead {
        #[serde(serialize_with = "text::path")]
        file: PathBuf,
        why: String,
    },
    /// A shim of pyenv for a version that is not there.
    ShimNotResolved,
    /// A framework that is imported and stands in no directory that is known to be searched.
    NotWhereItIsSought { module: String, by: String },
    /// It begins like a program and is none that can be read: cut short, perhaps.
    Malformed { why: String },
    /// A program that can be run but not read.
    NotReadable,
    /// Python whose site-packages were not found.
    NoSitePackages,
}

impl Note {
    /// Whether another program will start that is not looked into.
    pub fn hides_a_program(&self) -> bool {
        matches!(self, Note::ScriptNotRead { .. } | Note::StartsAnother)
    }

    /// What must be said although nobody asked: the program starts, and cudarun can do nothing for it.
    pub fn must_be_said(&self) -> bool {
        matches!(
            self,
            Note::SecureExecution { .. }
                | Note::ForeignLoader { .. }
                | Note::NotWhereItIsSought { .. }
                | Note::ShimNotResolved
                | Note::NotReadable
        )
    }
}

/// Reads what `command` will run and what that needs. `uses` names packages that count as imported,
/// instead of those that the program's source shows.
/// What was read of shared objects on the way stays with the loader's model of this machine.
pub fn read<'h>(host: &'h Host, command: &Command, uses: &[String]) -> Result<(Target, Searcher<'h>), Error> {
    let (mut target, started) = start(host, command)?;
    let searcher = Searcher::new(host, target.machine);
    let Some((running, image)) = started else { return Ok((target, searcher)) };
    match python::recognise(host, &running) {
        Some(python) => package::read(host, &searcher, &image, &python, uses, &mut target)?,
        None => match uses.first() {
            Some(name) => return Err(Error::NoSuchPackage { name: name.clone(), sites: Vec::new() }),
            None => executable::read(host, &searcher, &image, &running.arguments, &mut target),
        },
    }
    target.settle(host);
    Ok((target, searcher))
}

/// As `read`, without a look at what the program uses: which Python it is, and where its packages stand.
pub fn environment(host: &Host, command: &Command) -> Result<Target, Error> {
    let (mut target, started) = start(host, command)?;
    if let Some((running, image)) = started
        && let Some(python) = python::recognise(host, &running)
    {
        package::environment(host, &image, &python, &mut target);
    }
    Ok(target)
}

/// What really runs, if it can be looked into.
fn start(host: &Host, command: &Command) -> Result<(Target, Option<(Running, Image)>), Error> {
    let program = program::locate(host, &command.program)?;
    let mut target = Target::new(program.clone());
    let Some(running) = program::follow(host, &program, &command.arguments, &mut target)? else {
        return Ok((target, None));
    };
    let Some(image) = executable::inspect(host, &running.executable, &mut target)? else {
        return Ok((target, None));
    };
    target.machine = image.machine;
    target.executable = host.canonical(&image.path).ok();
    Ok((target, Some((running, image))))
}

impl Target {
    /// A program of which nothing is known yet.
    pub fn new(program: PathBuf) -> Target {
        Target {
            steps: vec![Step { how: How::Path, to: program.clone() }],
            program,
            machine: elf::X86_64,
            packages: Vec::new(),
            requirements: Vec::new(),
            notes: Vec::new(),
            site_packages: Vec::new(),
            pip: None,
            own_directories: BTreeSet::new(),
            executable: None,
            loads: Vec::new(),
            watched: BTreeSet::new(),
            located: BTreeSet::new(),
        }
    }

    fn step(&mut self, how: How, to: &Path) {
        self.steps.push(Step { how, to: to.to_owned() });
        self.watched.insert(to.to_owned());
    }

    /// Directories by their real names, each requirement once.
    fn settle(&mut self, host: &Host) {
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
    fn forget_what_was_found(&mut self) {
        let is_found = |module: &str| {
            catalog()
                .framework_of(module)
                .is_some_and(|framework| self.packages.iter().any(|package| package.name == framework.name))
        };
        self.notes
            .retain(|note| !matches!(note, Note::NotWhereItIsSought { module, .. } if is_found(module)));
    }

    /// What really runs.
    pub fn last_step(&self) -> &Path {
        self.steps.last().map_or(&self.program, |step| &step.to)
    }

    /// Whether the loader would not obey an environment at all.
    pub fn cannot_be_pinned(&self) -> Option<&Note> {
        self.notes.iter().find(|note| {
            matches!(
                note,
                Note::Static
                    | Note::SecureExecution { .. }
                    | Note::ForeignMachine
                    | Note::ForeignLoader { .. }
                    | Note::NotReadable
            )
        })
    }
}
