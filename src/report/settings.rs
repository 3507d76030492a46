//! Faults of settings, remarks about them, and the place of each.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use unicode_width::UnicodeWidthStr;

use super::Style;
use super::hints::{argument, mend_or};
use super::words::{at, one_of, table};
use crate::catalog::display_name;
use crate::settings::container::Malformed;
use crate::settings::resolve::SettingRemark;
use crate::settings::trust::Allowed;
use crate::settings::{FaultKind, Layers, Remark, Setting, SettingFault, SettingPlace};
use crate::storage::UnusablePlace;
use crate::text::{list, nearest, short, show};

/// Further keys are only counted.
const KEYS: usize = 8;
/// Longer lines of a file are not repeated in an error.
const LINE: usize = 200;

/// The place of a setting, as a person types or opens it.
pub(super) fn place(place: &SettingPlace) -> String {
    match place {
        SettingPlace::File { path, line } => at(path, *line),
        SettingPlace::Option(_) | SettingPlace::Variable(_) => place.title(),
    }
}

pub(super) fn fault(fault: &SettingFault) -> String {
    let place = place(&fault.place);
    match &fault.wrong {
        FaultKind::NoLock => format!("no lock: {place} does not exist"),
        wrong => format!("{place}{wrong}"),
    }
}

/// The line at fault, with a caret below; empty for long lines.
pub(super) fn fault_lines(fault: &SettingFault) -> String {
    match (&fault.excerpt, &fault.place) {
        (
            Some(excerpt),
            SettingPlace::File {
                line: Some(line), ..
            },
        ) if excerpt.text.len() <= LINE => {
            let line = line.to_string();
            let text = show(&excerpt.text.replace('\t', " "));
            let before = show(&excerpt.text[..excerpt.at].replace('\t', " ")).width();
            let blank = " ".repeat(line.len());
            format!(
                "\n{blank} |\n{line} | {text}\n{blank} | {}^",
                " ".repeat(before)
            )
        }
        _ => String::new(),
    }
}

/// The command to type, if one is known.
pub(super) fn fault_hint(fault: &SettingFault) -> Option<String> {
    match &fault.wrong {
        FaultKind::Invalid {
            text, wants, known, ..
        } if !known.is_empty() => {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let all = if *wants == "value" {
                "values"
            } else {
                "families"
            };
            Some(one_of(text, all, &known))
        }
        FaultKind::Invalid {
            text,
            lacks_quotes: true,
            ..
        } => {
            let excerpt = fault.excerpt.as_ref()?;
            let (before, rest) = excerpt.text.split_at(excerpt.at);
            let after = rest.strip_prefix(&**text)?;
            Some(format!(
                "write `{}`",
                show(format!("{before}\"{text}\"{after}").trim())
            ))
        }
        FaultKind::Unsafe(way) => Some(format!(
            "{}--no-config",
            mend_or(&UnusablePlace::Unsafe(way.clone()))
        )),
        FaultKind::OfAStranger { .. } => {
            Some("--no-config, or --config FILE if you trust it".to_owned())
        }
        FaultKind::OtherCudarun { needed, .. } => Some(format!(
            "install cudarun {needed} (docs/install.md), or ignore the file: cudarun --no-config PROGRAM …"
        )),
        FaultKind::NoLock | FaultKind::BadLock(_) => Some("cudarun record PROGRAM …".to_owned()),
        _ => None,
    }
}

pub fn setting_remark(remark: &SettingRemark) -> String {
    match remark {
        SettingRemark::Key(remark) => unknown_key(remark),
        SettingRemark::Malformed(condition) => malformed(condition),
        SettingRemark::NotAllowed { path, keys } => {
            let allow = format!("cudarun allow {}", argument(path.as_os_str()));
            format!("{}; read it, then `{allow}`", not_allowed(path, keys))
        }
    }
}

