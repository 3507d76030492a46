//! `list --running`: the processes that have NVIDIA's libraries mapped.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use super::Style;
use super::hints::{argument, shell_words};
use super::words::{joined, version};
use crate::catalog::display_name;
use crate::running::{RunningProcess, RunningProcesses, StartedFrom};
use crate::text::show;

/// Characters of a command line in the table.
const COMMAND: usize = 40;

/// The verdict, a row for each process, what is mixed, and the next command to type. `only` is the process that was asked for, and
/// `own_user` needs no name.
pub fn running(
    running: &RunningProcesses,
    only: Option<u32>,
    own_user: u32,
    is_long: bool,
    style: Style,
) -> String {
    let processes = &running.processes;
    let mut text = verdict(running, only, style);
    text.push('\n');
    let has_others = processes.iter().any(|process| process.uid != own_user);
    let mut rows = Vec::new();
    for process in processes {
        let mut row = row(process, style);
        if has_others {
            row.insert(1, process.uid.to_string());
        }
        rows.push(row);
    }
    if !rows.is_empty() {
        let mut titles = vec!["PID", "COMMAND", "CUDARUN", "GPU", "LIBRARIES"];
        if has_others {
            titles.insert(1, "UID");
        }
        rows.insert(
            0,
            titles
                .into_iter()
                .map(|title| style.strong(title))
                .collect(),
        );
        text.push_str(&format!("\n{}", style.columns("", &rows)));
    }
    for process in processes {
        let files = if is_long {
            files(process, style)
        } else {
            mixed(process, style)
        };
        if !files.is_empty() {
            text.push_str(&format!("\n{}{}\n{files}", process.pid, place(process)));
        }
    }
    if running.unreadable > 0 {
        let others = match running.unreadable {
            1 => "1 other process".to_owned(),
            count => format!("{count} other processes"),
        };
        let why = if own_user == 0 {
            "the kernel refuses it to root"
        } else {
            "only their users and root may"
        };
        let line = format!("{others} could not be looked at: {why}");
        text.push_str(&format!("\n{}\n", style.dim(&line)));
    }
    if running.hides_others {
        let line = "this machine shows the processes of other users to root alone (`hidepid`)";
        text.push_str(&format!("\n{}\n", style.dim(line)));
    }
    text + &style.next(&next(running, only, own_user))
}

fn verdict(running: &RunningProcesses, only: Option<u32>, style: Style) -> String {
    let processes = &running.processes;
    let mixed = processes
        .iter()
        .filter(|process| !process.mixed.is_empty())
        .count();
    match (processes.len(), mixed, only) {
        (0, _, Some(pid)) => format!("process {pid} has no NVIDIA library"),
        (0, _, None) => "no process has an NVIDIA library".to_owned(),
        (_, 0, Some(pid)) => style.good(&format!("process {pid} mixes no NVIDIA libraries")),
        (_, _, Some(pid)) => style.error(&format!("process {pid} mixes NVIDIA libraries")),
        (count, mixed, None) => {
            let have = if count == 1 {
                "process has"
            } else {
                "processes have"
            };
            let begin = format!("{count} {have} NVIDIA libraries");
            match mixed {
                0 => style.good(&format!("{begin}, none mixes them")),
                1 => style.error(&format!("{begin}, 1 mixes them")),
                mixed => style.error(&format!("{begin}, {mixed} mix them")),
            }
        }
    }
}

fn row(process: &RunningProcess, style: Style) -> Vec<String> {
    let command = shown_command(process);
    let short: String = command.chars().take(COMMAND).collect();
    let command = if short == command {
        command
    } else {
        format!("{short}…")
    };
    let mut versions: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for library in &process.libraries {
        let Some(family) = &library.family else {
            continue;
        };
        let version = if library.is_deleted {
            "(deleted since)".to_owned()
        } else {
            version(library.version.as_ref())
        };
        let of_family = versions.entry(family).or_default();
        if !of_family.contains(&version) {
            of_family.push(version);
        }
    }
    let families = versions.iter().map(|(family, versions)| {
        let text = format!("{} {}", display_name(family), joined(versions, " and "));
        let is_mixed = process.mixed.iter().any(|mixed| mixed.family == **family);
        if is_mixed {
            style.error(&format!("{text} mixed"))
        } else {
            text
        }
    });
    let numbers = process.devices.iter().map(|device| {
        let name = device.file_name().unwrap_or_default().to_string_lossy();
        name.trim_start_matches("nvidia").to_owned()
    });
    vec![
        process.pid.to_string(),
        command,
        match process.started_by_cudarun {
            Some(true) => "yes",
            Some(false) => "no",
            None => "?",
        }
        .to_owned(),
        if process.devices.is_empty() {
            "-".to_owned()
        } else {
            joined(numbers, ",")
        },
        joined(families, ", "),
    ]
}

