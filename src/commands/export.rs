//! `cudarun export PROGRAM …`: the environment that the program would get, for a shell to take.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::{Considered, Exit, Purpose, command_of, consider, machine, print, say_notes, style, wanted};
use crate::cli::{Common, Dialect, Export};
use crate::environment::Diff;
use crate::error::Error;
use crate::host::Host;
use crate::report;
use crate::settings::{PROJECT, files};

pub fn export(host: Host, common: &Common, export: &Export) -> Result<Exit, Error> {
    let question = &export.question;
    let host = machine(host, common)?;
    let command = command_of(&question.words);
    let wanted = wanted(&host, common, &question.wishes, Some(&command), Purpose::Start)?;
    let host = &wanted.host;
    let considered = consider(&wanted, common, &command)?;
    if considered.refuse(question.json, style(host, common.color, host.stderr_is_terminal()))? {
        return Ok(Exit::No);
    }
    if !question.json && !common.quiet {
        say_notes(&considered);
    }
    // Under --root the view is only named: nothing is written into another machine.
    let (diff, _) = considered.change(host, !host.is_rerooted())?;
    if question.json {
        print(&report::json::environment(&diff))?;
        return Ok(Exit::Yes);
    }
    let mut code = in_words(&diff, export.shell, common);
    if export.shell == Dialect::Direnv {
        code.extend(deciding(&considered, common).iter().map(|path| report::watch(path)));
    }
    print(&code)?;
    Ok(Exit::Yes)
}

fn in_words(diff: &Diff, dialect: Dialect, common: &Common) -> String {
    let mut code = String::new();
    for change in &diff.0 {
        match report::shell_change(change, dialect) {
            Some(line) => code.push_str(&line),
            None if common.quiet => {}
            None => report::say(&format!("cudarun: {}\n", report::no_variable_of_a_shell(&change.name))),
        }
    }
    code
}

/// What a person changes to get another answer, there or not: settings and locks, the program, the packages of
/// its Python.
fn deciding(considered: &Considered<'_>, common: &Common) -> BTreeSet<PathBuf> {
    let (wanted, program) = (considered.wanted, &considered.program);
    let mut files = wanted.watched.clone();
    files.insert(files::lock(&wanted.host, wanted.project.as_deref()));
    if wanted.project.is_none() && !common.no_config {
        files.insert(wanted.host.cwd.join(PROJECT));
    }
    files.extend(program.steps.iter().map(|step| step.to.clone()));
    files.extend(program.site_packages.iter().cloned());
    files
}
