//! The types of settings.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use semver::VersionReq;
use serde::{Serialize, Serializer};

use crate::cli::{FetchWhen, OnFailure, When, is_toolkit};
use crate::host::Unsafe;
use crate::inventory::Origin;
use crate::modes::{Level, Mode};
use crate::program::Asker;
use crate::range::Range;
use crate::text::{self, plain, short, show};
use crate::version::{ComputeCapability, Version};

/// The name of a project's file, and of the lock beside it.
pub const PROJECT: &str = ".cudarun.toml";
pub const LOCK: &str = ".cudarun.lock";

/// Names in `requires` that are about the machine or a build, beside families.
pub(super) const OF_MACHINE: [&str; 4] = ["cuda", "driver", "gpu", TOOLKIT];
/// The name of a toolkit for builds in `requires`.
pub const TOOLKIT: &str = "cuda-toolkit";

/// One thing that can be set. `Requires` names a family or one of `OF_MACHINE`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Requires(String),
    Pin(String),
    Prefer(String),
    PreferOrigin,
    SearchAlso,
    SearchWithout,
    Verify,
    VerifyLevel,
    Variable(String),
    Uses,
    PinMode,
    Locked,
    Follow,
    OnFailure,
    FetchWhen,
    FetchFrom,
    FetchStore,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Range(Range),
    Version(Version),
    Directory(PathBuf),
    Directories(Vec<PathBuf>),
    Words(Vec<String>),
    Origins(Vec<Origin>),
    When(When),
    Level(Level),
    Mode(Mode),
    OnFailure(OnFailure),
    FetchWhen(FetchWhen),
    Flag(bool),
    /// None removes the variable.
    Variable(Option<String>),
}

/// The place of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingPlace {
    Option(&'static str),
    Variable(String),
    File { path: PathBuf, line: Option<usize> },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    pub key: Key,
    pub value: Value,
    pub from: SettingPlace,
    /// The setting is about this start or this program, not about all programs that run here.
    pub is_of_start: bool,
}

/// The settings of one place. A key may occur more than once, since options can be repeated.
pub type Layer = Vec<Setting>;

/// The settings that count: those of the first layer that names a key.
#[derive(Clone, Debug, Default)]
pub struct Layers(BTreeMap<Key, Vec<Setting>>);

/// A setting or a file that cannot be used.
#[derive(Clone, Debug, PartialEq)]
pub struct SettingFault {
    pub place: SettingPlace,
    pub wrong: FaultKind,
    pub excerpt: Option<Box<Excerpt>>,
}

/// The line at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    pub text: String,
    /// The byte of the line at which the fault is.
    pub at: usize,
}

/// The sentences follow the place.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FaultKind {
    /// `why` is the operating system's message.
    #[error(" cannot be read: {}", plain(&show(.why)).to_lowercase())]
    Unreadable { why: String },
    #[error(": no such file")]
    NoFile,
    #[error(" is not a regular file")]
    NotRegular,
    #[error(" is larger than {limit} bytes")]
    TooLarge { limit: u64 },
    #[error(": not UTF-8")]
    NotText,
    /// `what` is the parser's message.
    #[error(": {}", not_toml(.what))]
    NotToml { what: String },
    #[error("{} must be {wants}, but is of type {has}", named(.key))]
    Type {
        key: String,
        wants: ExpectedValue,
        has: &'static str,
    },
    #[error("{}: `{}` is not {wants}", named(.key), short(.text))]
    BadValue {
        key: String,
        wants: ExpectedValue,
        text: String,
    },
    #[error("{}: no version is in the range `{}`", named(.key), short(.text))]
    EmptyRange { key: String, text: String },
    #[error(" `{}` is neither FAMILY=VERSION nor FAMILY=DIRECTORY", show(.word))]
    BadPin { word: String },
    #[error(": unknown library family `{}`", show(.name))]
    NoFamily {
        name: String,
        known: Vec<&'static str>,
    },
    #[error("{}: unknown value `{}`", named(.key), short(.text))]
    NotOneOf {
        key: String,
        text: String,
        known: Vec<String>,
    },
    #[error("{}: no such directory `{}`", named(.key), show(.path))]
    NoDirectory { key: String, path: PathBuf },
    #[error(": needs cudarun {needed}, but this is cudarun {own}")]
    OtherCudarun {
        needed: VersionReq,
        own: semver::Version,
    },
    #[error(" is ignored: another user can change it: {}", .0.at(Path::new("")))]
    Unsafe(Unsafe),
    #[error(" is ignored: another user created it in {}, where all users can create files", show(.directory))]
    OfAStranger { directory: PathBuf },
    #[error(" does not exist")]
    NoLock,
    #[error(": this lock cannot be used: {0}")]
    BadLock(BadLock),
}