/// The command line, or the executable of a process that has cleared it.
fn shown_command(process: &RunningProcess) -> String {
    let [program, words @ ..] = process.command.as_slice() else {
        return show(&process.program);
    };
    // The directory of a Python says less than its script.
    let program = Path::new(program).file_name().unwrap_or(program);
    let words = words.iter().map(OsString::as_os_str);
    joined(std::iter::once(program).chain(words).map(show), " ")
}

fn place(process: &RunningProcess) -> String {
    match &process.container {
        Some(name) => format!(", in container {name}"),
        None if process.is_elsewhere => ", in another root directory".to_owned(),
        None => String::new(),
    }
}

/// A row for each installation of a mixed family.
fn mixed(process: &RunningProcess, style: Style) -> String {
    let mut rows = Vec::new();
    for mixed in &process.mixed {
        for installation in &mixed.installations {
            let version = version(installation.version.as_ref());
            rows.push(vec![
                format!("{} {version}", display_name(&mixed.family)),
                show(&installation.directory),
            ]);
        }
    }
    style.columns("  ", &rows)
}

/// A row for each file.
fn files(process: &RunningProcess, style: Style) -> String {
    let mut rows = Vec::new();
    for library in &process.libraries {
        let family = library.family.as_deref().map(display_name);
        let mut row = vec![
            family.unwrap_or("bundled").to_owned(),
            version(library.version.as_ref()),
            show(&library.path),
        ];
        if library.is_deleted {
            row.push(style.warning("deleted since"));
        }
        rows.push(row);
    }
    style.columns("  ", &rows)
}

fn next(running: &RunningProcesses, only: Option<u32>, own_user: u32) -> String {
    let processes = &running.processes;
    let wrong = processes.iter().find(|process| !process.mixed.is_empty());
    let wrong = wrong.or_else(|| processes.iter().find(|process| process.is_wrong()));
    if let Some(process) = wrong
        && let Some(command) = restart(process)
    {
        // What others have started is not for this user to start.
        let is_of_machine = command.starts_with("sudo ");
        return if process.uid == own_user || is_of_machine {
            command
        } else {
            format!("sudo -u '#{}' {command}", process.uid)
        };
    }
    match (wrong.or(processes.first()), only) {
        (Some(process), None) => format!("cudarun list --running {}", process.pid),
        (None, None) if running.hides_others || running.unreadable > 0 && own_user != 0 => {
            "sudo cudarun list --running".to_owned()
        }
        _ => "cudarun doctor".to_owned(),
    }
}

/// What the user of a process types, so that it has libraries that fit the next time; `None` where all is right, and where it is not
/// known what started it.
pub(super) fn restart(process: &RunningProcess) -> Option<String> {
    let is_ours = process.started_by_cudarun == Some(true);
    // Elsewhere, what started it is not this machine's. What cudarun started with one set has mapped something else since.
    if !process.mixed.is_empty() && (process.is_elsewhere || is_ours) {
        return Some(format!("cudarun explain {}", shell_words(&process.command)));
    }
    Some(match process.started_from.as_ref()? {
        StartedFrom::Command(words) if is_ours => shell_words(words),
        StartedFrom::Command(words) => format!("cudarun {}", shell_words(words)),
        // Jupyter restarts it.
        StartedFrom::Kernel(_) if is_ours => return None,
        StartedFrom::Kernel(python) => format!("cudarun hook jupyter {}", argument(python)),
        StartedFrom::Service { unit, is_user } => {
            let unit = argument(unit.as_ref());
            match (is_ours, is_user) {
                (true, true) => format!("systemctl --user restart {unit}"),
                (true, false) => format!("sudo systemctl restart {unit}"),
                (false, true) => format!("cudarun hook systemd --user {unit}"),
                (false, false) => format!("sudo cudarun hook systemd {unit}"),
            }
        }
    })
}
