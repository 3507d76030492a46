//! The table of settings: how a file, an option and a variable spell each one, what it takes, and whether a project may set it.

use std::ffi::OsStr;
use std::path::Path;

use clap::ValueEnum;

use super::files;
use super::setting::{FaultKind, Setting, SettingKey, SettingPlace, TOOLKIT, Value, word};
use crate::catalog::catalog;
use crate::cli::{FetchWhen, OnFailure, VerifyWhen, is_toolkit};
use crate::host::Host;
use crate::inventory::{self, Origin};
use crate::modes::{Level, Mode};
use crate::range::Range;
use crate::requirements::Demand;
use crate::variables;

/// Names in `requires` that are about the machine or a build, beside families.
fn names_of_machine() -> impl Iterator<Item = &'static str> {
    Demand::NAMES.into_iter().chain([TOOLKIT])
}

/// Keys that only the top of a file has.
pub const TOP: [&str; 3] = ["cudarun", "program", "min-version"];
/// Compute capabilities have smaller majors, architectures (`90`) are larger numbers.
const ARCHITECTURES: u32 = 30;
/// The name of a row whose table may have any family, or any variable.
pub const ANY: &str = "*";

/// A key of files.
pub struct KeyRow {
    pub key: SettingKey,
    /// Empty for the top of a file.
    pub table: &'static str,
    pub name: &'static str,
    /// What it is about, if its name does not say that.
    of: &'static str,
    pub takes: ValueKind,
    /// `--no-follow` says no to its key, each other one says the same.
    pub option: &'static str,
    /// A kept start holds only while this variable has the value that it had.
    pub variable: &'static str,
    pub trust: Trust,
}

/// What a key takes.
#[derive(Clone, Copy)]
pub enum ValueKind {
    Range,
    VersionOrDirectory,
    Word(Spell),
    Words(Spell),
    Directory,
    Directories,
    Flag,
    /// A text, or false to unset the variable.
    Variable,
}

/// Returns the usual spelling of a word, or the words that are possible.
type Spell = fn(&str) -> Result<String, Vec<String>>;

/// The values that a project's file may have only after `cudarun allow`, because programs then read other files or variables, or a
/// check is weakened. Directories always need it.
pub enum Trust {
    Never,
    Always,
    For(&'static [&'static str]),
}

#[rustfmt::skip]
pub const KEYS: [KeyRow; 18] = [
    row(SettingKey::Requires, "requires", ANY, ValueKind::Range, "--require", variables::REQUIRE, Trust::Never),
    row(SettingKey::Pin, "pin", ANY, ValueKind::VersionOrDirectory, "--pin", variables::PIN, Trust::Never),
    row(SettingKey::Prefer, "prefer", ANY, ValueKind::Range, "", "", Trust::Never),
    row(SettingKey::PreferOrigin, "prefer", "origin", ValueKind::Words(origin), "", "", Trust::Never),
    row(SettingKey::SearchAlso, "search", "also", ValueKind::Directories, "--also", variables::ALSO, Trust::Always),
    row(SettingKey::SearchWithout, "search", "without", ValueKind::Words(source), "--without", variables::WITHOUT, Trust::Always),
    row(SettingKey::Verify, "verify", "when", ValueKind::Word(choice::<VerifyWhen>), "", variables::VERIFY, Trust::For(&["never"])),
    row(SettingKey::VerifyLevel, "verify", "level", ValueKind::Word(choice::<Level>), "", variables::VERIFY_LEVEL, Trust::For(&["load", "handle"])),
    row(SettingKey::Variable, "env", ANY, ValueKind::Variable, "", "", Trust::Always),
    row(SettingKey::Uses, "", "uses", ValueKind::Words(|word| Ok(word.to_owned())), "--uses", variables::USES, Trust::Never),
    row(SettingKey::PinMode, "", "pin-mode", ValueKind::Word(choice::<Mode>), "--pin-mode", variables::PIN_MODE, Trust::Always),
    row(SettingKey::Locked, "", "locked", ValueKind::Flag, "--locked", variables::LOCKED, Trust::Never),
    row(SettingKey::Follow, "", "follow", ValueKind::Flag, "--no-follow", variables::FOLLOW, Trust::Always),
    row(SettingKey::OnFailure, "run", "on-failure", ValueKind::Word(choice::<OnFailure>), "", variables::ON_FAILURE, Trust::Never),
    row(SettingKey::FetchWhen, "fetch", "when", ValueKind::Word(choice::<FetchWhen>), "", variables::FETCH, Trust::For(&["always"])),
    row(SettingKey::FetchFrom, "fetch", "from", ValueKind::Directories, "", "", Trust::Always),
    row(SettingKey::FetchStore, "fetch", "store", ValueKind::Directory, "", "", Trust::Always),
    KeyRow { of: TOOLKIT, ..row(SettingKey::Requires, "build", "toolkit", ValueKind::Range, "", "", Trust::Never) },
];