fn named(key: &str) -> String {
    match key {
        "" => String::new(),
        key => format!(": `{}`", short(key)),
    }
}

fn not_toml(what: &str) -> String {
    // The parser took the first letter of a word for that of `false`, `inf`, `nan` or `true`.
    if what.starts_with("invalid float, expected `") || what.starts_with("invalid boolean") {
        "this is not a value; a string needs quotes".to_owned()
    } else {
        show(what)
    }
}

/// The kind of value that a key takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpectedValue {
    #[error("a table")]
    Table,
    #[error("a string")]
    Text,
    #[error("a list of strings")]
    Texts,
    #[error("true or false")]
    Flag,
    #[error("a version such as \"0.1\"")]
    CudarunVersion,
    #[error("a range of cudarun versions such as \">=0.2\"")]
    CudarunRange,
    #[error("a range of versions such as \">=9.1,<10\"")]
    Range,
    #[error("a name and a range of versions such as `cudnn>=9.1,<10`")]
    NameAndRange,
    #[error("a compute capability such as \">=8.0\"")]
    Capability,
    #[error("a version or a directory")]
    VersionOrDirectory,
    #[error("the name of a variable")]
    VariableName,
    #[error("text without a NUL")]
    TextWithoutNul,
    #[error("a string, or false to unset the variable")]
    TextOrFalse,
}

/// Why a lock cannot be obeyed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadLock {
    #[error("{}", show(.message))]
    Content {
        /// The parser's message.
        message: String,
    },
    #[error("it has another format")]
    OtherFormat,
    #[error("it has no family")]
    NoFamily,
    #[error("it has too many families")]
    TooManyFamilies,
    #[error("it names a family that this cudarun does not know")]
    UnknownFamily,
    #[error("`driver` must be `>=` and a version")]
    DriverIsNoFloor,
}

/// An unknown key, which is reported and ignored.
#[derive(Clone, Debug, PartialEq)]
pub struct Remark {
    pub place: SettingPlace,
    pub key: String,
    pub known: Vec<String>,
    /// The table that such a key belongs to: empty for the top of the file.
    pub belongs: Option<&'static str>,
}

/// The names that settings may use, so that a parser needs no catalog.
#[derive(Clone, Debug)]
pub struct Vocabulary {
    /// Each family's own name, and the proper one.
    pub families: Vec<(&'static str, &'static str)>,
    /// The family of a file by its name: `libcudnn.so.9`.
    pub of_file: fn(&str) -> Option<&'static str>,
    /// The compute capability of a GPU by its name: `H100`.
    pub capability: fn(&str) -> Option<ComputeCapability>,
    pub sources: Vec<&'static str>,
    /// The version of this cudarun.
    pub own: semver::Version,
}

impl Vocabulary {
    pub fn family(&self, word: &str) -> Option<&'static str> {
        let is_word = |name: &str| name.eq_ignore_ascii_case(word);
        let named = self
            .families
            .iter()
            .find(|(name, proper)| is_word(name) || is_word(proper));
        named
            .map(|(name, _)| *name)
            .or_else(|| (self.of_file)(word))
    }

    /// Returns the name of a family, or of a part of the machine, that `requires` may hold.
    pub(super) fn requirement(&self, word: &str) -> Option<&'static str> {
        let is_it =
            |name: &&str| name.eq_ignore_ascii_case(word) || *name == TOOLKIT && is_toolkit(word);
        let machine = OF_MACHINE.into_iter().find(is_it);
        machine.or_else(|| self.family(word))
    }
}

impl Excerpt {
    /// Returns the line of the byte at this offset.
    pub(super) fn at(text: &str, at: usize) -> Option<Box<Excerpt>> {
        let (before, after) = text.split_at_checked(at)?;
        let start = before.rfind('\n').map_or(0, |end| end + 1);
        let end = at + after.find('\n').unwrap_or(after.len());
        let line = text[start..end].trim_end_matches('\r');
        Some(Box::new(Excerpt {
            text: line.to_owned(),
            at: (at - start).min(line.len()),
        }))
    }
}

impl SettingPlace {
    pub fn file(path: &Path, line: usize) -> SettingPlace {
        SettingPlace::File {
            path: path.to_owned(),
            line: Some(line),
        }
    }

    pub(super) fn whole_file(path: &Path) -> SettingPlace {
        SettingPlace::File {
            path: path.to_owned(),
            line: None,
        }
    }

    pub(super) fn fault(&self, wrong: FaultKind) -> SettingFault {
        SettingFault {
            place: self.clone(),
            wrong,
            excerpt: None,
        }
    }

