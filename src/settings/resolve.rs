//! Puts options, variables and files in order, and turns them into requirements, conditions and variables.
//!
//! Requirements of files and variables do not apply to a program that needs no library of NVIDIA's, so that `cudarun
//! ls` starts in every project, nor to one that cannot be pinned. Options, and the program's own table, always apply.
//! Requirements from options, variables and the first file that names a family add up: otherwise `--require` would
//! silently drop what a project needs. For every other key the first layer wins.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::catalog::{self, catalog};
use crate::cli::{Common, FetchWhen, Wishes};
use crate::environment::{Change, Diff};
use crate::error::{Error, Reason};
use crate::host::Host;
use crate::inventory;
use crate::loader::search::Searcher;
use crate::pin;
use crate::program::{
    self, Command, Condition, Demand, Note, PinnedTo, Program, Requirement, Want,
};
use crate::range::Range;
use crate::settings::container::Malformed;
use crate::settings::files::{self, Choice, Found};
use crate::settings::read::{self, File};
use crate::settings::{
    BadLock, FaultKind, Key, Layer, Layers, Remark, Setting, SettingFault, SettingPlace, TOOLKIT,
    Value, Vocabulary, container, invocation, lock, trust,
};
use crate::variables;

/// The settings that count for one start.
pub struct Settings {
    /// The machine, with the variables that files set for the program.
    pub host: Host,
    pub layers: Layers,
    demands: Demands,
    /// Demands on programs that need a library of NVIDIA's, and on no others.
    demands_on_gpu_programs: Demands,
    /// Directories that pins name.
    pub directories: Vec<PathBuf>,
    pub variables: Diff,
    /// The project's file, allowed or not.
    pub project: Option<PathBuf>,
    pub watched: BTreeSet<PathBuf>,
    /// The start depends on the lock of the current directory, by a setting of the user's file or of that for all users.
    pub depends_on_directory: bool,
    /// Remarks about the settings themselves, for every verb to report.
    pub remarks: Vec<SettingRemark>,
    /// The remark about a project's file that is not allowed, which is among them.
    pub not_allowed: Option<SettingRemark>,
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
    pub fn boxed(note: &Note, program: &Program) -> Box<dyn Reason> {
        Box::new(NotPinnable {
            note: note.clone(),
            program: program.runs().to_owned(),
        })
    }
}

#[derive(Default)]
struct Demands {
    requirements: Vec<Requirement>,
    conditions: Vec<Condition>,
}

/// The use of settings, which decides about locks and about settings that are not allowed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A program starts: settings that are not allowed are an error.
    Start,
    /// A verb only answers: settings that are not allowed are ignored, with a remark.
    Answer,
    /// Like `Answer`, and files that cannot be used are ignored as well: `doctor` reports them.
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