pub(super) fn unknown_key(remark: &Remark) -> String {
    let near = nearest(
        &remark.key.to_lowercase(),
        remark.known.iter().map(String::as_str),
    );
    let meant = match (remark.belongs, near) {
        (Some(""), _) => ": it belongs above all tables".to_owned(),
        (Some(table), _) => format!(": it belongs under [{table}]"),
        (None, Some(near)) => format!(": did you mean `{near}`?"),
        (None, None) => String::new(),
    };
    format!(
        "{}: unknown key `{}`{meant}",
        place(&remark.place),
        short(&remark.key)
    )
}

pub(super) fn malformed(malformed: &Malformed) -> String {
    format!(
        "{}: cannot parse `{}`, so the whole variable is ignored",
        short(&malformed.variable),
        short(&malformed.part)
    )
}

/// The keys of a project's file that need `cudarun allow`.
pub(super) fn not_allowed(file: &Path, keys: &BTreeSet<String>) -> String {
    let rest = keys.len().saturating_sub(KEYS);
    let mut keys: Vec<String> = keys
        .iter()
        .take(KEYS)
        .map(|key| format!("`{}`", short(key)))
        .collect();
    if rest > 0 {
        keys.push(format!("{rest} more"));
    }
    format!("{}: not allowed yet: it sets {}", show(file), list(&keys))
}

/// `allow --list`
pub fn allowed(allowed: &[Allowed]) -> String {
    let mut text = String::new();
    for Allowed { path, is_current } in allowed {
        let changed = if *is_current {
            ""
        } else {
            "  (changed or removed since)"
        };
        text.push_str(&format!("{}{changed}\n", show(path)));
    }
    text
}

/// The settings, each with its place: `explain -v`.
pub(super) fn settings(settings: &Layers, style: Style) -> String {
    let mut rows = Vec::new();
    for setting in settings.iter() {
        rows.push(vec![
            show(&setting.name()),
            setting.value.text(),
            style.dim(&place(&setting.from)),
        ]);
    }
    table("settings", &rows, style)
}

/// The reason why no lock was written.
pub enum NotRecorded {
    /// The program failed.
    Failed,
    /// The program mapped no library of NVIDIA.
    Nothing,
    /// Two installations of this family were mapped.
    Twice { family: String },
    /// This file is in a directory that no scan visits.
    Elsewhere { file: PathBuf },
}

pub fn not_recorded(lock: &Path, why: &NotRecorded) -> String {
    let why = match why {
        NotRecorded::Failed => "the program failed".to_owned(),
        NotRecorded::Nothing => "the program loaded no NVIDIA library".to_owned(),
        NotRecorded::Twice { family } => {
            format!(
                "the program loaded two installations of {}",
                display_name(family)
            )
        }
        NotRecorded::Elsewhere { file } => format!("no scan would find {}", show(file)),
    };
    format!("{} is not written: {why}", show(lock))
}

pub fn recorded(lock: &Path, families: usize) -> String {
    let what = if families == 1 { "family" } else { "families" };
    format!(
        "recorded {families} library {what} in {}; `cudarun --locked PROGRAM` takes exactly these",
        show(lock)
    )
}

/// Shows the allowed keys: the file may have changed since a person read it.
pub fn now_allowed<'s>(file: &Path, mut settings: impl Iterator<Item = &'s Setting>) -> String {
    let mut text = format!("{} is allowed with its current content", show(file));
    for setting in settings.by_ref().take(KEYS) {
        let (name, value) = (setting.name(), setting.value.text());
        text += &format!("\n  {} = {}", short(&name), short(&value));
    }
    match settings.count() {
        0 => text,
        rest => format!("{text}\n  {rest} more"),
    }
}

pub fn revoked(file: &Path) -> String {
    format!("{} is no longer allowed", show(file))
}

pub fn never_allowed(file: &Path) -> String {
    format!("{} was not allowed", show(file))
}

pub fn written(file: &Path) -> String {
    format!(
        "wrote {}; `cudarun hook SHELL` prints a hook that warns when it is not met",
        show(file)
    )
}
