//! What is wrong with a setting, what is said of one, and where each came from.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::Style;
use super::errors::{nearest, one_of, plain};
use super::style::columns;
use super::words::{self, list, quoted_to_show};
use crate::settings::container::Malformed;
use crate::settings::resolve::SettingRemark;
use crate::settings::trust::Allowed;
use crate::settings::{BadLock, Fault, Layers, Place, Remark, Setting, Wanted, Wrong};
use crate::text::show;

/// How many keys are named that nobody has allowed.
const KEYS: usize = 8;
/// Longer lines of a file are not repeated in an error.
const LINE: usize = 200;

/// Where something is said, so that a person finds it.
pub fn place(place: &Place) -> String {
    match place {
        Place::File { path, line: Some(line) } => format!("{}:{line}", show(path)),
        Place::File { path, line: None } => show(path),
        Place::Option(_) | Place::Variable(_) => place.title(),
    }
}

pub fn fault(fault: &Fault) -> String {
    let at = place(&fault.place);
    let named = |key: &str| if key.is_empty() { at.clone() } else { format!("{at}: `{}`", short(key)) };
    match &fault.wrong {
        Wrong::Unreadable { why } => format!("{at} cannot be read: {}", plain(&show(why)).to_lowercase()),
        Wrong::NoFile => format!("{at} cannot be read: there is no such file"),
        Wrong::NotRegular => format!("{at} is not a regular file"),
        Wrong::TooLarge { limit } => format!("{at} is larger than {limit} bytes"),
        Wrong::NotText => format!("{at}: not UTF-8"),
        Wrong::NotToml { what, .. } => format!("{at}: {}", show(what)),
        Wrong::Type { key, wants, has } => {
            format!("{} must be {}, and is of type {has}", named(key), wanted(*wants))
        }
        Wrong::BadValue { key, wants, text } => {
            format!("{}: `{}` is not {}", named(key), short(text), wanted(*wants))
        }
        Wrong::BadPin { word } => {
            format!("{at} `{}` does not say which installation of which family", show(word))
        }
        Wrong::NoFamily { name, .. } if matches!(fault.place, Place::Option(_)) => {
            format!("`{}` is no family of NVIDIA's libraries", show(name))
        }
        Wrong::NoFamily { name, .. } => format!("{at}: `{}` is no family of NVIDIA's libraries", show(name)),
        Wrong::NotOneOf { key, text, .. } => {
            format!("{}: `{}` is none of what it can be", named(key), short(text))
        }
        Wrong::NoDirectory { path, .. } if matches!(fault.place, Place::Option(_)) => {
            format!("{at} `{}`: there is no such directory", show(path))
        }
        Wrong::NoDirectory { key, path } => {
            format!("{}: `{}`: there is no such directory", named(key), show(path))
        }
        Wrong::OtherCudarun { needed, own } => {
            format!("{at}: needs cudarun {needed}, and this is cudarun {own}")
        }
        Wrong::OpenToOthers { path } => {
            format!("{at} is not used, since somebody else can write to {}", show(path))
        }
        Wrong::OfAStranger { directory } => {
            format!("{at} is not used: somebody else put it into {}, as everybody can", show(directory))
        }
        Wrong::NoLock => format!("there is no lock: {at}"),
        Wrong::BadLock(why) => format!("{at}: this lock cannot be used: {}", bad_lock(why)),
    }
}

fn wanted(wanted: Wanted) -> &'static str {
    match wanted {
        Wanted::Table => "a table",
        Wanted::Text => "a string",
        Wanted::Texts => "a list of strings",
        Wanted::Flag => "true or false",
        Wanted::CudarunVersion => "a version, as \"0.1\"",
        Wanted::CudarunRange => "a range of versions of cudarun, as \">=0.2\"",
        Wanted::Range => "a range of versions, as \">=9.1,<10\"",
        Wanted::NameAndRange => "a name and a range of versions, as `cudnn>=9.1,<10`",
        Wanted::VersionOrDirectory => "a version or a directory",
        Wanted::VariableName => "the name of a variable",
        Wanted::TextWithoutNul => "text without a NUL",
        Wanted::TextOrFalse => "a string, or false to unset the variable",
    }
}

fn bad_lock(why: &BadLock) -> String {
    match why {
        BadLock::Content { message } => show(message),
        BadLock::OtherFormat => "it is of another format".to_owned(),
        BadLock::NoFamily => "it has no family".to_owned(),
        BadLock::TooManyFamilies => "it has too many families".to_owned(),
        BadLock::UnknownFamily => "it has a family that this cudarun does not know".to_owned(),
        BadLock::DriverIsNoFloor => "`driver` is not `>=` and a version".to_owned(),
    }
}

/// The line of a file that is no TOML, with a caret below; empty for other faults and for long lines.
pub fn fault_lines(fault: &Fault) -> String {
    match &fault.wrong {
        Wrong::NotToml { lines, .. } if lines.iter().all(|line| line.len() <= LINE) => {
            lines.iter().map(|line| format!("\n{}", show(line))).collect()
        }
        _ => String::new(),
    }
}

/// What may be a whole book, by its beginning.
pub(super) fn short(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", show(&text[..end])),
        None => show(text),
    }
}

