//! What people have set, by options, variables and files, and where: each value keeps its origin. Must not know
//! what will run, and runs and loads nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use semver::VersionReq;
use serde::{Serialize, Serializer};

use crate::cli::{Level, PinMode, When};
use crate::inventory::Origin;
use crate::program::Asker;
use crate::range::Range;
use crate::text;
use crate::version::Version;

pub mod container;
pub mod files;
pub mod invocation;
pub mod lock;
pub mod read;
pub mod resolve;
pub mod start_key;
pub mod trust;

/// The name of a project's file, and of the lock beside it.
pub const PROJECT: &str = ".cudarun.toml";
pub const LOCK: &str = ".cudarun.lock";

/// One thing that can be set. What is the machine's (`cuda`, `driver`, `gpu`) is required like a family.
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
    Mode(PinMode),
    Flag(bool),
    /// None takes the variable away.
    Variable(Option<String>),
}

/// Where something is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Option(&'static str),
    Variable(String),
    File { path: PathBuf, line: Option<usize> },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    pub key: Key,
    pub value: Value,
    pub from: Place,
    /// It is said of this very start, or of this very program, and not of all that run here.
    pub is_of_start: bool,
}

/// What is said in one place. Of one key there may be more than one: options can be repeated.
pub type Layer = Vec<Setting>;

/// What counts: of each key what the first layer says that names it.
#[derive(Clone, Debug, Default)]
pub struct Layers(BTreeMap<Key, Vec<Setting>>);

/// Why a setting cannot be used, and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    pub place: Place,
    pub wrong: Wrong,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Wrong {
    /// The operating system's words.
    Unreadable {
        why: String,
    },
    NoFile,
    NotRegular,
    TooLarge {
        limit: u64,
    },
    NotText,
    NotToml {
        what: String,
        /// The line at fault and a caret below, as the parser renders them.
        lines: Vec<String>,
    },
    Type {
        key: String,
        wants: Wanted,
        has: &'static str,
    },
    /// Neither a range of versions, nor what else the key takes.
    BadValue {
        key: String,
        wants: Wanted,
        text: String,
    },
    /// What `--pin` says is no family and which installation of it.
    BadPin {
        word: String,
    },
    NoFamily {
        name: String,
        known: Vec<&'static str>,
    },
    NotOneOf {
        key: String,
        text: String,
        known: Vec<String>,
    },
    NoDirectory {
        key: String,
        path: PathBuf,
    },
    /// The file is for other versions of cudarun.
    OtherCudarun {
        needed: VersionReq,
        own: semver::Version,
    },
    /// Somebody else could have written it.
    OpenToOthers {
        path: PathBuf,
    },
    /// Somebody else put it where everybody can.
    OfAStranger {
        directory: PathBuf,
    },
    NoLock,
    BadLock(BadLock),
}

/// The kind of value that a key takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    Table,
    Text,
    Texts,
    Flag,
    /// A version of cudarun.
    CudarunVersion,
    CudarunRange,
    Range,
    NameAndRange,
    VersionOrDirectory,
    VariableName,
    TextWithoutNul,
    TextOrFalse,
}

/// Why a lock cannot be obeyed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadLock {
    /// The parser's words.
    Content {
        message: String,
    },
    OtherFormat,
    NoFamily,
    TooManyFamilies,
    UnknownFamily,
    DriverIsNoFloor,
}

/// An unknown key: it is reported, and passed over.
#[derive(Clone, Debug, PartialEq)]
pub struct Remark {
    pub place: Place,
    pub key: String,
    pub known: Vec<String>,
}

/// The names that a person may use, with which a parser needs no catalog.
#[derive(Clone, Debug)]
pub struct Vocabulary {
    /// Each family's own name, and the proper one.
    pub families: Vec<(&'static str, &'static str)>,
    pub sources: Vec<&'static str>,
    /// The version of this cudarun.
    pub own: semver::Version,
}

impl Vocabulary {
    pub fn family(&self, word: &str) -> Option<&'static str> {
        let is_it = |name: &str| name.eq_ignore_ascii_case(word);
        self.families.iter().find(|(name, proper)| is_it(name) || is_it(proper)).map(|(name, _)| *name)
    }
}

impl Place {
    pub fn file(path: &Path, line: usize) -> Place {
        Place::File { path: path.to_owned(), line: Some(line) }
    }

