//! The program and what it needs, as values.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::condition::Condition;
use super::note::{EnvironmentLoss, Note};
use super::requirement::{EarlierDirectory, ImportCertainty, Load, Requirement};
use crate::catalog::catalog;
use crate::environment::Environment;
use crate::formats::elf;
use crate::host::Host;
use crate::inventory::ChangedBy;
use crate::text;
use crate::version::CudaVersion;

/// A command as it was typed, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    pub program: OsString,
    pub arguments: Vec<OsString>,
}

#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The file that exec gets: the typed name, looked up in PATH.
    pub path: PathBuf,
    /// The program and its arguments, as typed.
    pub words: Vec<OsString>,
    /// The way from `path` to the executable: wrappers, links, `#!` lines, shims.
    pub steps: Vec<ResolveStep>,
    pub machine: u16,
    pub packages: Vec<Package>,
    /// The directories and the extension modules of the packages that it imports.
    pub imported: BTreeSet<PathBuf>,
    pub requirements: Vec<Requirement>,
    /// Requirements of the machine itself.
    pub conditions: Vec<Condition>,
    pub notes: Vec<Note>,
    pub site_packages: Vec<PathBuf>,
    /// The directory of a Python script, or the current one for code and modules: it is searched unnamed.
    pub start_directory: Option<PathBuf>,
    /// How packages of its Python are installed; `None` where it is no Python program.
    pub pip: Option<Pip>,
    /// Every directory in DT_RPATH and DT_RUNPATH of the program's own files.
    pub own_directories: BTreeSet<PathBuf>,
    /// The user and the group of the executable.
    pub owner: Option<(u32, u32)>,
    /// Directories of files that it may open by path, beside other files of their family.
    pub tried_directories: BTreeSet<PathBuf>,
    /// The executable that the loader starts; `None` where it cannot be pinned.
    pub executable: Option<PathBuf>,
    /// It represents the programs of a project, whichever is started.
    pub is_any: bool,
    /// The libraries that it is known to open at run time, in order.
    pub loads: Vec<Load>,
    /// True if another current directory could lead to another decision.
    pub depends_on_directory: bool,
    /// It may open libraries in a namespace of their own (dlmopen), in which preloaded libraries are not visible.
    pub opens_namespaces: bool,
    /// Its own source starts other programs.
    pub starts_programs: bool,
    /// An installed command of Python, in whose environment nothing uses a GPU: only what it starts can.
    pub is_launcher: bool,
    /// It may change `LD_LIBRARY_PATH`, for itself or for a program that it starts.
    pub sets_library_path: bool,
    /// The directory into which PyInstaller packed its modules.
    pub frozen: Option<PathBuf>,
    /// The files and directories that all this was read from.
    pub watched: BTreeSet<PathBuf>,
    /// Paths whose existence and identity matter, but not their content.
    pub located: BTreeSet<PathBuf>,
    /// Its arguments tell it to start no program.
    pub starts_nothing: bool,
    /// The environment and the directory of the program, where a wrapper changes them.
    pub inside: Option<Surroundings>,
    /// The wrapper that keeps the environment of cudarun from the program, and how.
    pub loss: Option<(String, EnvironmentLoss)>,
    /// The variables of the stronger modes that a wrapper on the way sets or unsets.
    pub undone: BTreeSet<&'static str>,
}

/// The environment and the current directory of a program.
#[derive(Clone, Debug)]
pub struct Surroundings {
    pub environment: Environment,
    pub directory: PathBuf,
}

/// The way to call pip for one Python.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pip {
    pub python: PathBuf,
    /// It has its own pip; another one needs `--python`.
    pub is_own: bool,
}

/// One step from a name to what runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ResolveStep {
    pub how: StepKind,
    #[serde(serialize_with = "text::path")]
    pub to: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepKind {
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
    /// It is built without CUDA, and requires nothing.
    pub cpu_only: bool,
    pub standing: ImportCertainty,
    /// The place that imports it, if one is known.
    pub imported_by: Option<String>,
}

/// The executable at the end of links, `#!` lines and shims.
#[derive(Debug)]
pub(super) struct Running {
    /// As it is invoked, links not resolved: Python finds its environment by this name.
    pub executable: PathBuf,
    pub arguments: Vec<OsString>,
}

impl Program {
    /// The script that is to run and does not exist, with the system's words: its interpreter cannot start it either. One that
    /// cannot be read here may be a pipe, or be read as another user.
    pub fn unread_script(&self) -> Option<(&Path, &str)> {
        let script = self
            .steps
            .iter()
            .find(|step| step.how == StepKind::Script)?;
        self.notes.iter().find_map(|note| match note {
            Note::SourceNotRead {
                file,
                why,
                is_absent: true,
            } if *file == script.to => Some((file.as_path(), why.as_str())),
            _ => None,
        })
    }

