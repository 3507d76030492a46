//! Puts options, variables and files in order, and turns them into requirements and variables.
//!
//! Requirements of files and variables do not apply to a program that needs no library of NVIDIA's, so that `cudarun
//! ls` starts in every project, nor to one that cannot be pinned. Options, and the program's own table, always apply.
//! Requirements from options, variables and the first file that names a family add up: otherwise `--require` would
//! silently drop what a project needs. For every other key the first layer wins.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::cli::{Common, Wishes};
use crate::environment::Diff;
use crate::error::{Error, TypedReason};
use crate::host::Host;
use crate::loader::search::Searcher;
use crate::pin;
use crate::program::{
    self, Command, Demand, LibraryRequirement, MachineRequirement, Note, PinnedTo, Program,
    Requirement, Want,
};
use crate::settings::container::Malformed;
use crate::settings::files::{self, Choice, SettingsFiles};
use crate::settings::read::{self, SettingsFile};
use crate::settings::{
    FaultKind, Layers, Remark, Setting, SettingFault, SettingKey, SettingLayer, SettingPlace,
    TOOLKIT, Value, container, invocation, keys, lock, trust,
};
use crate::variables;

/// The settings that count for one start.
pub struct Settings {
    /// The machine, with the variables that files set for the program.
    pub host: Host,
    pub layers: Layers,
    requirements: Vec<Requirement>,
    /// Requirements of programs that need a library of NVIDIA's, and of no others.
    requirements_of_gpu_programs: Vec<Requirement>,
    /// Directories that pins name.
    pub directories: Vec<PathBuf>,
    pub variables: Diff,
    /// All files with settings, and what those say that can be read.
    pub found: SettingsFiles,
    pub files: Vec<SettingsFile>,
    pub watched: BTreeSet<PathBuf>,
    /// The start depends on the lock of the current directory, by a setting of the user's file or of that for all users.
    pub depends_on_directory: bool,
    /// Remarks about the settings themselves, for every verb to report.
    pub remarks: Vec<SettingRemark>,
    /// What cannot be used. Only for `Examine`, it is no error.
    pub faults: Vec<SettingFault>,
    pub purpose: Purpose,
}

/// A remark about settings.
#[derive(Clone, Debug)]
pub enum SettingRemark {
    /// An unknown key, which is ignored.
    Key(Remark),
    /// A condition of a container image that cannot be parsed.
    Malformed(Malformed),
    /// Keys of a project's file that need `cudarun allow`.
    NotAllowed {
        path: PathBuf,
        keys: BTreeSet<String>,
    },
}

/// A file or a variable names a package that the program does not have.
#[derive(Debug)]
pub struct BadPackage {
    pub place: SettingPlace,
    pub error: Error,
}

/// Nothing can be pinned for a program.
#[derive(Debug)]
pub struct NotPinnable {
    pub note: Note,
    pub program: PathBuf,
}

impl NotPinnable {
    pub fn boxed(note: &Note, program: &Program) -> Box<dyn TypedReason> {
        Box::new(NotPinnable {
            note: note.clone(),
            program: program.runs().to_owned(),
        })
    }
}

/// The use of settings, which decides about locks and about settings that are not allowed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A program starts: settings that are not allowed are an error.
    Start,
    /// A verb only answers: settings that are not allowed are ignored, with a remark.
    Answer,
    /// Like `Answer`, and what cannot be used is ignored as well: `doctor` reports it.
    Examine,
    /// Like `Start`, for a process that nobody typed cudarun for: packages that its environment lacks are not for it.
    Follow,
    /// Like `Start`, for a verb that starts nothing.
    Question,
    /// Like `Start`, for a program that somebody starts later: in a shell, or with variables that are printed.
    Prepare,
    /// Like `Start`, for a verb that writes a lock and obeys none.
    Record,
    /// Like `Answer`, for all programs of a project: a lock counts if it exists.
    Project,
}

impl Purpose {
    /// True if a program starts, now or later.
    pub fn starts(self) -> bool {
        matches!(self, Purpose::Start | Purpose::Follow | Purpose::Record) || self.starts_later()
    }

    /// True if somebody else starts the program.
    pub fn starts_later(self) -> bool {
        matches!(self, Purpose::Prepare | Purpose::Project)
    }
}