pub fn vocabulary() -> Vocabulary {
    let families = catalog().families.iter();
    Vocabulary {
        families: families
            .map(|family| (family.name.as_str(), family.display.as_str()))
            .collect(),
        of_file: |name| {
            let of_file = catalog().family_of_file(Path::new(name));
            of_file.map(|(family, _)| family.name.as_str())
        },
        capability: catalog::capability_of,
        sources: inventory::source_names().collect(),
        own: env!("CARGO_PKG_VERSION")
            .parse()
            .expect("Cargo reads it as well"),
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
        let words = vocabulary();
        let variables = if purpose == Purpose::Examine {
            invocation::good_variables(&host.env, &words).0
        } else {
            invocation::variables(&host.env, &words)?
        };
        let given = [invocation::options(common, wishes, &words)?, variables];
        let files = ParsedFiles::read(host, common, command, &words);
        let lock = wishes.lock.as_deref();
        match files
            .and_then(|all| Settings::in_order(host, &given, &all, command, purpose, &words, lock))
        {
            Err(_) if purpose == Purpose::Examine => Settings::in_order(
                host,
                &given[..1],
                &ParsedFiles::default(),
                None,
                purpose,
                &words,
                None,
            ),
            settings => settings,
        }
    }

    fn in_order(
        host: &Host,
        given: &[Layer],
        files: &ParsedFiles,
        command: Option<&Command>,
        purpose: Purpose,
        words: &Vocabulary,
        lock: Option<&str>,
    ) -> Result<Settings, Error> {
        let mut remarks: Vec<SettingRemark> = files
            .files
            .iter()
            .flat_map(|file| &file.remarks)
            .cloned()
            .map(SettingRemark::Key)
            .collect();
        let in_order =
            |keep: &dyn Fn(&Setting) -> bool| in_order(given, &files.files, &files.names, keep);
        let mut layers = in_order(&|_| true);
        let mut watched = files.found.watched.clone();
        let mut not_allowed = None;
        if let Some((source, keys)) = distrusted(host, &files.found, &layers, &mut watched) {
            let remark = SettingRemark::NotAllowed {
                path: source.path.clone(),
                keys,
            };
            if matches!(
                purpose,
                Purpose::Start
                    | Purpose::Follow
                    | Purpose::Prepare
                    | Purpose::Question
                    | Purpose::Record
            ) {
                return Err(Error::Setting(Box::new(remark)));
            }
            remarks.push(remark.clone());
            not_allowed = Some(remark);
            layers =
                in_order(&|setting| !(setting.needs_trust() && setting.stands_in(&source.path)));
        }
        let variables = variables(&layers);
        let (conditions, malformed) = container::conditions(&host.env);
        remarks.extend(malformed.into_iter().map(SettingRemark::Malformed));
        let mut settings = Settings {
            host: host.inside(host.env.with(&variables), host.cwd.clone()),
            layers,
            demands: Demands::default(),
            demands_on_gpu_programs: Demands {
                conditions,
                requirements: Vec::new(),
            },
            directories: Vec::new(),
            variables,
            project: files.found.project().map(|source| source.path.clone()),
            watched,
            depends_on_directory: false,
            remarks,
            not_allowed,
            purpose,
        };
        settings.add_demands()?;
        let obeys_lock = match purpose {
            Purpose::Record => false,
            Purpose::Project => settings.has_project_lock(),
            Purpose::Start
            | Purpose::Follow
            | Purpose::Prepare
            | Purpose::Question
            | Purpose::Answer
            | Purpose::Examine => settings.layers.is_locked() && command.is_some(),
        };
        if obeys_lock {
            settings.obey_lock(words, lock)?;
        }
        Ok(settings)
    }
}

/// The files that count for a command line.
#[derive(Default)]
struct ParsedFiles {
    found: Found,
    files: Vec<File>,
    /// The names by which files may mean the program.
    names: BTreeSet<String>,
}

impl ParsedFiles {
    fn read(
        host: &Host,
        common: &Common,
        command: Option<&Command>,
        words: &Vocabulary,
    ) -> Result<ParsedFiles, Error> {
        let found = files::find(host, &choice(host, common))?;
        let read = |source: &files::Source| read::file(&source.bytes, &source.path, words);
        let files = found
            .sources
            .iter()
            .map(read)
            .collect::<Result<Vec<File>, SettingFault>>()?;
        let names = match command {
            Some(command) if files.iter().any(|file| !file.programs.is_empty()) => {
                names(host, command)?
            }
            _ => BTreeSet::new(),
        };
        Ok(ParsedFiles {
            found,
            files,
            names,
        })
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
    let typed = [Path::new(&command.program)];
    let named = typed
        .into_iter()
        .chain(steps)
        .filter_map(|path| path.file_name());
    Ok(named
        .map(|name| name.to_string_lossy().into_owned())
        .collect())
}

/// Returns the layers of the settings that `keep` accepts. In a file, settings for this program precede those for all.
fn in_order(
    given: &[Layer],
    files: &[File],
    names: &BTreeSet<String>,
    keep: &dyn Fn(&Setting) -> bool,
) -> Layers {
    let mut settings = Layers::default();
    let mut add = |layer: &Layer| {
        settings.add(
            layer
                .iter()
                .filter(|setting| keep(setting))
                .cloned()
                .collect(),
        );
    };
    let of_files = files.iter().map(|file| &file.layer);
    add(&given
        .iter()
        .chain(of_files)
        .flatten()
        .filter(|setting| forbids_to_fetch(setting))
        .cloned()
        .collect());
    given.iter().for_each(&mut add);
    for file in files {
        let of_program = file
            .programs
            .iter()
            .filter(|(name, _)| names.contains(name));
        of_program
            .map(|(_, layer)| layer)
            .chain([&file.layer])
            .for_each(&mut add);
    }
    settings
}

/// True if an administrator has said that nothing is fetched: no other setting counts then.
fn forbids_to_fetch(setting: &Setting) -> bool {
    let is_of_administrator = match &setting.from {
        SettingPlace::Variable(_) => true,
        SettingPlace::File { path, .. } => path == Path::new(files::ALL_USERS),
        SettingPlace::Option(_) => false,
    };
    setting.value == Value::FetchWhen(FetchWhen::Never) && is_of_administrator
}

/// Returns the project's file and those of its keys that need `cudarun allow` and are not allowed: a file that came with
/// a project does not decide about search directories and variables by itself.
fn distrusted<'f>(
    host: &Host,
    found: &'f Found,
    settings: &Layers,
    watched: &mut BTreeSet<PathBuf>,
) -> Option<(&'f files::Source, BTreeSet<String>)> {
    let source = found.project()?;
    let is_proposed = |setting: &&Setting| setting.needs_trust() && setting.stands_in(&source.path);
    let keys: BTreeSet<String> = settings
        .iter()
        .filter(is_proposed)
        .map(|setting| setting.key.name())
        .collect();
    if keys.is_empty() {
        return None;
    }
    watched.extend(trust::watched(host, &source.path, &source.bytes));
    (!trust::is_allowed(host, &source.path, &source.bytes)).then_some((source, keys))
}

