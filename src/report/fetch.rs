//! `cudarun fetch` in words: what is to be downloaded, what the store holds, and why a wheel cannot be had.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::Style;
use super::hints::own_command_line;
use super::words;
use crate::catalog::display_names;
use crate::fetch::{DAY, FetchStep, StoredWheel, room};
use crate::program::Program;
use crate::solve::{Absent, MissingWheel};
use crate::text::{list, show, shown, size};

pub const NOTHING_TO_FETCH: &str = "nothing to fetch: all libraries are here\n";
pub const STORE_IGNORED: &str = "nothing was fetched: this start ignores fetched wheels\n\nhint: leave out `--without fetched`\n";
pub const MAY_FETCH: &str = "Download them? [y/N] ";

/// The reason why nothing may be downloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoConsent {
    NoTerminal,
    AnsweredNo,
}

/// `words` is the command line, and the hint the one that asks nothing.
pub fn not_allowed_to_fetch(why: NoConsent, mut words: Vec<OsString>) -> String {
    let verb = words
        .iter()
        .position(|word| word == "fetch" || word == "--fetch")
        .unwrap_or_default();
    words.insert(verb + 1, "--yes".into());
    let hint = own_command_line(&words[1..]);
    let why = match why {
        NoConsent::NoTerminal => "there is no terminal to ask on",
        NoConsent::AnsweredNo if words[verb] == "--fetch" => {
            "the answer was no, so nothing was started"
        }
        NoConsent::AnsweredNo => "the answer was no",
    };
    format!("nothing was downloaded: {why}\n\nhint: {hint}\n")
}

/// Wheels to download, and where to.
pub struct ToFetch<'f> {
    pub wheels: &'f [MissingWheel],
    pub place: &'f Path,
    /// Bytes.
    pub free: Option<u64>,
    /// Directories to take them from, instead of the index.
    pub from: &'f [PathBuf],
}

pub fn to_fetch(to_fetch: &ToFetch<'_>, style: Style) -> String {
    let ToFetch {
        wheels,
        place,
        free,
        from,
    } = to_fetch;
    let rows: Vec<Vec<String>> = wheels.iter().map(row).collect();
    let total: u64 = wheels.iter().map(|wheel| wheel.size).sum();
    let mut text = format!(
        "{} missing:\n{}",
        summary(wheels),
        style.columns("  ", &rows)
    );
    if !from.is_empty() {
        text.push_str(&format!("from {}, not from the network\n", shown(*from)));
    }
    let needed = size(room(total));
    text.push_str(&format!("into {}: {needed} are needed", show(place)));
    if let Some(free) = free {
        text.push_str(&format!(", {} are free", size(*free)));
    }
    text + "\nlicence: NVIDIA's own (proprietary); its text comes with each wheel\n"
}

/// `2 wheels, 1.3 GB`
pub(super) fn summary(wheels: &[MissingWheel]) -> String {
    let total: u64 = wheels.iter().map(|wheel| wheel.size).sum();
    format!("{}, {}", words::counted(wheels.len(), "wheel"), size(total))
}

/// The wheel, its size, the program or library that asks for it, and the first digits of its hash.
fn row(wheel: &MissingWheel) -> Vec<String> {
    let name = format!("{} {}", wheel.distribution, wheel.version);
    let askers = list(words::titles(&wheel.asked_by).into_iter().take(2));
    let names = list(wheel.names.iter().take(2).map(show));
    let why = match (askers.is_empty(), names.is_empty()) {
        (true, _) => String::new(),
        (false, true) => format!("for {askers}"),
        (false, false) => format!("{names} for {askers}"),
    };
    vec![
        name,
        size(wheel.size),
        why,
        format!("sha256 {}…", &wheel.sha256[..12.min(wheel.sha256.len())]),
    ]
}

/// Packages may load these libraries and work without them. `program` is the command line.
pub fn only_optional_missing(absent: &[Absent], program: &[OsString], style: Style) -> String {
    let lines = words::absent(absent, &[]).join("\n");
    let mut command: Vec<OsString> = vec!["fetch".into()];
    let families: BTreeSet<&str> = absent.iter().map(|one| one.family.as_str()).collect();
    for family in families {
        command.extend(["--require".into(), family.into()]);
    }
    command.extend(program.iter().cloned());
    let next = style.next(&own_command_line(&command));
    format!("nothing to fetch: only optional libraries are missing\n{lines}\n{next}")
}

/// The command that gets a library which is as new as a package asks.
pub fn newer_on_offer(program: &Program) -> String {
    let mut command: Vec<OsString> = vec!["--fetch".into()];
    command.extend(program.words.iter().cloned());
    let command = own_command_line(&command);
    format!("hint: for a newer one, beside the environment: {command}")
}

/// Libraries that the program asks for; it starts without them.
pub fn nothing_on_offer_for(absent: &[Absent]) -> String {
    let lacking: BTreeSet<String> = absent.iter().map(|one| one.family.clone()).collect();
    let lines = words::absent(absent, &[]).join("\n");
    format!(
        "nothing to fetch: {}\n{lines}\n",
        nothing_on_offer(&lacking)
    )
}

pub fn nothing_on_offer(lacking: &BTreeSet<String>) -> String {
    format!(
        "no wheel of {} is on offer for this machine that fits the rest",
        display_names(lacking)
    )
}

pub fn fetch_step(step: &FetchStep<'_>) -> String {
    match step {
        FetchStep::Waits => "waiting for another cudarun that fetches".to_owned(),
        FetchStep::Begins(wheel) => {
            format!(
                "fetching {} {}, {}",
                wheel.distribution,
                wheel.version,
                size(wheel.size)
            )
        }
        FetchStep::Done(wheel, time) => {
            format!(
                "fetched {} {} in {:.1} s",
                wheel.distribution,
                wheel.version,
                time.as_secs_f64()
            )
        }
    }
}

pub fn stored(entries: &[StoredWheel], store: &Path, now: i64, style: Style) -> String {
    if entries.is_empty() {
        return format!("no fetched wheels in {}\n", show(store));
    }
    let total: u64 = entries.iter().map(|entry| entry.size).sum();
    let mut rows = Vec::new();
    for entry in entries {
        rows.push(vec![
            stored_title(entry),
            size(entry.size),
            format!("fetched {}", ago(now - entry.about.fetched)),
            format!("last use {}", ago(now - entry.last_use)),
        ]);
    }
    format!(
        "{} in {}\n{}",
        size(total),
        show(store),
        style.columns("  ", &rows)
    )
}

fn stored_title(entry: &StoredWheel) -> String {
    let about = &entry.about;
    format!("{} {}", show(&about.distribution), show(&about.version))
}

fn ago(seconds: i64) -> String {
    match seconds / DAY {
        0 => "today".to_owned(),
        1 => "yesterday".to_owned(),
        days => format!("{days} days ago"),
    }
}

pub fn pruned(entries: &[&StoredWheel], only_shows: bool) -> String {
    if entries.is_empty() {
        return "nothing to remove\n".to_owned();
    }
    let verb = if only_shows {
        "would remove"
    } else {
        "removed"
    };
    let mut text = String::new();
    for entry in entries {
        text.push_str(&format!("{verb} {}\n", stored_title(entry)));
    }
    let freed: u64 = entries.iter().map(|entry| entry.size).sum();
    format!("{text}{} in all\n", size(freed))
}