/// What to type then, where that is known.
pub fn fault_hint(fault: &Fault) -> Option<String> {
    match &fault.wrong {
        Wrong::BadPin { .. } => Some("--pin cudnn=9.10, or --pin cudnn=/opt/cudnn/lib".to_owned()),
        Wrong::NoFamily { name, known } => Some(one_of(name, "families", known)),
        Wrong::NotOneOf { text, known, .. } => {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            Some(one_of(text, "values", &known))
        }
        Wrong::OpenToOthers { path } => {
            Some(format!("chmod go-w {} if it is yours, or --no-config", quoted_to_show(path.as_os_str())))
        }
        Wrong::OfAStranger { .. } => Some("--no-config, or --config FILE if you mean it".to_owned()),
        Wrong::OtherCudarun { needed, .. } => Some(format!(
            "install cudarun {needed} (docs/install.md), or ignore the file: cudarun --no-config PROGRAM …"
        )),
        Wrong::NoLock | Wrong::BadLock(_) => Some("cudarun record PROGRAM …".to_owned()),
        _ => None,
    }
}

/// A key that nobody knows.
pub fn setting_remark(remark: &SettingRemark) -> String {
    match remark {
        SettingRemark::Key(remark) => unknown_key(remark),
        SettingRemark::Malformed(condition) => malformed(condition),
        SettingRemark::NotAllowed { path, keys } => not_allowed(path, keys),
    }
}

pub(super) fn unknown_key(remark: &Remark) -> String {
    let near = nearest(&remark.key, remark.known.iter().map(String::as_str));
    let meant = near.map(|near| format!(": did you mean `{near}`?")).unwrap_or_default();
    format!("{}: the key `{}` means nothing here{meant}", place(&remark.place), short(&remark.key))
}

pub(super) fn malformed(malformed: &Malformed) -> String {
    format!(
        "{}: `{}` makes no sense, and nothing that the variable asks for is looked at",
        short(&malformed.variable),
        short(&malformed.part)
    )
}

/// What a project's file says that nobody has allowed yet.
pub(super) fn not_allowed(file: &Path, keys: &BTreeSet<String>) -> String {
    let counts = if keys.len() > 1 { "count" } else { "counts" };
    let rest = keys.len().saturating_sub(KEYS);
    let mut keys: Vec<String> = keys.iter().take(KEYS).map(|key| format!("`{}`", short(key))).collect();
    if rest > 0 {
        keys.push(format!("{rest} more"));
    }
    format!(
        "{}: {} {counts} only after `cudarun allow {}`",
        show(file),
        list(&keys),
        quoted_where_needed(file)
    )
}

fn quoted_where_needed(path: &Path) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+@%,:".contains(c);
    match path.to_str() {
        Some(text) if text.chars().all(is_plain) => text.to_owned(),
        _ => quoted_to_show(path.as_os_str()),
    }
}

/// `allow --list`
pub fn allowed(allowed: &[Allowed]) -> String {
    let line = |allowed: &Allowed| {
        let changed = if allowed.is_current { "" } else { "  (has changed since, or is gone)" };
        format!("{}{changed}\n", show(&allowed.path))
    };
    allowed.iter().map(line).collect()
}

/// Where each setting came from: `explain -v`.
pub(super) fn settings(settings: &Layers, style: Style) -> String {
    let row = |setting: &crate::settings::Setting| {
        vec![show(&setting.key.name()), setting.value.text(), style.dim(&place(&setting.from))]
    };
    let rows: Vec<Vec<String>> = settings.iter().map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    format!("{}\n{}", style.strong("settings"), columns("  ", &rows))
}

/// Why no lock was written.
pub enum NotRecorded {
    Failed,
    Nothing,
    /// There is not one set of it.
    Twice {
        family: String,
    },
    /// It stands where no start would look.
    Elsewhere {
        file: PathBuf,
    },
}

pub fn not_recorded(lock: &Path, why: &NotRecorded) -> String {
    let why = match why {
        NotRecorded::Failed => "the program failed".to_owned(),
        NotRecorded::Nothing => "the program mapped no library of NVIDIA's".to_owned(),
        NotRecorded::Twice { family } => {
            format!("two installations of {} were mapped", words::family(family))
        }
        NotRecorded::Elsewhere { file } => {
            format!("{} stands where no start would look for it", show(file))
        }
    };
    format!("{} is not written: {why}", show(lock))
}

pub fn recorded(lock: &Path, families: usize) -> String {
    let what = if families == 1 { "family" } else { "families" };
    format!("{families} {what} of libraries recorded in {}", show(lock))
}

/// The file may have changed between a look at it and this.
pub fn now_allowed(file: &Path, settings: &[Setting]) -> String {
    let line =
        |setting: &Setting| format!("\n  {} = {}", short(&setting.key.name()), short(&setting.value.text()));
    let rest = settings.len().saturating_sub(KEYS);
    let more = if rest > 0 { format!("\n  {rest} more") } else { String::new() };
    let lines: String = settings.iter().take(KEYS).map(line).collect();
    format!("{} is allowed as it is now{lines}{more}", show(file))
}

pub fn revoked(file: &Path) -> String {
    format!("{} is allowed no longer", show(file))
}

pub fn never_allowed(file: &Path) -> String {
    format!("{} was not allowed", show(file))
}

pub fn written(file: &Path) -> String {
    format!("{} is written", show(file))
}
