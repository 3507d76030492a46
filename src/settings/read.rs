//! Parses the bytes of one file into settings, each with its line. Any bytes give a result or a fault; no path is looked
//! up.

use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::model::{
    Excerpt, ExpectedValue, FaultKind, Key, Layer, OF_MACHINE, Remark, Setting, SettingFault,
    SettingPlace, TOOLKIT, Value, Vocabulary, word,
};
use super::{files, invocation};
use crate::inventory::Origin;

/// The settings of a file.
#[derive(Clone, Debug, Default)]
pub struct File {
    pub layer: Layer,
    /// Settings for programs of these names.
    pub programs: Vec<(String, Layer)>,
    pub remarks: Vec<Remark>,
}

/// Keys of a file with settings; tables of programs have all but `TOP`.
pub const TABLES: &[&str] = &[
    "requires", "pin", "prefer", "search", "verify", "run", "fetch", "build", "env", "program",
];
pub const VALUES: &[&str] = &["cudarun", "uses", "pin-mode", "locked", "follow"];
pub const TOP: &[&str] = &["program", "cudarun", "min-version"];
/// More remarks are dropped, since the file is probably not one of settings.
const MAX_REMARKS: usize = 20;
/// Compute capabilities have smaller majors, architectures (`90`) are larger numbers.
pub(super) const ARCHITECTURES: u32 = 30;

type Entry<'t, 'i> = (
    &'t Spanned<std::borrow::Cow<'i, str>>,
    &'t Spanned<DeValue<'i>>,
);

/// Parses `bytes`, the content of `path`.
pub fn file(bytes: &[u8], path: &Path, words: &Vocabulary) -> Result<File, SettingFault> {
    let text = text(bytes, path)?;
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map(|span| span.start);
        let place = SettingPlace::file(path, line(text.as_bytes(), at.unwrap_or(0)));
        let excerpt = at.and_then(|at| Excerpt::at(text, at));
        SettingFault {
            place,
            wrong: FaultKind::NotToml {
                what: first_line(error.message()),
            },
            excerpt,
        }
    })?;
    let table = table.into_inner();
    let line_ends = memchr::memchr_iter(b'\n', text.as_bytes()).collect();
    let mut reader = Reader {
        text,
        line_ends,
        path,
        words,
        remarks: Vec::new(),
    };
    reader.needs_this_cudarun(&table)?;
    let mut file = File::default();
    file.layer = reader.settings(&table, &mut file.programs)?;
    file.remarks = reader.remarks;
    Ok(file)
}

/// Returns the bytes as text, without a byte order mark.
pub(super) fn text<'i>(bytes: &'i [u8], path: &Path) -> Result<&'i str, SettingFault> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        SettingPlace::file(path, line(bytes, error.valid_up_to())).fault(FaultKind::NotText)
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

pub(super) fn first_line(message: &str) -> String {
    message
        .lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(200)
        .collect()
}

/// Returns the line of the byte at this offset, from 1 on.
pub(super) fn line(bytes: &[u8], at: usize) -> usize {
    1 + memchr::memchr_iter(b'\n', &bytes[..at.min(bytes.len())]).count()
}

/// Returns the entries in the order of the file, so that the first fault in the file is reported.
fn entries<'t, 'i>(table: &'t DeTable<'i>) -> Vec<Entry<'t, 'i>> {
    let mut entries: Vec<Entry<'t, 'i>> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

pub(super) struct Reader<'r> {
    text: &'r str,
    line_ends: Vec<usize>,
    path: &'r Path,
    pub(super) words: &'r Vocabulary,
    remarks: Vec<Remark>,
}

