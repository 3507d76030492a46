//! `cudarun hook SHELL` prints the script that a shell evaluates. In a project, that script runs `hook --check`, which warns when
//! the project's requirements do not hold for programs that start without cudarun, and prints what the shell sets to follow.
//! Starts and loads nothing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{hook_files, only_here, print};
use crate::catalog::catalog;
use crate::cli::{Common, Hook, HookPlace, LibraryOptions};
use crate::error::Error;
use crate::host::Host;
use crate::kept::{self, start_key};
use crate::pipeline::{self, Exit, Request, StartFacts};
use crate::predict::project;
use crate::program::Command;
use crate::report::{self, Style};
use crate::requirements::Load;
use crate::settings::{SettingKey, files, resolve::Purpose};
use crate::shell;
use crate::solve::{Outcome, Plan};
use crate::storage;

/// How many projects a shell remembers.
const REMEMBERED: usize = 32;

/// The words for the project's setting in a kept answer.
const ON: &str = "on";
const OFF: &str = "off";

pub fn hook(host: &Host, common: &Common, hook: &Hook) -> Result<Exit, Error> {
    only_here(common, "hook")?;
    let is_quiet = common.quiet;
    // What a shell would get without cudarun does not matter where everything is followed.
    let common = &Common {
        quiet: common.quiet || hook.follow,
        ..common.clone()
    };
    match (hook.place, &hook.check) {
        (Some(HookPlace::Jupyter), _) => return hook_files::jupyter(host, common, hook),
        (Some(HookPlace::Systemd), _) => return hook_files::systemd(host, common, hook),
        (Some(HookPlace::Shell(shell)), _) => print(&shell::hook(shell, is_quiet, hook.follow))?,
        (None, told) => print(&check(
            host,
            common,
            hook.follow,
            told.as_deref().unwrap_or_default(),
        ))?,
    }
    Ok(Exit::Yes)
}

/// Says what does not hold, unless this shell has been told the same of this project. Returns what it has been told by now,
/// and in further lines what a shell sets if whatever it starts is to be followed here.
fn check(host: &Host, common: &Common, follows: bool, told: &str) -> String {
    let Some(project) = in_sight(host) else {
        return told.to_owned();
    };
    let answer = answer(host, &project, common);
    let (setting, answer) = answer.split_once('\n').unwrap_or_default();
    let follows = setting == ON || follows && setting != OFF;
    let lines = if follows { following(host) } else { None };
    let place = storage::digest([project.as_os_str().as_encoded_bytes()]);
    let state = storage::digest([answer.as_bytes()]);
    let of_place = |entry: &&str| entry.split('-').next() == Some(&place);
    let known = told.split(',').find(of_place);
    let now = format!("{place}-{state}");
    if !answer.is_empty() && known != Some(&now) {
        let style = Style::stderr(common.color);
        report::say(&style.page(&report::project_line(answer, style)));
    }
    let others = told
        .split(',')
        .filter(|entry| !entry.is_empty() && !of_place(entry));
    let mut told: Vec<&str> = others.collect();
    if !answer.is_empty() {
        told.push(&now);
    }
    told[told.len().saturating_sub(REMEMBERED)..].join(",") + lines.as_deref().unwrap_or_default()
}

/// The module, and the value of the variable of the tree, a line each. Shells cannot hold every path.
fn following(host: &Host) -> Option<String> {
    let (module, tree) = pipeline::following(host).ok()?;
    let (module, tree) = (module.to_str()?, tree.to_str()?);
    Some(format!("\n{module}\n{tree}")).filter(|lines| lines.lines().count() == 3)
}

/// The file by which a project is known: its own, or else a lock in the current directory.
fn in_sight(host: &Host) -> Option<PathBuf> {
    files::nearest(host)
        .or_else(|| Some(files::lock(host, None)).filter(|path| host.lstat(path).is_ok()))
}

/// A line about following, and a line about trouble, which is empty where all is well: what was kept, or a new look.
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
        .and_then(|key| kept::find_answer(host, &directories, key))
    {
        return known;
    }
    let mut read = Read::default();
    let answer = trouble(host, common, &mut read).unwrap_or_else(|error| {
        // It came before all was read that could put it right.
        read.is_partial = true;
        let hint = report::error_hint(&error);
        let hint = hint.map(|hint| format!(": {hint}")).unwrap_or_default();
        let error = error.to_string();
        Some(format!(
            "{}{hint}",
            error.lines().next().unwrap_or_default()
        ))
    });
    let following = match read.follows {
        Some(true) => ON,
        Some(false) => OFF,
        None => "",
    };
    let answer = format!("{following}\n{}", answer.unwrap_or_default());
    read.watched.insert(project.to_owned());
    let key = key.filter(|_| !read.is_partial);
    if let (Some(key), Ok(directory)) = (key, storage::cache_directory(host)) {
        kept::keep_answer(
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

/// The paths that an answer was read from.
#[derive(Default)]
struct Read {
    watched: BTreeSet<PathBuf>,
    located: BTreeSet<PathBuf>,
    /// The answer could differ by something that was not read, or in another directory of the project.
    is_partial: bool,
    /// The setting that whatever a shell starts here is followed.
    follows: Option<bool>,
}

/// The line, or `None` where all is well.
fn trouble(host: &Host, common: &Common, read: &mut Read) -> Result<Option<String>, Error> {
    let library_options = LibraryOptions::default();
    let request = Request::new(host, common, &library_options, None, Purpose::Project);
    let mut settings = request.settings()?;
    read.watched.extend(settings.watched.iter().cloned());
    read.follows = settings.layers.flag(SettingKey::Follow);
    if let Some(remark) = settings.not_allowed() {
        return Ok(Some(report::setting_remark(remark)));
    }
    let mut facts = request.facts(&mut settings)?;
    let outcome = facts.solve();
    Ok(examine(&mut facts, &outcome, common, read))
}

/// The trouble that programs of the project would have without cudarun, in one line.
fn examine(
    facts: &mut StartFacts<'_>,
    outcome: &Outcome,
    common: &Common,
    read: &mut Read,
) -> Option<String> {
    // Without the Python that it names, a project is represented by any program.
    let names_packages = !facts.settings.layers.words(SettingKey::Uses).is_empty();
    read.is_partial = names_packages && facts.program.pip.is_none();
    if let Outcome::Plan(plan) = outcome {
        facts.program.loads.extend(loads(plan));
    }
    let before = facts.before();
    read.watched.extend(facts.watched(outcome, Some(&before)));
    read.located.extend(facts.program.located.iter().cloned());
    read.is_partial |= facts.program.depends_on_directory;
    let trouble = project::judge(outcome, &before, &facts.inventory);
    let trouble = trouble.filter(|trouble| !common.quiet || trouble.ends_every_start());
    let remark = facts.settings.remarks.first().filter(|_| !common.quiet);
    trouble
        .map(|trouble| report::trouble(&trouble))
        .or_else(|| remark.map(report::setting_remark))
}

/// A stand-in for a project's programs opens what was picked for them, by the name that every program uses.
pub(super) fn loads(plan: &Plan) -> impl Iterator<Item = Load> {
    plan.picks.iter().filter_map(|pick| {
        let main = &catalog().family(&pick.installation.family)?.main;
        let name = pick.installation.member(main)?.soname.clone();
        Some(Load {
            by: None,
            name,
            may_be_first: false,
            is_guess: false,
        })
    })
}
