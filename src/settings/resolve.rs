//! Puts options, variables and files in order, and turns them into requirements and variables.
//!
//! Requirements of files and variables do not apply to a program that needs no library of NVIDIA's, so that `cudarun
//! ls` starts in every project, nor to one that cannot be pinned. Options, and the program's own table, always apply.
//! Requirements from options, variables and the first file that names a family add up: otherwise `--require` would
//! silently drop what a project needs. For every other key the first layer wins.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::cli::{Common, LibraryOptions};
use crate::environment::Diff;
use crate::error::Error;
use crate::host::Host;
use crate::requirements::{
    Demand, LibraryRequirement, MachineRequirement, PinnedTo, Requirement, Want,
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
    pub requirements: Vec<Requirement>,
    /// Requirements of programs that need a library of NVIDIA's, and of no others.
    pub requirements_of_gpu_programs: Vec<Requirement>,
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

/// Options, variables and files as they were read, not yet in order.
pub struct SettingSources {
    options: SettingLayer,
    variables: SettingLayer,
    found: SettingsFiles,
    files: Vec<SettingsFile>,
    faults: Vec<SettingFault>,
    /// The text of a lock that no file has yet.
    lock: Option<String>,
    purpose: Purpose,
}

impl SettingSources {
    pub fn read(
        host: &Host,
        common: &Common,
        library_options: &LibraryOptions,
        purpose: Purpose,
    ) -> Result<SettingSources, Error> {
        let options = invocation::options(common, library_options)?;
        let (variables, mut faults) = invocation::variables(&host.env);
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
        Ok(SettingSources {
            options,
            variables,
            found,
            files,
            faults,
            lock: library_options.lock.clone(),
            purpose,
        })
    }

    /// True if a file has settings for single programs, so that the names of the program count.
    pub fn name_programs(&self) -> bool {
        self.files.iter().any(|file| !file.programs.is_empty())
    }

    /// Options first, then variables, then files. In a file, settings for this program precede those for all.
    fn in_order(&self, names: &BTreeSet<String>) -> Vec<&SettingLayer> {
        let mut in_order = vec![&self.options, &self.variables];
        for file in &self.files {
            for (name, layer) in &file.programs {
                if names.contains(name) {
                    in_order.push(layer);
                }
            }
            in_order.push(&file.layer);
        }
        in_order
    }
}

impl Settings {
    /// Puts the sources in order. `names` are those of the program, none where there is no program.
    pub fn resolve(
        host: &Host,
        sources: SettingSources,
        names: Option<&BTreeSet<String>>,
    ) -> Result<Settings, Error> {
        let purpose = sources.purpose;
        let no_names = BTreeSet::new();
        let in_order = sources.in_order(names.unwrap_or(&no_names));
        let mut layers = layers(&in_order, |_| true);
        let mut remarks: Vec<SettingRemark> = Vec::new();
        for file in &sources.files {
            remarks.extend(file.remarks.iter().cloned().map(SettingRemark::Key));
        }
        let found = &sources.found;
        let mut watched = found.watched.clone();
        if let Some((source, keys)) = distrusted(host, found, &layers, &mut watched) {
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
            found: sources.found,
            files: sources.files,
            watched,
            depends_on_directory: false,
            remarks,
            faults: sources.faults,
            purpose,
        };
        settings.add_requirements()?;
        let obeys_lock = match purpose {
            Purpose::Record => false,
            Purpose::Project => settings.has_project_lock(),
            _ => settings.layers.is_locked() && names.is_some(),
        };
        if obeys_lock {
            settings.obey_lock(sources.lock.as_deref())?;
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
