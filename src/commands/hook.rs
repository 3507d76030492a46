//! `cudarun hook SHELL` prints the script that a shell evaluates. In a project, that script runs `hook --check`, which warns when
//! the project's requirements do not hold for programs that start without cudarun. Starts and loads nothing.

use std::path::{Path, PathBuf};

use super::trouble::{Read, trouble};
use super::{Exit, only_here, print};
use crate::cli::{Common, Hook};
use crate::error::Error;
use crate::host::Host;
use crate::program::Command;
use crate::report::{self, Style};
use crate::settings::files;
use crate::settings::start_key::start_key;
use crate::shell;
use crate::storage;

/// How many projects a shell remembers.
const REMEMBERED: usize = 32;

pub fn hook(host: &Host, common: &Common, hook: &Hook) -> Result<Exit, Error> {
    only_here(common, "hook")?;
    match (hook.shell, &hook.check) {
        (Some(shell), _) => print(&shell::hook(shell, common.quiet))?,
        (None, told) => print(&check(host, common, told.as_deref().unwrap_or_default()))?,
    }
    Ok(Exit::Yes)
}

/// Says what does not hold, unless this shell has been told the same of this project; what it has been told by now.
fn check(host: &Host, common: &Common, told: &str) -> String {
    let Some(project) = in_sight(host) else {
        return told.to_owned();
    };
    let answer = answer(host, &project, common);
    let place = storage::digest([project.as_os_str().as_encoded_bytes()]);
    let state = storage::digest([answer.as_bytes()]);
    let of_place = |entry: &&str| entry.split('-').next() == Some(&place);
    let known = told.split(',').find(of_place);
    let now = format!("{place}-{state}");
    if !answer.is_empty() && known != Some(&now) {
        let style = Style::stderr(common.color);
        report::say(&style.page(&report::project_line(&answer, style)));
    }
    let others = told
        .split(',')
        .filter(|entry| !entry.is_empty() && !of_place(entry));
    let mut told: Vec<&str> = others.collect();
    if !answer.is_empty() {
        told.push(&now);
    }
    told[told.len().saturating_sub(REMEMBERED)..].join(",")
}

/// The file by which a project is known: its own, or else a lock in the current directory.
fn in_sight(host: &Host) -> Option<PathBuf> {
    files::nearest(host)
        .or_else(|| Some(files::lock(host, None)).filter(|path| host.lstat(path).is_ok()))
}

/// One line, or nothing where all is well: what was kept, or a new look.
fn answer(host: &Host, project: &Path, common: &Common) -> String {
    let name = if common.quiet { "hook --quiet" } else { "hook" };
    let command = Command {
        program: name.into(),
        arguments: Vec::new(),
    };
    let directories: Vec<PathBuf> = storage::safe_directories(host).collect();
    let is_plain = common.also.is_empty() && common.without.is_empty();
    let is_plain = is_plain && common.config.is_none() && !common.no_config;
    // A project is asked the same in each of its directories.
    let key = start_key(host, project, &command, false).filter(|_| is_plain);
    if let Some(known) = key
        .as_ref()
        .and_then(|key| storage::find_answer(host, &directories, key))
    {
        return known;
    }
    let mut read = Read::default();
    let answer = trouble(host, common, &mut read).unwrap_or_else(|error| {
        // It came before all was read that could put it right.
        read.is_partial = true;
        let hint = report::error_hint(&error);
        let hint = hint.map(|hint| format!(": {hint}")).unwrap_or_default();
        let error = report::error(&error);
        Some(format!(
            "{}{hint}",
            error.lines().next().unwrap_or_default()
        ))
    });
    let answer = answer.unwrap_or_default();
    read.watched.insert(project.to_owned());
    let key = key.filter(|_| !read.is_partial);
    if let (Some(key), Ok(directory)) = (key, storage::cache_directory(host)) {
        storage::keep_answer(
            host,
            &directory,
            &key,
            &answer,
            &read.watched,
            &read.located,
        );
    }
    answer
}