impl Settings {
    /// Reads options, variables and files, and puts them in order. Without a command, settings for single programs do not
    /// count.
    pub fn resolve(
        host: &Host,
        common: &Common,
        wishes: &Wishes,
        command: Option<&Command>,
        purpose: Purpose,
    ) -> Result<Settings, Error> {
        let options = invocation::options(common, wishes)?;
        let (of_variables, mut faults) = invocation::variables(&host.env);
        let mut found = files::find(host, &choice(host, common));
        faults.append(&mut found.faults);
        let mut files: Vec<SettingsFile> = Vec::new();
        for source in &found.sources {
            match read::file(&source.bytes, &source.path) {
                Ok(file) => files.push(file),
                Err(fault) => faults.push(fault),
            }
        }
        if purpose != Purpose::Examine && !faults.is_empty() {
            return Err(faults.swap_remove(0).into());
        }

        // In a file, settings for this program precede those for all.
        let names = match command {
            Some(command) if files.iter().any(|file| !file.programs.is_empty()) => {
                names(host, command)?
            }
            _ => BTreeSet::new(),
        };
        let mut in_order: Vec<&SettingLayer> = vec![&options, &of_variables];
        for file in &files {
            let programs = file.programs.iter();
            let of_program = programs.filter(|(name, _)| names.contains(name));
            in_order.extend(of_program.map(|(_, layer)| layer).chain([&file.layer]));
        }
        let mut layers = layers(&in_order, |_| true);
        let mut remarks: Vec<SettingRemark> = Vec::new();
        remarks.extend(
            files
                .iter()
                .flat_map(|file| &file.remarks)
                .cloned()
                .map(SettingRemark::Key),
        );
        let mut watched = found.watched.clone();
        if let Some((source, keys)) = distrusted(host, &found, &layers, &mut watched) {
            let remark = SettingRemark::NotAllowed {
                path: source.path.clone(),
                keys,
            };
            if !matches!(
                purpose,
                Purpose::Answer | Purpose::Examine | Purpose::Project
            ) {
                return Err(Error::Setting(Box::new(remark)));
            }
            remarks.push(remark);
            layers = self::layers(&in_order, |setting| !setting.is_proposed_by(&source.path));
        }

        let variables = variables(&layers);
        let (of_image, malformed) = container::requirements(&host.env);
        remarks.extend(malformed.into_iter().map(SettingRemark::Malformed));
        let mut settings = Settings {
            host: host.inside(host.env.with(&variables), host.cwd.clone()),
            layers,
            requirements: Vec::new(),
            requirements_of_gpu_programs: of_image.into_iter().map(Requirement::Machine).collect(),
            directories: Vec::new(),
            variables,
            found,
            files,
            watched,
            depends_on_directory: false,
            remarks,
            faults,
            purpose,
        };
        settings.add_requirements()?;
        let obeys_lock = match purpose {
            Purpose::Record => false,
            Purpose::Project => settings.has_project_lock(),
            _ => settings.layers.is_locked() && command.is_some(),
        };
        if obeys_lock {
            settings.obey_lock(wishes.lock.as_deref())?;
        }
        Ok(settings)
    }
}

pub fn choice(host: &Host, common: &Common) -> Choice {
    match (&common.config, host.env.non_empty(variables::CONFIG)) {
        _ if common.no_config => Choice::Nothing,
        (Some(path), _) => Choice::Named(path.clone()),
        (None, Some(path)) => Choice::Named(path.into()),
        (None, None) => Choice::Nearest,
    }
}

impl From<SettingFault> for Error {
    fn from(fault: SettingFault) -> Error {
        Error::Setting(Box::new(fault))
    }
}

/// Returns the file names of the program: as typed, and of each step to the program that really runs.
fn names(host: &Host, command: &Command) -> Result<BTreeSet<String>, Error> {
    let (program, _) = program::read(host, command, &[])?;
    let steps = program.steps.iter().map(|step| step.to.as_path());
    let paths = steps.chain([Path::new(&command.program)]);
    let names = paths.filter_map(Path::file_name);
    Ok(names
        .map(|name| name.to_string_lossy().into_owned())
        .collect())
}

/// Returns the settings that count, of those that `keep` accepts.
fn layers(in_order: &[&SettingLayer], keep: impl Fn(&Setting) -> bool) -> Layers {
    let mut layers = Layers::default();
    let all = in_order.iter().copied().flatten();
    layers.add(all.filter(|setting| forbids_to_fetch(setting)).cloned());
    for layer in in_order {
        layers.add(layer.iter().filter(|setting| keep(setting)).cloned());
    }
    layers
}

