//! The types of settings.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use semver::VersionReq;
use serde::{Serialize, Serializer};

use crate::cli::VerifyWhen;
use crate::host::Unsafe;
use crate::range::Range;
use crate::requirements::Asker;
use crate::text::{self, os, short, show};
use crate::version::Version;

/// The name of a project's file, and of the lock beside it.
pub const PROJECT: &str = ".cudarun.toml";
pub const LOCK: &str = ".cudarun.lock";

/// The name of a toolkit for builds in `requires`.
pub const TOOLKIT: &str = "cuda-toolkit";

/// One thing that can be set. `keys::KEYS` has a row of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SettingKey {
    Requires,
    Pin,
    Prefer,
    PreferOrigin,
    SearchAlso,
    SearchWithout,
    Verify,
    VerifyLevel,
    Variable,
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
    Directories(Vec<PathBuf>),
    Words(Vec<String>),
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
    pub key: SettingKey,
    /// The family, the variable or the part of the machine that it is about.
    pub of: String,
    pub value: Value,
    pub from: SettingPlace,
    /// True for an option, and for a table of this program in a file: the setting is about this start, and not about all
    /// programs that run here, as that of a variable.
    pub is_of_start: bool,
}

/// The settings of one place. A key may occur more than once, since options can be repeated.
pub type SettingLayer = Vec<Setting>;

/// The settings that count: those of the first layer that names a key.
#[derive(Clone, Debug, Default)]
pub struct Layers(BTreeMap<(SettingKey, String), Vec<Setting>>);

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
    #[error(" cannot be read: {why}")]
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
    /// A value that its key does not take. If there are only a few, `known` holds them, and `wants` is the word for one.
    #[error("{}", invalid(.key, .text, .wants, .known))]
    Invalid {
        key: Box<str>,
        text: Box<str>,
        wants: &'static str,
        known: Box<[String]>,
        /// A number that would be right in quotes.
        lacks_quotes: bool,
    },
    #[error(": needs cudarun {needed}, but this is cudarun {}", env!("CARGO_PKG_VERSION"))]
    OtherCudarun { needed: VersionReq },
    #[error(" is ignored: another user can change it: {}", .0.at(Path::new("")))]
    Unsafe(Unsafe),
    #[error(" is ignored: another user created it in {}, where all users can create files", show(.directory))]
    OfAStranger { directory: PathBuf },
    #[error(" does not exist")]
    NoLock,
    #[error(": this lock cannot be used: {0}")]
    BadLock(String),
}

fn not_toml(what: &str) -> String {
    // The parser took the first letter of a word for that of `false`, `inf`, `nan` or `true`.
    if what.starts_with("invalid float, expected `") || what.starts_with("invalid boolean") {
        "this is not a value; a string needs quotes".to_owned()
    } else {
        show(what)
    }
}

fn invalid(key: &str, text: &str, wants: &str, known: &[String]) -> String {
    let key = match key {
        "" => String::new(),
        key => format!("`{}`: ", short(key)),
    };
    let text = short(text);
    if known.is_empty() {
        format!(": {key}`{text}` is not {wants}")
    } else {
        format!(": {key}unknown {wants} `{text}`")
    }
}

impl FaultKind {
    /// The fault of a whole file.
    pub fn of_file(self, path: &Path) -> SettingFault {
        let (path, line) = (path.to_owned(), None);
        SettingPlace::File { path, line }.fault(self)
    }

    pub(super) fn unreadable(error: &io::Error) -> FaultKind {
        FaultKind::Unreadable { why: os(error) }
    }

    pub(super) fn invalid(key: &str, text: &str, wants: &'static str) -> FaultKind {
        FaultKind::unknown(key, text, wants, Vec::new())
    }

    pub(super) fn unknown(
        key: &str,
        text: &str,
        wants: &'static str,
        known: Vec<String>,
    ) -> FaultKind {
        FaultKind::Invalid {
            key: key.into(),
            text: text.into(),
            wants,
            known: known.into(),
            lacks_quotes: false,
        }
    }
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