    /// Returns the name for messages; a project's file goes by its file name, since there is only one.
    pub fn title(&self) -> String {
        match self {
            SettingPlace::Option(name) => (*name).to_owned(),
            SettingPlace::Variable(name) => text::show(name),
            SettingPlace::File { path, line } => {
                let short = path
                    .file_name()
                    .filter(|name| *name == PROJECT || *name == LOCK);
                let name = text::show(short.map_or(path.as_path(), Path::new));
                line.map_or(name.clone(), |line| format!("{name}:{line}"))
            }
        }
    }

    pub fn asker(&self) -> Asker {
        match self {
            SettingPlace::File { path, line } => Asker::person(&self.title(), path.clone(), *line),
            _ => Asker::person(&self.title(), self.title().into(), None),
        }
    }
}

impl Key {
    /// True if a person demands something of the set by it: a program that breaks that must not start.
    pub fn is_demand(&self) -> bool {
        matches!(self, Key::Requires(_) | Key::Pin(_) | Key::PinMode)
    }

    /// Returns the key as files spell it.
    pub fn name(&self) -> String {
        match self {
            Key::Requires(name) => format!("requires.{name}"),
            Key::Pin(name) => format!("pin.{name}"),
            Key::Prefer(name) => format!("prefer.{name}"),
            Key::PreferOrigin => "prefer.origin".to_owned(),
            Key::SearchAlso => "search.also".to_owned(),
            Key::SearchWithout => "search.without".to_owned(),
            Key::Verify => "verify.when".to_owned(),
            Key::VerifyLevel => "verify.level".to_owned(),
            Key::Variable(name) => format!("env.{name}"),
            Key::Uses => "uses".to_owned(),
            Key::PinMode => "pin-mode".to_owned(),
            Key::Locked => "locked".to_owned(),
            Key::Follow => "follow".to_owned(),
            Key::OnFailure => "run.on-failure".to_owned(),
            Key::FetchWhen => "fetch.when".to_owned(),
            Key::FetchFrom => "fetch.from".to_owned(),
            Key::FetchStore => "fetch.store".to_owned(),
        }
    }
}

impl Setting {
    /// True if it makes programs read other files or variables, or weakens a check: a project's file may set that only after
    /// `cudarun allow`.
    pub fn needs_trust(&self) -> bool {
        match (&self.key, &self.value) {
            (Key::SearchWithout | Key::Variable(_) | Key::PinMode | Key::Follow, _)
            | (_, Value::Directory(_) | Value::Directories(_) | Value::When(When::Never)) => true,
            (_, Value::FetchWhen(when)) => *when == FetchWhen::Always,
            (_, Value::Level(level)) => *level < Level::default(),
            _ => false,
        }
    }

    pub fn stands_in(&self, file: &Path) -> bool {
        matches!(&self.from, SettingPlace::File { path, .. } if path == file)
    }
}