/// True if an administrator has said that nothing is fetched: no other setting counts then.
fn forbids_to_fetch(setting: &Setting) -> bool {
    let is_of_administrator = match &setting.from {
        SettingPlace::Variable(_) => true,
        SettingPlace::File { path, .. } => path == Path::new(files::ALL_USERS),
        SettingPlace::Option(_) => false,
    };
    let never = Value::Words(vec!["never".to_owned()]);
    setting.key == SettingKey::FetchWhen && setting.value == never && is_of_administrator
}

/// Returns the project's file and those of its keys that need `cudarun allow` and are not allowed: a file that came with
/// a project does not decide about search directories and variables by itself.
fn distrusted<'f>(
    host: &Host,
    found: &'f SettingsFiles,
    settings: &Layers,
    watched: &mut BTreeSet<PathBuf>,
) -> Option<(&'f files::SettingsSource, BTreeSet<String>)> {
    let source = found.project()?;
    let proposed = settings
        .iter()
        .filter(|setting| setting.is_proposed_by(&source.path));
    let keys: BTreeSet<String> = proposed.map(Setting::name).collect();
    if keys.is_empty() {
        return None;
    }
    watched.extend(trust::watched(host, &source.path, &source.bytes));
    (!trust::is_allowed(host, &source.path, &source.bytes)).then_some((source, keys))
}

fn variables(settings: &Layers) -> Diff {
    let change = |setting: &Setting| match &setting.value {
        Value::Variable(value) => Some(((&setting.of).into(), value.as_ref().map(Into::into))),
        _ => None,
    };
    Diff(settings.iter().filter_map(change).collect())
}

impl Settings {
    /// The project's file, allowed or not.
    pub fn project(&self) -> Option<&Path> {
        self.found.project().map(|source| source.path.as_path())
    }

    /// The lock of the project, or else that in the current directory.
    pub fn lock_file(&self) -> PathBuf {
        files::lock(&self.host, self.project())
    }

    /// The remark about a project's file that is not allowed.
    pub fn not_allowed(&self) -> Option<&SettingRemark> {
        let mut remarks = self.remarks.iter();
        remarks.find(|remark| matches!(remark, SettingRemark::NotAllowed { .. }))
    }

    /// Turns settings into requirements.
    fn add_requirements(&mut self) -> Result<(), Error> {
        for setting in self.layers.iter() {
            let requirements = if setting.is_of_start {
                &mut self.requirements
            } else {
                &mut self.requirements_of_gpu_programs
            };
            let by = setting.from.asker();
            let name = &setting.of;
            let want = match (setting.key, &setting.value) {
                (SettingKey::Requires, _) if name == TOOLKIT => continue,
                (SettingKey::Requires, Value::Range(range)) => {
                    if let Some(demand) = Demand::of_person(name, range) {
                        requirements.push(MachineRequirement::of_person(demand, by).into());
                        continue;
                    }
                    Want::Within(range.clone())
                }
                (SettingKey::Prefer, Value::Range(range)) => Want::Preferred(range.clone()),
                (SettingKey::Pin, Value::Version(version)) => {
                    Want::Pinned(PinnedTo::Version(*version))
                }
                (SettingKey::Pin, Value::Directories(paths)) => {
                    match pinned_directory(&self.host, &paths[0], setting) {
                        Ok(real) => {
                            self.directories.push(real.clone());
                            Want::Pinned(PinnedTo::Directory(real))
                        }
                        Err(fault) if self.purpose == Purpose::Examine => {
                            self.faults.push(fault);
                            continue;
                        }
                        Err(fault) => return Err(fault.into()),
                    }
                }
                _ => continue,
            };
            requirements.push(LibraryRequirement::of_person(name, want, by).into());
        }
        Ok(())
    }

    /// True if a lock counts for all programs of the project. Its path is watched either way.
    fn has_project_lock(&mut self) -> bool {
        let path = self.lock_file();
        let is_there = self.host.lstat(&path).is_ok();
        self.watched.insert(path);
        self.layers.flag(SettingKey::Locked).unwrap_or(is_there)
    }

    /// Adds the requirements of the lock beside the project's file, or in the current directory. It must exist and be valid.
    fn obey_lock(&mut self, given: Option<&str>) -> Result<(), Error> {
        let path = self.lock_file();
        let mut lock = lock::lock(&files::read_lock(&self.host, &path, given)?, &path)?;
        for family in &mut lock.families {
            let unknown = || {
                let why = "it names a family that this cudarun does not know".to_owned();
                SettingPlace::file(&path, family.line).fault(FaultKind::BadLock(why))
            };
            // A requirement of an unknown family would bind no program.
            family.name = keys::family(&family.name).ok_or_else(unknown)?.to_owned();
        }
        let requirements = if self.layers.is_of_start(SettingKey::Locked) {
            &mut self.requirements
        } else {
            &mut self.requirements_of_gpu_programs
        };
        requirements.extend(lock.requirements(&path));
        self.watched.insert(path);
        // Variables are part of the key of a kept start already.
        self.depends_on_directory = self.project().is_none()
            && self.layers.get(SettingKey::Locked).any(Setting::is_of_file);
        Ok(())
    }