    pub fn fault(&self, wrong: FaultKind) -> SettingFault {
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

impl SettingKey {
    /// True if a person demands something of the set by it: a program that breaks that must not start.
    pub fn is_demand(self) -> bool {
        matches!(
            self,
            SettingKey::Requires | SettingKey::Pin | SettingKey::PinMode
        )
    }
}

impl Setting {
    pub fn is_of_file(&self) -> bool {
        matches!(self.from, SettingPlace::File { .. })
    }
}

impl Layers {
    /// Adds the keys of a layer that no layer before it has named. Requirements of options, variables and the first file
    /// add up, since one requirement does not withdraw another.
    pub fn add(&mut self, layer: impl IntoIterator<Item = Setting>) {
        let mut new = Layers::default();
        for setting in layer {
            let key = (setting.key, setting.of.clone());
            new.0.entry(key).or_default().push(setting);
        }
        for (key, settings) in new.0 {
            let adds_up = key.0 == SettingKey::Requires;
            let known = self.0.entry(key).or_default();
            if known.is_empty() || adds_up && !known.iter().any(Setting::is_of_file) {
                known.extend(settings);
            }
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Setting> {
        self.0.values().flatten()
    }

    pub fn get(&self, key: SettingKey) -> impl Iterator<Item = &Setting> {
        self.iter().filter(move |setting| setting.key == key)
    }

    pub fn words(&self, key: SettingKey) -> Vec<String> {
        let words = self.get(key).filter_map(|setting| match &setting.value {
            Value::Words(words) => Some(words),
            _ => None,
        });
        words.flatten().cloned().collect()
    }

    /// Returns the word of a key that takes one.
    pub fn choice<W: ValueEnum>(&self, key: SettingKey) -> Option<W> {
        W::from_str(self.words(key).first()?, false).ok()
    }

    pub fn flag(&self, key: SettingKey) -> Option<bool> {
        let mut settings = self.get(key);
        settings
            .next()
            .map(|setting| setting.value == Value::Flag(true))
    }

    pub fn directories(&self, key: SettingKey) -> Vec<PathBuf> {
        let directories = self.get(key).filter_map(|setting| match &setting.value {
            Value::Directories(directories) => Some(directories),
            _ => None,
        });
        directories.flatten().cloned().collect()
    }

    /// Returns the demands of people on the toolkit for a build.
    pub fn of_toolkit(&self) -> impl Iterator<Item = &Setting> {
        self.get(SettingKey::Requires)
            .filter(|setting| setting.of == TOOLKIT)
    }

    /// True if this start demands a toolkit, not all starts that happen here.
    pub fn start_demands_toolkit(&self) -> bool {
        self.of_toolkit().any(|setting| setting.is_of_start)
    }

    /// True if a person demands a set: a program that would not get it must not start.
    pub fn demand_a_set(&self) -> bool {
        self.iter().any(|setting| setting.key.is_demand())
            || self.is_locked()
            || self.choice(SettingKey::Verify) == Some(VerifyWhen::Always)
    }

    /// The directories that wheels come from: the given ones, or else those of the settings.
    pub fn wheels_from(&self, given: &[PathBuf]) -> Vec<PathBuf> {
        if given.is_empty() {
            self.directories(SettingKey::FetchFrom)
        } else {
            given.to_vec()
        }
    }

    pub fn is_locked(&self) -> bool {
        self.flag(SettingKey::Locked) == Some(true)
    }

    /// True if this start demands it, not all starts that happen here.
    pub fn is_of_start(&self, key: SettingKey) -> bool {
        self.get(key).any(|setting| setting.is_of_start)
    }
}

impl Value {
    /// Returns the value as a person would write it.
    pub fn text(&self) -> String {
        let shown = |texts: &mut dyn Iterator<Item = String>| texts.collect::<Vec<_>>().join(", ");
        match self {
            Value::Range(range) => range.to_string(),
            Value::Version(version) => version.to_string(),
            Value::Directories(paths) => shown(&mut paths.iter().map(text::show)),
            Value::Words(words) => shown(&mut words.iter().map(text::show)),
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
            key: self.name(),
            value: self.value.text(),
            from,
            name,
            line,
        }
        .serialize(serializer)
    }
}