    pub fn new(path: PathBuf) -> Program {
        let steps = vec![ResolveStep {
            how: StepKind::Path,
            to: path.clone(),
        }];
        Program {
            path,
            steps,
            machine: elf::X86_64,
            ..Program::default()
        }
    }

    /// True if the whole program was read, and it requires neither a library nor anything of the machine.
    pub fn needs_nothing(&self) -> bool {
        self.requirements.is_empty() && self.conditions.is_empty() && self.notes.is_empty()
    }

    /// True if a directory is in its Python environment.
    pub fn is_in_site(&self, directory: &Path) -> bool {
        self.site_packages
            .iter()
            .any(|site| directory.starts_with(site))
    }

    /// True if a directory is in its Python environment by more than the directory that Python starts in.
    pub fn is_installed_in(&self, directory: &Path) -> bool {
        self.site_packages
            .iter()
            .filter(|site| self.start_directory.as_ref() != Some(site))
            .any(|site| directory.starts_with(site))
    }

    /// True if those who can change a file can change the program as well.
    pub fn is_of_owner(&self, who: ChangedBy) -> bool {
        self.owner.is_some_and(|(uid, gid)| {
            who == ChangedBy::User { uid } || who == ChangedBy::Group { gid }
        })
    }

    pub(super) fn step(&mut self, how: StepKind, to: &Path) {
        self.steps.push(ResolveStep {
            how,
            to: to.to_owned(),
        });
        self.watched.insert(to.to_owned());
    }

    /// Resolves directories to their real paths, and drops repeated requirements.
    pub(super) fn settle(&mut self, host: &Host) {
        // A directory that does not exist yet would be searched once it does.
        let searched = self
            .requirements
            .iter()
            .flat_map(|requirement| &requirement.search_first);
        self.located
            .extend(searched.map(|first| first.directory.clone()));
        self.located.extend(self.own_directories.iter().cloned());
        let directories = std::mem::take(&mut self.own_directories);
        self.own_directories.extend(
            directories
                .iter()
                .filter_map(|directory| host.canonical(directory).ok()),
        );
        let mut real: BTreeMap<PathBuf, Option<PathBuf>> = BTreeMap::new();
        for mut requirement in std::mem::take(&mut self.requirements) {
            requirement
                .search_first
                .retain_mut(|EarlierDirectory { directory, .. }| {
                    let real = real
                        .entry(directory.clone())
                        .or_insert_with(|| host.canonical(directory).ok());
                    real.as_ref().is_some_and(|real| {
                        directory.clone_from(real);
                        true
                    })
                });
            self.own_directories.extend(
                requirement
                    .search_first
                    .iter()
                    .map(|first| first.directory.clone()),
            );
            let is_repeated = self
                .requirements
                .iter()
                .any(|known| known.is_repeated_by(&requirement));
            if !is_repeated {
                self.requirements.push(requirement);
            }
        }
    }

    /// Drops notes about frameworks that are imported from an unknown place, where a part of them was found.
    pub(super) fn forget_what_was_found(&mut self) {
        self.notes.retain(|note| {
            let Note::NotWhereItIsSought { module, .. } = note else {
                return true;
            };
            let framework = catalog().framework_of(module);
            framework.is_none_or(|framework| {
                self.packages
                    .iter()
                    .all(|known| known.name != framework.name)
            })
        });
    }

    /// Drops the requirements where a wrapper keeps the environment of cudarun from the program. Notes that only where the
    /// program has or may have requirements.
    pub(super) fn lose_environment(&mut self) {
        let Some((wrapper, loss)) = self.loss.clone() else {
            return;
        };
        if self.requirements.iter().any(Requirement::is_wish)
            || self.notes.iter().any(Note::hides_a_program)
        {
            self.requirements.clear();
            // Notes about the wrapper itself have this cause too.
            self.notes.retain(|note| {
                !note.hides_a_program() && !matches!(note, Note::SecureExecution { .. })
            });
            self.notes.push(Note::LosesEnvironment { wrapper, loss });
        }
    }

    /// Returns the program inside all wrappers.
    pub fn runs(&self) -> &Path {
        let step = self
            .steps
            .iter()
            .rfind(|step| step.how == StepKind::Wrapper);
        step.map_or(&self.path, |step| &step.to)
    }

    /// True if the program puts directories of its own first in `LD_LIBRARY_PATH`.
    pub fn rewrites_library_path(&self) -> bool {
        self.notes
            .iter()
            .any(|note| matches!(note, Note::Packed { .. }))
    }

    /// Returns the reason why no environment changes what the loader does for this program.
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