fn variables(settings: &Layers) -> Diff {
    let change = |setting: &Setting| match (&setting.key, &setting.value) {
        (Key::Variable(name), Value::Variable(value)) => Some(Change {
            name: name.into(),
            value: value.as_ref().map(Into::into),
        }),
        _ => None,
    };
    Diff(settings.iter().filter_map(change).collect())
}

impl Settings {
    /// Turns settings into requirements and conditions.
    fn add_demands(&mut self) -> Result<(), Error> {
        for setting in self.layers.iter() {
            let demands = if setting.is_of_start {
                &mut self.demands
            } else {
                &mut self.demands_on_gpu_programs
            };
            let by = setting.from.asker();
            let (name, want) = match (&setting.key, &setting.value) {
                (Key::Requires(name), Value::Range(_)) if name == TOOLKIT => continue,
                (Key::Requires(name), Value::Range(range)) => {
                    match demand_on_machine(name, range) {
                        Some(demand) => {
                            let condition = Condition {
                                demand,
                                by,
                                only_with_gpu: false,
                                is_advice: false,
                            };
                            demands.conditions.push(condition);
                            continue;
                        }
                        None => (name, Want::Within(range.clone())),
                    }
                }
                (Key::Prefer(name), Value::Range(range)) => (name, Want::Preferred(range.clone())),
                (Key::Pin(name), Value::Version(version)) => {
                    (name, Want::Pinned(PinnedTo::Version(*version)))
                }
                (Key::Pin(name), Value::Directory(path)) => {
                    let real = pinned_directory(&self.host, path, setting)?;
                    self.directories.push(real.clone());
                    (name, Want::Pinned(PinnedTo::Directory(real)))
                }
                _ => continue,
            };
            demands
                .requirements
                .push(Requirement::wished(name, want, by));
        }
        Ok(())
    }

    /// True if a lock counts for all programs of the project. Its path is watched either way.
    fn has_project_lock(&mut self) -> bool {
        let path = files::lock(&self.host, self.project.as_deref());
        let is_there = self.host.lstat(&path).is_ok();
        self.watched.insert(path);
        let says = |flag| {
            self.layers
                .get(&Key::Locked)
                .any(|setting| setting.value == Value::Flag(flag))
        };
        says(true) || is_there && !says(false)
    }

    /// Adds the demands of the lock beside the project's file, or in the current directory. It must exist and be valid.
    fn obey_lock(&mut self, words: &Vocabulary, given: Option<&str>) -> Result<(), Error> {
        let path = files::lock(&self.host, self.project.as_deref());
        let mut lock = lock::lock(&files::read_lock(&self.host, &path, given)?, &path)?;
        for family in &mut lock.families {
            let place = SettingPlace::file(&path, family.line);
            let unknown = || place.fault(FaultKind::BadLock(BadLock::UnknownFamily));
            // A requirement of an unknown family would bind no program.
            family.name = words.family(&family.name).ok_or_else(unknown)?.to_owned();
        }
        let (requirements, conditions) = lock.asks(&path);
        let is_of_start = self
            .layers
            .get(&Key::Locked)
            .any(|setting| setting.is_of_start);
        let demands = if is_of_start {
            &mut self.demands
        } else {
            &mut self.demands_on_gpu_programs
        };
        demands.requirements.extend(requirements);
        demands.conditions.extend(conditions);
        self.watched.insert(path);
        // Variables are part of the key of a kept start already.
        let is_of_file = |setting: &Setting| matches!(setting.from, SettingPlace::File { .. });
        self.depends_on_directory =
            self.project.is_none() && self.layers.get(&Key::Locked).any(is_of_file);
        Ok(())
    }

