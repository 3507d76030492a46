//! The program and what it needs, as values.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::note::{EnvironmentLoss, Note};
use crate::catalog::catalog;
use crate::environment::Environment;
use crate::formats::elf;
use crate::host::Host;
use crate::inventory::ChangedBy;
use crate::requirements::{
    Demand, EarlierDirectory, ImportCertainty, LibraryRequirement, Load, MachineRequirement,
    Requirement,
};
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
    /// The extension modules of imported packages that are linked against another framework's own libraries, each with the
    /// normalised name of its distribution, or else with a name of its own.
    pub extensions: BTreeMap<PathBuf, String>,
    pub requirements: Vec<Requirement>,
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
    /// It opens modules of its own for CUDA, and does without where one fails.
    pub has_modules: bool,
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
    #[serde(rename = "standing")]
    pub certainty: ImportCertainty,
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
        self.requirements.is_empty() && self.notes.is_empty()
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

    /// What it asks of libraries.
    pub fn library_requirements(&self) -> impl Iterator<Item = &LibraryRequirement> {
        self.requirements.iter().filter_map(Requirement::library)
    }

    pub fn library_requirements_mut(&mut self) -> impl Iterator<Item = &mut LibraryRequirement> {
        self.requirements.iter_mut().filter_map(|one| match one {
            Requirement::Library(requirement) => Some(requirement),
            Requirement::Machine(_) => None,
        })
    }

    /// What it asks of the machine and of the set as a whole.
    /// The imported frameworks that are built without CUDA, each with the file that tells so.
    pub fn cpu_builds(&self) -> impl Iterator<Item = (String, PathBuf)> {
        self.notes.iter().filter_map(|note| match note {
            Note::CpuOnly { package, file } => Some((package.clone(), file.clone())),
            _ => None,
        })
    }

    /// True if a GPU must really be used.
    pub fn demands_gpu(&self) -> bool {
        self.machine_requirements()
            .any(|requirement| requirement.demand == Demand::AnyGpu)
    }

    pub fn machine_requirements(&self) -> impl Iterator<Item = &MachineRequirement> {
        self.requirements.iter().filter_map(Requirement::machine)
    }

    pub fn require(&mut self, requirements: impl IntoIterator<Item = impl Into<Requirement>>) {
        self.requirements
            .extend(requirements.into_iter().map(Into::into));
    }

    /// Resolves directories to their real paths, and drops repeated requirements.
    pub(super) fn settle(&mut self, host: &Host) {
        for requirement in self.requirements.iter().filter_map(Requirement::library) {
            for first in &requirement.search_first {
                // A directory that does not exist yet would be searched once it does.
                self.located.insert(first.directory.clone());
            }
        }
        for directory in std::mem::take(&mut self.own_directories) {
            self.own_directories.extend(host.canonical(&directory).ok());
            self.located.insert(directory);
        }
        let mut real_paths: BTreeMap<PathBuf, Option<PathBuf>> = BTreeMap::new();
        for requirement in std::mem::take(&mut self.requirements) {
            let Requirement::Library(mut requirement) = requirement else {
                self.requirements.push(requirement);
                continue;
            };
            let search_first = std::mem::take(&mut requirement.search_first);
            for EarlierDirectory { directory, rule } in search_first {
                let real = real_paths
                    .entry(directory)
                    .or_insert_with_key(|directory| host.canonical(directory).ok());
                if let Some(real) = real {
                    self.own_directories.insert(real.clone());
                    requirement.search_first.push(EarlierDirectory {
                        directory: real.clone(),
                        rule,
                    });
                }
            }
            if !self
                .library_requirements()
                .any(|known| known.is_repeated_by(&requirement))
            {
                self.require([requirement]);
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
        if self.requirements.iter().any(Requirement::asks_for_family)
            || self.notes.iter().any(Note::hides_a_program)
        {
            self.requirements.retain(|one| one.machine().is_some());
            // Notes about the wrapper itself have this cause too.
            self.notes.retain(|note| {
                !note.hides_a_program() && !matches!(note, Note::SecureExecution { .. })
            });
            self.notes.push(Note::LosesEnvironment { wrapper, loss });
        }
    }

    /// The program inside all wrappers.
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

    /// The reason why no environment changes what the loader does for this program.
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