impl Reader<'_> {
    fn place(&self, at: usize) -> SettingPlace {
        SettingPlace::file(
            self.path,
            1 + self.line_ends.partition_point(|end| *end < at),
        )
    }

    pub(super) fn fault<T>(
        &self,
        value: &Spanned<DeValue<'_>>,
        wrong: FaultKind,
    ) -> Result<T, SettingFault> {
        let at = value.span().start;
        Err(SettingFault {
            place: self.place(at),
            wrong,
            excerpt: Excerpt::at(self.text, at),
        })
    }

    fn settings(
        &mut self,
        table: &DeTable<'_>,
        programs: &mut Vec<(String, Layer)>,
    ) -> Result<Layer, SettingFault> {
        let mut layer = Layer::new();
        for entry in entries(table) {
            let (key, value) = entry;
            match key.get_ref().as_ref() {
                "program" => self.programs(value, programs)?,
                "cudarun" | "min-version" => {}
                name => {
                    if !self.setting(name, value, &mut layer)? {
                        self.unknown("", entry, TABLES.iter().chain(VALUES).copied());
                    }
                }
            }
        }
        Ok(layer)
    }

    fn programs(
        &mut self,
        value: &Spanned<DeValue<'_>>,
        programs: &mut Vec<(String, Layer)>,
    ) -> Result<(), SettingFault> {
        for (name, value) in entries(self.table("program", value)?) {
            let mut layer = Layer::new();
            for entry in entries(self.table(&format!("program.{}", name.get_ref()), value)?) {
                let (key, value) = entry;
                let key = key.get_ref().as_ref();
                if TOP.contains(&key) || !self.setting(key, value, &mut layer)? {
                    let known = TABLES.iter().chain(VALUES).copied();
                    self.unknown("program.", entry, known.filter(|key| !TOP.contains(key)));
                }
            }
            for setting in &mut layer {
                setting.is_of_start = true;
            }
            programs.push((name.get_ref().to_string(), layer));
        }
        Ok(())
    }

    /// Adds the settings under one key, at the top or for a program. Returns false for an unknown key.
    fn setting(
        &mut self,
        name: &str,
        value: &Spanned<DeValue<'_>>,
        layer: &mut Layer,
    ) -> Result<bool, SettingFault> {
        let mut add = |reader: &Self, key: Key, found: Value, value: &Spanned<DeValue<'_>>| {
            let from = reader.place(value.span().start);
            layer.push(Setting {
                key,
                value: found,
                from,
                is_of_start: false,
            });
        };
        match name {
            "requires" | "prefer" | "pin" | "search" | "verify" | "run" | "fetch" | "build" => {
                for entry in entries(self.table(name, value)?) {
                    let row = match name {
                        "search" | "verify" | "run" | "fetch" | "build" => {
                            self.of_table(name, entry)?
                        }
                        _ => self.of_family(name, entry)?,
                    };
                    if let Some((key, found)) = row {
                        add(self, key, found, entry.1);
                    }
                }
            }
            "env" => {
                for (key, value) in entries(self.table(name, value)?) {
                    let found = self.variable(key.get_ref(), value)?;
                    add(self, Key::Variable(key.get_ref().to_string()), found, value);
                }
            }
            "uses" => add(
                self,
                Key::Uses,
                Value::Words(self.strings(name, value)?),
                value,
            ),
            "pin-mode" => add(
                self,
                Key::PinMode,
                Value::Mode(self.one_of(name, value)?),
                value,
            ),
            "locked" | "follow" => match value.get_ref().as_bool() {
                Some(flag) => {
                    let key = if name == "locked" {
                        Key::Locked
                    } else {
                        Key::Follow
                    };
                    add(self, key, Value::Flag(flag), value);
                }
                None => return self.wrong_type(name, ExpectedValue::Flag, value),
            },
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// A row of `[requires]`, `[prefer]` or `[pin]`.
    fn of_family(
        &mut self,
        table: &str,
        entry: Entry<'_, '_>,
    ) -> Result<Option<(Key, Value)>, SettingFault> {
        let (key, value) = entry;
        let (word, full) = (key.get_ref().as_ref(), format!("{table}.{}", key.get_ref()));
        if table == "prefer" && word == "origin" {
            return self
                .origins(value)
                .map(|origins| Some((Key::PreferOrigin, Value::Origins(origins))));
        }
        let family = match table {
            "requires" => self.words.requirement(word),
            _ => self.words.family(word),
        };
        let Some(family) = family else {
            let families: Vec<&str> = self
                .words
                .families
                .iter()
                .flat_map(|(a, b)| [*a, *b])
                .collect();
            let more: &[&str] = match table {
                "requires" => &OF_MACHINE,
                "prefer" => &["origin"],
                _ => &[],
            };
            self.unknown(
                &format!("{table}."),
                entry,
                families.iter().chain(more).copied(),
            );
            return Ok(None);
        };
        let text = self.string(&full, value)?;
        let named = family.to_owned();
        Ok(Some(match table {
            "requires" => (
                Key::Requires(named),
                Value::Range(self.range(&full, family, text, value)?),
            ),
            "prefer" => (
                Key::Prefer(named),
                Value::Range(self.range(&full, family, text, value)?),
            ),
            _ => (Key::Pin(named), self.pin(&full, text, value)?),
        }))
    }

    /// A relative directory starts at the directory of the file.
    fn pin(
        &self,
        full: &str,
        text: &str,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<Value, SettingFault> {
        match invocation::pin(text) {
            Some(Value::Directory(directory)) => Ok(Value::Directory(self.beside(&directory))),
            Some(version) => Ok(version),
            None => self.bad(full, ExpectedValue::VersionOrDirectory, text, value),
        }
    }

    /// A row of `[search]`, `[verify]`, `[run]`, `[fetch]` or `[build]`.
    fn of_table(
        &mut self,
        table: &str,
        entry: Entry<'_, '_>,
    ) -> Result<Option<(Key, Value)>, SettingFault> {
        let (key, value) = entry;
        let full = format!("{table}.{}", key.get_ref());
        Ok(Some(match full.as_str() {
            // The inventory reads it, for every list and every start.
            "search.roots" if self.path == Path::new(files::ALL_USERS) => {
                self.strings(&full, value)?;
                return Ok(None);
            }
            "search.also" => (Key::SearchAlso, self.directories(&full, value)?),
            "fetch.when" => (Key::FetchWhen, Value::FetchWhen(self.one_of(&full, value)?)),
            "fetch.from" => (Key::FetchFrom, self.directories(&full, value)?),
            "fetch.store" => {
                let directory = self.beside(Path::new(self.string(&full, value)?));
                (Key::FetchStore, Value::Directory(directory))
            }
            "search.without" => {
                let sources = self.strings(&full, value)?;
                let known = &self.words.sources;
                if let Some(other) = sources
                    .iter()
                    .find(|source| !known.contains(&source.as_str()))
                {
                    return self.not_one_of(&full, other, known.iter().copied(), value);
                }
                (Key::SearchWithout, Value::Words(sources))
            }
            "build.toolkit" => {
                let range = self.range(&full, TOOLKIT, self.string(&full, value)?, value)?;
                (Key::Requires(TOOLKIT.to_owned()), Value::Range(range))
            }
            "verify.when" => (Key::Verify, Value::When(self.one_of(&full, value)?)),
            "verify.level" => (Key::VerifyLevel, Value::Level(self.one_of(&full, value)?)),
            "run.on-failure" => (Key::OnFailure, Value::OnFailure(self.one_of(&full, value)?)),
            _ => {
                let known: &[&str] = match table {
                    "search" => &["also", "without"],
                    "verify" => &["when", "level"],
                    "fetch" => &["when", "from", "store"],
                    "build" => &["toolkit"],
                    _ => &["on-failure"],
                };
                self.unknown(&format!("{table}."), entry, known.iter().copied());
                return Ok(None);
            }
        }))
    }

    fn directories(&self, full: &str, value: &Spanned<DeValue<'_>>) -> Result<Value, SettingFault> {
        let directories = self.strings(full, value)?;
        let directories = directories
            .iter()
            .map(|directory| self.beside(Path::new(directory)));
        Ok(Value::Directories(directories.collect()))
    }

    fn variable(&self, name: &str, value: &Spanned<DeValue<'_>>) -> Result<Value, SettingFault> {
        let full = format!("env.{name}");
        if name.is_empty() || name.contains(['=', '\0']) {
            return self.bad(&full, ExpectedValue::VariableName, name, value);
        }
        match value.get_ref() {
            DeValue::String(text) if text.contains('\0') => {
                self.bad(&full, ExpectedValue::TextWithoutNul, text, value)
            }
            DeValue::String(text) => Ok(Value::Variable(Some(text.to_string()))),
            DeValue::Boolean(false) => Ok(Value::Variable(None)),
            _ => self.wrong_type(&full, ExpectedValue::TextOrFalse, value),
        }
    }

    fn origins(&self, value: &Spanned<DeValue<'_>>) -> Result<Vec<Origin>, SettingFault> {
        let key = "prefer.origin";
        let origin = |word: String| {
            let found = Origin::all().find(|origin| origin.word() == word);
            found.map_or_else(
                || self.not_one_of(key, &word, Origin::all().map(Origin::word), value),
                Ok,
            )
        };
        self.strings(key, value)?.into_iter().map(origin).collect()
    }

    fn beside(&self, directory: &Path) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("/")).join(directory)
    }

    fn table<'v, 'i>(
        &self,
        key: &str,
        value: &'v Spanned<DeValue<'i>>,
    ) -> Result<&'v DeTable<'i>, SettingFault> {
        value
            .get_ref()
            .as_table()
            .map_or_else(|| self.wrong_type(key, ExpectedValue::Table, value), Ok)
    }

    pub(super) fn string<'v>(
        &self,
        key: &str,
        value: &'v Spanned<DeValue<'_>>,
    ) -> Result<&'v str, SettingFault> {
        value
            .get_ref()
            .as_str()
            .map_or_else(|| self.wrong_type(key, ExpectedValue::Text, value), Ok)
    }

    fn strings(
        &self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<Vec<String>, SettingFault> {
        let Some(list) = value.get_ref().as_array() else {
            return self.wrong_type(key, ExpectedValue::Texts, value);
        };
        list.iter()
            .map(|item| self.string(key, item).map(str::to_owned))
            .collect()
    }

    fn one_of<W: clap::ValueEnum>(
        &self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<W, SettingFault> {
        let text = self.string(key, value)?;
        W::from_str(text, false).or_else(|_| {
            let known: Vec<String> = W::value_variants().iter().map(word).collect();
            self.not_one_of(key, text, known.iter().map(String::as_str), value)
        })
    }

    fn not_one_of<'k, T>(
        &self,
        key: &str,
        text: &str,
        known: impl Iterator<Item = &'k str>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<T, SettingFault> {
        let known = known.map(str::to_owned).collect();
        self.fault(
            value,
            FaultKind::NotOneOf {
                key: key.to_owned(),
                text: text.to_owned(),
                known,
            },
        )
    }

    pub(super) fn bad<T>(
        &self,
        key: &str,
        wants: ExpectedValue,
        text: &str,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<T, SettingFault> {
        self.fault(
            value,
            FaultKind::BadValue {
                key: key.to_owned(),
                wants,
                text: text.to_owned(),
            },
        )
    }

    fn wrong_type<T>(
        &self,
        key: &str,
        wants: ExpectedValue,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<T, SettingFault> {
        let has = value.get_ref().type_str();
        self.fault(
            value,
            FaultKind::Type {
                key: key.to_owned(),
                wants,
                has,
            },
        )
    }

    /// Returns the table that a key belongs to, empty for the top of the file.
    fn belongs(&self, key: &str) -> Option<&'static str> {
        match key {
            "also" | "without" => Some("search"),
            "from" | "store" => Some("fetch"),
            "when" | "level" => Some("verify"),
            "origin" => Some("prefer"),
            "on-failure" => Some("run"),
            "toolkit" => Some("build"),
            _ if TABLES
                .iter()
                .chain(VALUES)
                .chain(TOP)
                .any(|known| *known == key) =>
            {
                Some("")
            }
            _ => self.words.requirement(key).map(|_| "requires"),
        }
    }

    fn unknown<'k>(
        &mut self,
        before: &str,
        (key, _): Entry<'_, '_>,
        known: impl Iterator<Item = &'k str>,
    ) {
        if self.remarks.len() == MAX_REMARKS {
            return;
        }
        let remark = Remark {
            place: self.place(key.span().start),
            key: format!("{before}{}", key.get_ref()),
            known: known.map(|name| format!("{before}{name}")).collect(),
            belongs: self
                .belongs(key.get_ref())
                .filter(|table| format!("{table}.") != before && !before.starts_with("program.")),
        };
        self.remarks.push(remark);
    }
}