    /// Reads the program. Packages that a file or a variable names do not count for a program that is not Python.
    pub fn read(&self, command: &Command) -> Result<(Program, Searcher<'_>), Error> {
        let host = &self.host;
        let uses = self.layers.words(&Key::Uses);
        let from = self
            .layers
            .get(&Key::Uses)
            .next()
            .map(|setting| &setting.from);
        let read = program::read(host, command, &uses);
        if let (Err(Error::NoSuchPackage { sites, .. }), Some(SettingPlace::Option(_))) =
            (&read, from)
        {
            // The packages are those of what it starts.
            let (program, searcher) = program::read(host, command, &[])?;
            if (sites.is_empty() || program.is_launcher) && self.starts_others(&program) {
                return Ok((program, searcher));
            }
        }
        match (read, from) {
            (Err(Error::NoSuchPackage { .. }), _) if self.purpose == Purpose::Follow => {
                program::read(host, command, &[])
            }
            (
                Err(Error::NoSuchPackage { sites, .. }),
                Some(SettingPlace::Variable(_) | SettingPlace::File { .. }),
            ) if sites.is_empty() => program::read(host, command, &[]),
            (
                Err(error @ Error::NoSuchPackage { .. }),
                Some(place @ (SettingPlace::Variable(_) | SettingPlace::File { .. })),
            ) => Err(Error::Setting(Box::new(BadPackage {
                place: place.clone(),
                error,
            }))),
            (read, _) => read,
        }
    }

    /// True if whatever the program starts is decided for itself as well.
    pub fn follows(&self, program: &Program) -> bool {
        self.purpose.starts() && self.would_follow(program)
    }

    /// True if a start of the program would be followed.
    pub fn would_follow(&self, program: &Program) -> bool {
        self.layers.follow() != Some(false) && pin::can_be_followed(&self.host, program)
    }

    /// True if a program that needs nothing itself starts others, which are decided for themselves.
    fn starts_others(&self, program: &Program) -> bool {
        let mut notes = program.notes.iter();
        let starts = program.is_launcher || notes.any(Note::is_mended_by_following);
        starts && self.follows(program)
    }

    /// Adds the demands to those of the program itself. A program that cannot be pinned ignores demands of files and
    /// variables; an option for it is an error.
    pub fn apply(&self, program: &mut Program) -> Result<(), Error> {
        let lost = program
            .loss
            .clone()
            .map(|(wrapper, loss)| Note::LosesEnvironment { wrapper, loss });
        // Files and images may demand a driver and still start `ls` without one.
        let needs = program.requirements.iter().any(Requirement::is_wish);
        // An option is then about what the program starts.
        let starts_others = !needs && self.starts_others(program);
        let cannot = program.cannot_be_pinned().filter(|_| !starts_others);
        if let Some(note) = lost.as_ref().or(cannot) {
            let option =
                self.layers
                    .iter()
                    .find_map(|setting| match (&setting.key, &setting.from) {
                        (
                            Key::Pin(_) | Key::Requires(_) | Key::Locked,
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
        let own = Some(&self.demands).filter(|_| !starts_others);
        let is_gpu_program = needs
            || self.purpose == Purpose::Project
            || own.is_some_and(|own| own.requirements.iter().any(Requirement::is_wish));
        for demands in [
            own,
            Some(&self.demands_on_gpu_programs).filter(|_| is_gpu_program),
        ] {
            let Some(Demands {
                requirements,
                conditions,
            }) = demands
            else {
                continue;
            };
            program.requirements.extend(requirements.iter().cloned());
            program.conditions.extend(conditions.iter().cloned());
        }
        Ok(())
    }
}

/// Returns the demand on the machine, if the name is not of a family.
fn demand_on_machine(name: &str, range: &Range) -> Option<Demand> {
    match name {
        "cuda" => Some(Demand::Cuda(range.clone())),
        "driver" => Some(Demand::Driver(range.clone())),
        "gpu" => Some(Demand::Gpu(range.clone())),
        _ => None,
    }
}

/// Returns the real path of a pinned directory, or of the directory of a pinned file.
fn pinned_directory(host: &Host, path: &Path, setting: &Setting) -> Result<PathBuf, Error> {
    let path = host.absolute(path);
    let directory = if host.is_file(&path) {
        path.parent()
    } else {
        Some(path.as_path())
    };
    let real = directory.and_then(|directory| host.canonical(directory).ok());
    real.filter(|real| host.is_directory(real)).ok_or_else(|| {
        setting
            .from
            .fault(FaultKind::NoDirectory {
                key: setting.key.name(),
                path: path.clone(),
            })
            .into()
    })
}
