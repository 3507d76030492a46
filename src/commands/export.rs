//! `cudarun export PROGRAM …`: the environment that the program would get, for a shell to evaluate.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::{Exit, command_of, machine, only_here, print, refuse, say, say_notes, settings_of};
use crate::cli::{Common, Dialect, Export};
use crate::environment::Diff;
use crate::error::Error;
use crate::host::Host;
use crate::pipeline::{self, Request, StartFacts};
use crate::report;
use crate::settings::PROJECT;
use crate::settings::resolve::Purpose;
use crate::variables;

pub fn export(host: Host, common: &Common, export: &Export) -> Result<Exit, Error> {
    let question = &export.question;
    if export.follow {
        only_here(common, "export --follow")?;
        let (module, tree) = pipeline::following(&host)?;
        print(&report::follow_lines(&module, &tree, export.shell))?;
        return Ok(Exit::Yes);
    }
    let host = machine(host, common)?;
    let command = command_of(&question.words);
    let request = Request {
        is_build: question.building.build,
        ..Request::new(
            &host,
            common,
            &question.library_options,
            Some(&command),
            Purpose::Prepare,
        )
    };
    let mut settings = settings_of(&request)?;
    let (facts, mut decision) = request.decision(&mut settings)?;
    if refuse(&facts, &decision, question.json, common)? {
        return Ok(Exit::No);
    }
    if !question.json && !common.quiet {
        // Only where the module must pin, what is printed follows.
        let pinned = decision.pinned.as_ref();
        let uses_module = pinned.is_some_and(|pinned| pinned.mode.traits().uses_module);
        let follows = facts.follows() && uses_module;
        say_notes(&facts, &decision, follows);
    }
    let diff = if host.is_rerooted() {
        // Nothing is written into another machine: the view is only named.
        pipeline::change(&facts, &decision, false)?.diff
    } else {
        let change = facts.publish(&mut decision)?;
        let later = pipeline::started_later(&facts, &change);
        let mut later = request.with_options(later, &facts.settings.layers);
        // How much is said is about this answer alone.
        later
            .0
            .retain(|name, _| name != variables::QUIET && name != variables::VERBOSE);
        later
    };
    tell(&facts, &diff, common, export)?;
    Ok(Exit::Yes)
}

fn tell(
    facts: &StartFacts<'_>,
    diff: &Diff,
    common: &Common,
    export: &Export,
) -> Result<(), Error> {
    if export.question.json {
        return print(&report::json::environment(diff));
    }
    let mut code = shell_code(diff, export.shell, common);
    if export.shell == Dialect::Direnv {
        code.extend(
            decisive_files(facts, common)
                .iter()
                .map(|path| report::watch(path)),
        );
    }
    print(&code)
}

fn shell_code(diff: &Diff, dialect: Dialect, common: &Common) -> String {
    let mut code = String::new();
    for (name, value) in &diff.0 {
        match report::shell_change(name, value.as_deref(), dialect) {
            Some(line) => code.push_str(&line),
            None if common.quiet => {}
            None => say(&report::no_variable_of_a_shell(name)),
        }
    }
    code
}

/// The files that a person changes to get another answer, existing or not: settings and locks, the program, the packages
/// of its Python.
fn decisive_files(facts: &StartFacts<'_>, common: &Common) -> BTreeSet<PathBuf> {
    let StartFacts {
        host,
        settings,
        program,
        ..
    } = facts;
    let mut files = settings.watched.clone();
    files.insert(settings.lock_file());
    if settings.project().is_none() && !common.no_config {
        files.insert(host.cwd.join(PROJECT));
    }
    files.extend(program.steps.iter().map(|step| step.to.clone()));
    files.extend(program.site_packages.iter().cloned());
    files
}