    /// What it is called in a message: a project's file by its name, since there is one.
    pub fn title(&self) -> String {
        match self {
            Place::Option(name) => (*name).to_owned(),
            Place::Variable(name) => text::show(name),
            Place::File { path, line } => {
                let is_project = path.file_name().is_some_and(|name| name == PROJECT || name == LOCK);
                let short = if is_project { path.file_name().map(Path::new) } else { None };
                let name = text::show(short.unwrap_or(path));
                line.map_or(name.clone(), |line| format!("{name}:{line}"))
            }
        }
    }

    /// Who asks for what is said here.
    pub fn asker(&self) -> Asker {
        match self {
            Place::File { path, line } => Asker::person(&self.title(), path.clone(), *line),
            _ => Asker::person(&self.title(), self.title().into(), None),
        }
    }
}

impl Key {
    /// As it is written in a file.
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
        }
    }
}

impl Setting {
    /// Whether it makes programs read what they else would not: of that, a project's file only proposes.
    pub fn needs_trust(&self) -> bool {
        matches!(self.key, Key::SearchAlso | Key::SearchWithout | Key::Variable(_))
            || matches!(self.value, Value::Directory(_))
    }

    pub fn stands_in(&self, file: &Path) -> bool {
        matches!(&self.from, Place::File { path, .. } if path == file)
    }
}

impl Layers {
    /// Takes up what a layer says of keys that no layer before has named. What is required by an option, by a variable
    /// and by a file counts together, since to ask for one thing is not to do without another.
    pub fn add(&mut self, layer: Layer) {
        let mut new: BTreeMap<Key, Vec<Setting>> = BTreeMap::new();
        for setting in layer {
            new.entry(setting.key.clone()).or_default().push(setting);
        }
        let is_of_file = |setting: &Setting| matches!(setting.from, Place::File { .. });
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
        let words = |value: &Value| if let Value::Words(words) = value { words.clone() } else { Vec::new() };
        self.get(key).flat_map(|setting| words(&setting.value)).collect()
    }

    pub fn directories(&self, key: &Key) -> Vec<PathBuf> {
        let paths =
            |value: &Value| if let Value::Directories(paths) = value { paths.clone() } else { Vec::new() };
        self.get(key).flat_map(|setting| paths(&setting.value)).collect()
    }

    pub fn origins(&self) -> Vec<Origin> {
        let origins =
            |value: &Value| if let Value::Origins(list) = value { list.clone() } else { Vec::new() };
        self.get(&Key::PreferOrigin).flat_map(|setting| origins(&setting.value)).collect()
    }

    pub fn mode(&self) -> Option<PinMode> {
        let mode = |setting: &Setting| if let Value::Mode(mode) = setting.value { Some(mode) } else { None };
        self.get(&Key::PinMode).find_map(mode)
    }

    pub fn verify(&self) -> Option<When> {
        let when = |setting: &Setting| if let Value::When(when) = setting.value { Some(when) } else { None };
        self.get(&Key::Verify).find_map(when)
    }

    pub fn level(&self) -> Option<Level> {
        let level =
            |setting: &Setting| if let Value::Level(level) = setting.value { Some(level) } else { None };
        self.get(&Key::VerifyLevel).find_map(level)
    }

    pub fn is_locked(&self) -> bool {
        self.get(&Key::Locked).any(|setting| setting.value == Value::Flag(true))
    }
}

impl Value {
    /// As a person would write it.
    pub fn text(&self) -> String {
        let several = |words: Vec<String>| words.join(", ");
        match self {
            Value::Range(range) => range.to_string(),
            Value::Version(version) => version.to_string(),
            Value::Directory(path) => text::show(path),
            Value::Directories(paths) => several(paths.iter().map(text::show).collect()),
            Value::Words(words) => several(words.iter().map(text::show).collect()),
            Value::Origins(origins) => several(origins.iter().map(|it| it.word().to_owned()).collect()),
            Value::When(when) => invocation::word(when),
            Value::Level(level) => invocation::word(level),
            Value::Mode(mode) => invocation::word(mode),
            Value::Flag(flag) => flag.to_string(),
            Value::Variable(Some(value)) => text::show(value),
            Value::Variable(None) => "(unset)".to_owned(),
        }
    }
}

impl Serialize for Setting {
    /// As one flat object, which `docs/json.md` explains.
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
            Place::Option(name) => ("option", (*name).to_owned(), None),
            Place::Variable(name) => ("variable", name.clone(), None),
            Place::File { path, line } => ("file", text::show(path), *line),
        };
        Flat { key: self.key.name(), value: self.value.text(), from, name, line }.serialize(serializer)
    }
}