    /// Reads the program. Packages that a file or a variable names do not count for a program that is not Python.
    pub fn read(&self, command: &Command) -> Result<(Program, Searcher<'_>), Error> {
        let host = &self.host;
        let uses = self.layers.words(SettingKey::Uses);
        let from = self.layers.get(SettingKey::Uses).next();
        let read = program::read(host, command, &uses);
        let (Err(Error::NoSuchPackage { sites, .. }), Some(setting)) = (&read, from) else {
            return read;
        };
        let is_option = matches!(setting.from, SettingPlace::Option(_));
        let (program, searcher) = program::read(host, command, &[])?;
        let counts = match self.purpose {
            Purpose::Follow => false,
            // The packages are those of what it starts.
            _ if is_option && (sites.is_empty() || program.is_launcher) => {
                !self.starts_others(&program)
            }
            _ => is_option || !sites.is_empty(),
        };
        if !counts {
            return Ok((program, searcher));
        }
        match read {
            Err(error) if !is_option => Err(Error::Setting(Box::new(BadPackage {
                place: setting.from.clone(),
                error,
            }))),
            read => read,
        }
    }

    /// True if whatever the program starts is decided for itself as well.
    pub fn follows(&self, program: &Program) -> bool {
        self.purpose.starts() && self.would_follow(program)
    }

    /// True if a start of the program would be followed.
    pub fn would_follow(&self, program: &Program) -> bool {
        self.layers.flag(SettingKey::Follow) != Some(false)
            && pin::can_be_followed(&self.host, program)
    }

    /// True if a program that needs nothing itself starts others, which are decided for themselves.
    fn starts_others(&self, program: &Program) -> bool {
        let mut notes = program.notes.iter();
        let starts = program.is_launcher || notes.any(Note::is_mended_by_following);
        starts && self.follows(program)
    }

    /// Adds the requirements to those of the program itself. A program that cannot be pinned ignores those of files and
    /// variables; an option for it is an error.
    pub fn apply(&self, program: &mut Program) -> Result<(), Error> {
        let lost = program
            .loss
            .clone()
            .map(|(wrapper, loss)| Note::LosesEnvironment { wrapper, loss });
        // Files and images may demand a driver and still start `ls` without one.
        let needs = program
            .requirements
            .iter()
            .any(Requirement::asks_for_family);
        // An option is then about what the program starts.
        let starts_others = !needs && self.starts_others(program);
        let cannot = program.cannot_be_pinned().filter(|_| !starts_others);
        if let Some(note) = lost.as_ref().or(cannot) {
            let option =
                self.layers
                    .iter()
                    .find_map(|setting| match (setting.key, &setting.from) {
                        (
                            SettingKey::Pin | SettingKey::Requires | SettingKey::Locked,
                            SettingPlace::Option(name),
                        ) => Some(*name),
                        _ => None,
                    });
            return match option {
                Some(option) => Err(Error::NotPinned {
                    option,
                    why: NotPinnable::boxed(note, program),
                }),
                None => Ok(()),
            };
        }
        let own = (!starts_others).then_some(&self.requirements);
        let is_gpu_program = needs
            || self.purpose == Purpose::Project
            || own.is_some_and(|own| own.iter().any(Requirement::asks_for_family));
        let others = is_gpu_program.then_some(&self.requirements_of_gpu_programs);
        for requirements in own.into_iter().chain(others) {
            program.requirements.extend_from_slice(requirements);
        }
        Ok(())
    }
}

/// Returns the real path of a pinned directory, or of the directory of a pinned file.
fn pinned_directory(host: &Host, path: &Path, setting: &Setting) -> Result<PathBuf, SettingFault> {
    let path = host.absolute(path);
    let directory = if host.is_file(&path) {
        path.parent()
    } else {
        Some(path.as_path())
    };
    let real = directory.and_then(|directory| host.canonical(directory).ok());
    real.filter(|real| host.is_directory(real)).ok_or_else(|| {
        let text = path.to_string_lossy();
        setting
            .from
            .fault(FaultKind::invalid(&setting.name(), &text, "a directory"))
    })
}
