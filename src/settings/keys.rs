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

/// A setting. The template of `cudarun init` and the page of settings are made from these rows, in their order.
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
    /// A kept start holds only while this variable has the value that it had. `variables.rs` has the names that others use.
    pub variable: &'static str,
    pub trust: Trust,
    /// Lines of a file, each with what it means.
    pub example: &'static str,
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

pub const KEYS: [KeyRow; 18] = [
    KeyRow {
        key: SettingKey::Uses,
        table: "",
        name: "uses",
        of: "",
        takes: ValueKind::Words(|word| Ok(word.to_owned())),
        option: "--uses",
        variable: "CUDARUN_USES",
        trust: Trust::Never,
        example: r#"uses = ["torch"]                  # the packages that count, as --uses"#,
    },
    KeyRow {
        key: SettingKey::PinMode,
        table: "",
        name: "pin-mode",
        of: "",
        takes: ValueKind::Word(choice::<Mode>),
        option: "--pin-mode",
        variable: "CUDARUN_PIN_MODE",
        trust: Trust::Always,
        example: r#"pin-mode = "audit"                # how the loader is led, as --pin-mode: docs/modes.md"#,
    },
    KeyRow {
        key: SettingKey::Locked,
        table: "",
        name: "locked",
        of: "",
        takes: ValueKind::Flag,
        option: "--locked",
        variable: variables::LOCKED,
        trust: Trust::Never,
        example: "locked = true                     # as --locked: docs/config.md",
    },
    KeyRow {
        key: SettingKey::Follow,
        table: "",
        name: "follow",
        of: "",
        takes: ValueKind::Flag,
        option: "--no-follow",
        variable: variables::FOLLOW,
        trust: Trust::Always,
        example: "follow = true                     # the shell hook follows here: docs/follow.md",
    },
    KeyRow {
        key: SettingKey::Requires,
        table: "requires",
        name: ANY,
        of: "",
        takes: ValueKind::Range,
        option: "--require",
        variable: "CUDARUN_REQUIRE",
        trust: Trust::Never,
        example: r#"cuda = "12"                       # of the picked libraries
driver = ">=550"                  # the kernel's driver
gpu = ">=8.0"                     # compute capability of every visible GPU
extensions = "*"                  # no imported extension module that does not fit its framework
cudnn = ">=9.1,<10"               # any family that `list` shows"#,
    },
    KeyRow {
        key: SettingKey::Pin,
        table: "pin",
        name: ANY,
        of: "",
        takes: ValueKind::VersionOrDirectory,
        option: "--pin",
        variable: variables::PIN,
        trust: Trust::Never,
        example: r#"nccl = "2.21.5"
cutensor = "vendor/cutensor/lib"  # a directory needs `cudarun allow`"#,
    },
    KeyRow {
        key: SettingKey::Prefer,
        table: "prefer",
        name: ANY,
        of: "",
        takes: ValueKind::Range,
        option: "",
        variable: "",
        trust: Trust::Never,
        example: r#"cublas = "~12.4""#,
    },
    KeyRow {
        key: SettingKey::PreferOrigin,
        table: "prefer",
        name: "origin",
        of: "",
        takes: ValueKind::Words(origin),
        option: "",
        variable: "",
        trust: Trust::Never,
        example: r#"origin = ["wheel", "toolkit"]     # as `list` shows them: docs/sources.md"#,
    },
    KeyRow {
        key: SettingKey::SearchAlso,
        table: "search",
        name: "also",
        of: "",
        takes: ValueKind::Directories,
        option: "--also",
        variable: variables::ALSO,
        trust: Trust::Always,
        example: r#"also = ["vendor/cuda"]            # as --also; relative to the file"#,
    },
    KeyRow {
        key: SettingKey::SearchWithout,
        table: "search",
        name: "without",
        of: "",
        takes: ValueKind::Words(source),
        option: "--without",
        variable: "CUDARUN_WITHOUT",
        trust: Trust::Always,
        example: r#"without = ["conda"]               # as --without"#,
    },
    KeyRow {
        key: SettingKey::Verify,
        table: "verify",
        name: "when",
        of: "",
        takes: ValueKind::Word(choice::<VerifyWhen>),
        option: "",
        variable: variables::VERIFY,
        trust: Trust::For(&["never"]),
        example: r#"when = "auto"                     # never, auto or always, as --verify"#,
    },
    KeyRow {
        key: SettingKey::VerifyLevel,
        table: "verify",
        name: "level",
        of: "",
        takes: ValueKind::Word(choice::<Level>),
        option: "",
        variable: "CUDARUN_VERIFY_LEVEL",
        trust: Trust::For(&["load", "handle"]),
        example: r#"level = "conv"                    # load, handle, conv or deep: docs/proof.md"#,
    },
    KeyRow {
        key: SettingKey::Variable,
        table: "env",
        name: ANY,
        of: "",
        takes: ValueKind::Variable,
        option: "",
        variable: "",
        trust: Trust::Always,
        example: r#"CUDA_MODULE_LOADING = "LAZY"
PYTHONPATH = false"#,
    },
    KeyRow {
        key: SettingKey::OnFailure,
        table: "run",
        name: "on-failure",
        of: "",
        takes: ValueKind::Word(choice::<OnFailure>),
        option: "",
        variable: variables::ON_FAILURE,
        trust: Trust::Never,
        example: r#"on-failure = "diagnose"           # none, or diagnose: explain a failure (docs/diagnose.md)"#,
    },
    KeyRow {
        key: SettingKey::FetchWhen,
        table: "fetch",
        name: "when",
        of: "",
        takes: ValueKind::Word(choice::<FetchWhen>),
        option: "",
        variable: variables::FETCH,
        trust: Trust::For(&["always"]),
        example: r#"when = "ask"                      # ask, never or always: download what is missing"#,
    },
    KeyRow {
        key: SettingKey::FetchFrom,
        table: "fetch",
        name: "from",
        of: "",
        takes: ValueKind::Directories,
        option: "",
        variable: "",
        trust: Trust::Always,
        example: r#"from = ["vendor/wheels"]          # as fetch --from; relative to the file"#,
    },
    KeyRow {
        key: SettingKey::FetchStore,
        table: "fetch",
        name: "store",
        of: "",
        takes: ValueKind::Directory,
        option: "",
        variable: "",
        trust: Trust::Always,
        example: r#"store = "vendor/store"            # in place of your own store"#,
    },
    KeyRow {
        key: SettingKey::Requires,
        table: "build",
        name: "toolkit",
        of: TOOLKIT,
        takes: ValueKind::Range,
        option: "",
        variable: "",
        trust: Trust::Never,
        example: r#"toolkit = "12.4"                  # toolkits for --build; as `cuda-toolkit` in [requires]"#,
    },
];

/// The tables of a file after its top, in the order of a file, each with what it holds.
pub const TABLES: [(&str, &str); 9] = [
    ("requires", "what must be: ranges of versions, as in Cargo"),
    (
        "pin",
        "this copy and no other: a version, or a directory relative to the file",
    ),
    ("prefer", "where there is a choice"),
    ("search", "needs `cudarun allow`"),
    ("verify", "a proof on the GPU before a start"),
    (
        "env",
        "variables for the program, false removes one: needs `cudarun allow`",
    ),
    ("run", "at the end of a program"),
    ("fetch", "docs/fetch.md"),
    ("build", "docs/build.md"),
];

/// The row of an option of the command line.
pub(super) fn row_of_option(option: &str) -> &'static KeyRow {
    let mut rows = KEYS.iter();
    rows.find(|row| row.option == option)
        .expect("every option of a setting is in the table")
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

/// The example lines of a table, or of the top of a file.
pub fn example(table: &str) -> String {
    KEYS.iter()
        .filter(|row| row.table == table)
        .map(|row| format!("{}\n", row.example))
        .collect()
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
                _ if of == "gpu" => {
                    wants("a compute capability such as \">=8.0\", or \"*\" for any GPU")
                }
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