const fn row(
    key: SettingKey,
    table: &'static str,
    name: &'static str,
    takes: ValueKind,
    option: &'static str,
    variable: &'static str,
    trust: Trust,
) -> KeyRow {
    KeyRow {
        key,
        table,
        name,
        of: "",
        takes,
        option,
        variable,
        trust,
    }
}

pub(super) fn row_of(key: SettingKey) -> &'static KeyRow {
    let mut rows = KEYS.iter();
    rows.find(|row| row.key == key)
        .expect("every key has a row")
}

/// Returns the row of a key in a table of a file, and what it is about.
pub(super) fn find(table: &str, name: &str) -> Option<(&'static KeyRow, String)> {
    let named = |name: &str| {
        KEYS.iter()
            .find(|row| row.table == table && row.name == name)
    };
    let row = named(name).or_else(|| named(ANY))?;
    Some((row, row.about(name)?))
}

/// Returns the table that a key belongs to, empty for the top of a file.
pub(super) fn table_of(name: &str) -> Option<&'static str> {
    if name.is_empty() || name == ANY {
        return None;
    }
    if TOP.contains(&name) || KEYS.iter().any(|row| row.table == name) {
        return Some("");
    }
    let row = KEYS.iter().find(|row| row.name == name);
    let row = row.or_else(|| find("requires", name).map(|(row, _)| row));
    row.map(|row| row.table)
}

/// Returns the keys of a table.
pub(super) fn names(table: &str) -> impl Iterator<Item = &'static str> {
    let rows = KEYS.iter().filter(move |row| row.table == table);
    rows.flat_map(KeyRow::names)
}

/// True if a variable or a file may demand a set. Nothing is read.
pub fn may_demand_a_set(host: &Host) -> bool {
    let is_demanding =
        |key: SettingKey| key.is_demand() || matches!(key, SettingKey::Locked | SettingKey::Verify);
    KEYS.iter()
        .filter(|row| is_demanding(row.key))
        .map(|row| row.variable)
        .chain([variables::CONFIG])
        .any(|name| host.env.non_empty(name).is_some())
        || files::exist(host)
}

/// Returns the family that a person means: by its name, by its proper name, or by the name of a file.
pub fn family(word: &str) -> Option<&'static str> {
    let named = catalog().family_named(word);
    let family = named.or_else(|| Some(catalog().family_of(word)?.0))?;
    Some(&family.name)
}

/// Returns the name of every family.
pub fn families() -> impl Iterator<Item = &'static str> {
    catalog().families.iter().map(|family| family.name.as_str())
}

impl KeyRow {
    /// Returns the family, the variable or the part of the machine that a name of this row means.
    pub(super) fn about(&self, name: &str) -> Option<String> {
        if self.name != ANY {
            return Some(self.of.to_owned());
        }
        let of_machine = names_of_machine().find(|known| {
            name.eq_ignore_ascii_case(known) || *known == TOOLKIT && is_toolkit(name)
        });
        let found = match self.key {
            SettingKey::Variable => Some(name),
            SettingKey::Requires => of_machine.or_else(|| family(name)),
            _ => family(name),
        };
        found.map(str::to_owned)
    }