impl Layers {
    /// Adds the keys of a layer that no layer before it has named. Requirements of options, variables and the first file
    /// add up, since one requirement does not withdraw another.
    pub fn add(&mut self, layer: Layer) {
        let mut new: BTreeMap<Key, Vec<Setting>> = BTreeMap::new();
        for setting in layer {
            new.entry(setting.key.clone()).or_default().push(setting);
        }
        let is_of_file = |setting: &Setting| matches!(setting.from, SettingPlace::File { .. });
        for (key, settings) in new {
            let adds_up = matches!(key, Key::Requires(_));
            let known = self.0.entry(key).or_default();
            if known.is_empty() || adds_up && !known.iter().any(is_of_file) {
                known.extend(settings);
            }
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Setting> {
        self.0.values().flatten()
    }

    pub fn get(&self, key: &Key) -> impl Iterator<Item = &Setting> {
        self.0.get(key).into_iter().flatten()
    }

    pub fn words(&self, key: &Key) -> Vec<String> {
        let words = self.get(key).filter_map(|setting| match &setting.value {
            Value::Words(words) => Some(words),
            _ => None,
        });
        words.flatten().cloned().collect()
    }

    pub fn directories(&self, key: &Key) -> Vec<PathBuf> {
        let directories = self.get(key).filter_map(|setting| match &setting.value {
            Value::Directories(directories) => Some(directories),
            _ => None,
        });
        directories.flatten().cloned().collect()
    }

    pub fn origins(&self) -> Vec<Origin> {
        let origins = self
            .get(&Key::PreferOrigin)
            .filter_map(|setting| match &setting.value {
                Value::Origins(origins) => Some(origins),
                _ => None,
            });
        origins.flatten().copied().collect()
    }

    pub fn mode(&self) -> Option<Mode> {
        let mut values = self.get(&Key::PinMode).map(|setting| &setting.value);
        if let Some(Value::Mode(mode)) = values.next() {
            Some(*mode)
        } else {
            None
        }
    }

    pub fn verify(&self) -> Option<When> {
        let mut values = self.get(&Key::Verify).map(|setting| &setting.value);
        if let Some(Value::When(when)) = values.next() {
            Some(*when)
        } else {
            None
        }
    }

    pub fn level(&self) -> Option<Level> {
        let mut values = self.get(&Key::VerifyLevel).map(|setting| &setting.value);
        if let Some(Value::Level(level)) = values.next() {
            Some(*level)
        } else {
            None
        }
    }

    pub fn on_failure(&self) -> OnFailure {
        let mut values = self.get(&Key::OnFailure).map(|setting| &setting.value);
        if let Some(Value::OnFailure(what)) = values.next() {
            *what
        } else {
            OnFailure::None
        }
    }

    pub fn fetch_when(&self) -> FetchWhen {
        let mut values = self.get(&Key::FetchWhen).map(|setting| &setting.value);
        if let Some(Value::FetchWhen(when)) = values.next() {
            *when
        } else {
            FetchWhen::Ask
        }
    }

    /// Returns the store that a setting names.
    pub fn store(&self) -> Option<&Path> {
        let mut values = self.get(&Key::FetchStore).map(|setting| &setting.value);
        if let Some(Value::Directory(store)) = values.next() {
            Some(store)
        } else {
            None
        }
    }

    /// True if whatever a program starts is decided for itself as well; `None` without a setting.
    pub fn follow(&self) -> Option<bool> {
        let mut values = self.get(&Key::Follow).map(|setting| &setting.value);
        values.next().map(|value| *value == Value::Flag(true))
    }

    pub fn is_locked(&self) -> bool {
        self.get(&Key::Locked)
            .any(|setting| setting.value == Value::Flag(true))
    }

    /// Returns the versions of the toolkit for a build that a person demands.
    pub fn toolkit_ranges(&self) -> Vec<(Range, Asker)> {
        let key = Key::Requires(TOOLKIT.to_owned());
        let range = |setting: &Setting| match &setting.value {
            Value::Range(range) => Some((range.clone(), setting.from.asker())),
            _ => None,
        };
        self.get(&key).filter_map(range).collect()
    }

    /// True if a person demands a toolkit for this start: the program compiles.
    pub fn is_build(&self) -> bool {
        self.get(&Key::Requires(TOOLKIT.to_owned()))
            .any(|setting| setting.is_of_start)
    }

    /// The directories that wheels come from: the given ones, or else those of the settings.
    pub fn wheels_from(&self, given: &[PathBuf]) -> Vec<PathBuf> {
        if given.is_empty() {
            self.directories(&Key::FetchFrom)
        } else {
            given.to_vec()
        }
    }

    pub fn is_locked_by_option(&self) -> bool {
        self.is_locked() && self.get(&Key::Locked).any(|setting| setting.is_of_start)
    }
}

impl Value {
    /// Returns the value as a person would write it.
    pub fn text(&self) -> String {
        match self {
            Value::Range(range) => range.to_string(),
            Value::Version(version) => version.to_string(),
            Value::Directory(path) => text::show(path),
            Value::Directories(paths) => {
                paths.iter().map(text::show).collect::<Vec<_>>().join(", ")
            }
            Value::Words(words) => words.iter().map(text::show).collect::<Vec<_>>().join(", "),
            Value::Origins(origins) => origins
                .iter()
                .map(|origin| origin.word())
                .collect::<Vec<_>>()
                .join(", "),
            Value::When(when) => word(when),
            Value::Level(level) => word(level),
            Value::Mode(mode) => word(mode),
            Value::OnFailure(what) => word(what),
            Value::FetchWhen(when) => word(when),
            Value::Flag(flag) => flag.to_string(),
            Value::Variable(Some(value)) => text::show(value),
            Value::Variable(None) => "(unset)".to_owned(),
        }
    }
}

/// Returns the word of the command line for a value.
pub(super) fn word(value: &impl ValueEnum) -> String {
    value
        .to_possible_value()
        .map_or_else(String::new, |value| value.get_name().to_owned())
}

impl Serialize for Setting {
    /// One flat object, which `docs/json.md` explains.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Flat<'s> {
            key: String,
            value: String,
            from: &'s str,
            name: String,
            line: Option<usize>,
        }
        let (from, name, line) = match &self.from {
            SettingPlace::Option(name) => ("option", (*name).to_owned(), None),
            SettingPlace::Variable(name) => ("variable", name.clone(), None),
            SettingPlace::File { path, line } => ("file", text::show(path), *line),
        };
        Flat {
            key: self.key.name(),
            value: self.value.text(),
            from,
            name,
            line,
        }
        .serialize(serializer)
    }
}