    /// Returns the names that `about` knows.
    pub(super) fn names(&self) -> Vec<&'static str> {
        if self.name != ANY {
            return vec![self.name];
        }
        let mut names: Vec<&str> = families().collect();
        match self.key {
            SettingKey::Variable => names.clear(),
            SettingKey::Requires => {
                names.retain(|name| names_of_machine().all(|known| known != *name));
                names.extend(names_of_machine());
            }
            _ => {}
        }
        names
    }

    /// Reads the items of a list, or the one text of any other kind; none unsets a variable. `key` is the name for messages.
    pub(super) fn read(&self, key: &str, of: &str, items: &[&OsStr]) -> Result<Value, FaultKind> {
        let first = items.first().copied().unwrap_or_default();
        let text = first.to_string_lossy();
        let wants = |wants| Err(FaultKind::invalid(key, &text, wants));
        match self.takes {
            ValueKind::Range => match text.parse::<Range>() {
                Ok(range) if range.is_empty() => wants("a range of versions: no version is in it"),
                // `90` is the name of an architecture.
                Ok(range)
                    if of != "gpu"
                        || range.lowest().is_none_or(|low| low.major() < ARCHITECTURES) =>
                {
                    Ok(Value::Range(range))
                }
                _ if of == "gpu" => wants("a compute capability such as \">=8.0\""),
                _ => wants("a range of versions such as \">=9.1,<10\""),
            },
            ValueKind::VersionOrDirectory => match text.trim_start_matches('v').parse() {
                Ok(version) => Ok(Value::Version(version)),
                Err(()) if first.is_empty() => wants("a version or a directory"),
                Err(()) => Ok(Value::Directories(vec![first.into()])),
            },
            ValueKind::Word(spell) | ValueKind::Words(spell) => {
                let mut words = Vec::new();
                for text in items.iter().map(|item| item.to_string_lossy()) {
                    let unknown = |known| FaultKind::unknown(key, &text, "value", known);
                    words.push(spell(text.trim()).map_err(unknown)?);
                }
                Ok(Value::Words(words))
            }
            ValueKind::Directory | ValueKind::Directories => {
                Ok(Value::Directories(items.iter().map(Into::into).collect()))
            }
            // Any other text is a fault, so that a typo does not disable a lock.
            ValueKind::Flag if is_true(&text) => Ok(Value::Flag(true)),
            ValueKind::Flag => match text.trim().to_ascii_lowercase().as_str() {
                "0" | "f" | "false" | "n" | "no" | "off" => Ok(Value::Flag(false)),
                _ => {
                    let known = ["1", "0", "true", "false"].map(str::to_owned);
                    Err(FaultKind::unknown(key, &text, "value", known.into()))
                }
            },
            ValueKind::Variable if of.is_empty() || of.contains(['=', '\0']) => {
                wants("the name of a variable, which has no `=` and no NUL")
            }
            ValueKind::Variable if text.contains('\0') => wants("a text without NUL"),
            ValueKind::Variable => Ok(Value::Variable(items.first().map(|_| text.into_owned()))),
        }
    }
}

impl Setting {
    /// Returns the key as files spell it.
    pub fn name(&self) -> String {
        match row_of(self.key) {
            KeyRow {
                table: "", name, ..
            } => (*name).to_owned(),
            KeyRow {
                table, name: ANY, ..
            } => format!("{table}.{}", self.of),
            KeyRow { table, name, .. } => format!("{table}.{name}"),
        }
    }

    /// True if this file of a project sets it, and may do so only after `cudarun allow`.
    pub fn is_proposed_by(&self, file: &Path) -> bool {
        let is_here = matches!(&self.from, SettingPlace::File { path, .. } if path == file);
        is_here && self.needs_trust()
    }

    /// True if a project's file may set it only after `cudarun allow`.
    pub fn needs_trust(&self) -> bool {
        match (&row_of(self.key).trust, &self.value) {
            (Trust::Always, _) | (_, Value::Directories(_)) => true,
            (Trust::For(weak), Value::Words(words)) => {
                words.iter().any(|word| weak.contains(&word.as_str()))
            }
            _ => false,
        }
    }
}

/// True if a variable means yes.
pub fn is_true(text: &str) -> bool {
    ["1", "t", "true", "y", "yes", "on"].contains(&text.trim().to_ascii_lowercase().as_str())
}

fn choice<W: ValueEnum>(text: &str) -> Result<String, Vec<String>> {
    let known = |_| W::value_variants().iter().map(word).collect();
    W::from_str(text, false)
        .map(|value| word(&value))
        .map_err(known)
}

fn origin(text: &str) -> Result<String, Vec<String>> {
    listed(text, Origin::all().map(Origin::word))
}

fn source(text: &str) -> Result<String, Vec<String>> {
    listed(text, inventory::source_names())
}

fn listed(text: &str, known: impl Iterator<Item = &'static str>) -> Result<String, Vec<String>> {
    let known: Vec<String> = known.map(str::to_owned).collect();
    if known.iter().any(|name| name == text) {
        Ok(text.to_owned())
    } else {
        Err(known)
    }
}
