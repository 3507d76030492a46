//! The examination of a machine for `cudarun doctor`, and of the programs that it asks about, each followed up to its decision.

use std::ffi::OsString;

use super::{Exit, command_of};
use crate::catalog::{Framework, catalog};
use crate::cli::{Common, Wishes};
use crate::doctor::{self, Examination};
use crate::error::Error;
use crate::host::Host;
use crate::inventory::{Inventory, Scope};
use crate::launch;
use crate::pipeline::{self, Reached, Request, Stop, Subject, any_program, own_views};
use crate::program::{self, Command, Program};
use crate::report::{self, ExaminedProgram};
use crate::settings::resolve::{self, Purpose, Settings};

/// Examines the program of the command line, or each framework of the first Python in PATH, in the way of `explain`.
pub(super) fn programs(
    host: &Host,
    common: &Common,
    words: &[OsString],
) -> Result<Vec<ExaminedProgram>, Error> {
    if !words.is_empty() {
        return match examine_program(host, common, words) {
            // It is a finding of the page.
            Err(error @ Error::Setting(_)) => {
                let why = vec![report::error(&error)];
                Ok(vec![ExaminedProgram::missing(
                    &report::shell_words(words),
                    why,
                )])
            }
            examined => Ok(examined?.into_iter().collect()),
        };
    }
    let python = Command {
        program: "python3".into(),
        arguments: Vec::new(),
    };
    let Ok(python) = program::environment(host, &python) else {
        return Ok(Vec::new());
    };
    let examined = |module: &String| {
        let words = [
            "python3".into(),
            "-c".into(),
            format!("import {module}").into(),
        ];
        examine_program(host, common, &words).ok()?
    };
    Ok(frameworks(host, &python).filter_map(examined).collect())
}

/// The modules of the frameworks in the environment of a Python, the most common first.
pub(super) fn frameworks(host: &Host, python: &Program) -> impl Iterator<Item = &'static String> {
    let is_here = |module: &&String| {
        python
            .site_packages
            .iter()
            .any(|site| host.is_directory(&site.join(module)))
    };
    let mut frameworks: Vec<&Framework> = catalog().frameworks.iter().collect();
    frameworks.sort_by_key(|framework| framework.rank.unwrap_or(u32::MAX));
    frameworks
        .into_iter()
        .filter_map(move |framework| framework.modules.iter().find(is_here))
}

/// Examines the program of a command line, as a shell would read it.
pub(super) fn examine_line(host: &Host, common: &Common, line: &str) -> ExaminedProgram {
    let words: Option<Vec<OsString>> =
        shlex::split(line).map(|words| words.into_iter().map(OsString::from).collect());
    let examined = match words.filter(|words| !words.is_empty()) {
        Some(words) => examine_program(host, common, &words).map_err(|error| report::error(&error)),
        None => Err("it is not a command line".to_owned()),
    };
    match examined {
        Ok(Some(program)) => ExaminedProgram {
            command: line.to_owned(),
            ..program
        },
        Ok(None) => ExaminedProgram::missing(line, Vec::new()),
        Err(why) => ExaminedProgram::missing(line, vec![why]),
    }
}

fn examine_program(
    host: &Host,
    common: &Common,
    words: &[OsString],
) -> Result<Option<ExaminedProgram>, Error> {
    let (command, wishes) = (command_of(words), Wishes::default());
    let request = Request::new(
        host,
        common,
        &wishes,
        Subject::Command(&command),
        Purpose::Answer,
    );
    let mut found = None;
    pipeline::run(&request, &mut |reached| match reached {
        Reached::Decision(facts, decision) => {
            let (inventory, before, compilers) =
                (&facts.inventory, facts.before(), &facts.compilers);
            let told = report::examined_program(
                words,
                &facts.program,
                inventory,
                decision,
                &before,
                compilers,
            );
            let outcome = &decision.outcome;
            found = Some(told.with_absent(outcome.wanted(), facts.can_fetch(outcome)));
            Err(Stop::Exit(Exit::Yes))
        }
        _ => Ok(()),
    })?;
    Ok(found)
}

pub(super) fn examine(host: &Host, common: &Common) -> Result<(Examination, Inventory), Error> {
    let inventory = inventory(host, common)?;
    let views = own_views(host);
    let followed_by = launch::followed_by();
    let subject = doctor::Subject {
        host,
        inventory: &inventory,
        views: &views,
        followed_by: followed_by.as_deref(),
        choice: resolve::choice(host, common),
        vocabulary: resolve::vocabulary(),
    };
    let examination = doctor::examine(&subject);
    Ok((examination, inventory))
}

/// Finds what a program from here may use: the machine, and the packages of the first Python in PATH.
fn inventory(host: &Host, common: &Common) -> Result<Inventory, Error> {
    let scope = |settings: &Settings| {
        let mut scope = any_program(settings, common)?;
        let python = Command {
            program: "python3".into(),
            arguments: Vec::new(),
        };
        if let Ok(program) = program::environment(host, &python) {
            scope.machine = program.machine;
            scope.site_packages = program.site_packages;
        }
        Ok(Scope {
            owners: true,
            extensions: true,
            toolkits: true,
            ..scope
        })
    };
    let wishes = Wishes::default();
    let request = Request::new(
        host,
        common,
        &wishes,
        Subject::Machine(&scope),
        Purpose::Examine,
    );
    let mut found = None;
    pipeline::run(&request, &mut |reached| match reached {
        Reached::Inventory(_, inventory) => {
            found = Some(*inventory);
            Err(Stop::Exit(Exit::Yes))
        }
        _ => Ok(()),
    })?;
    Ok(found.expect("the flow of a machine ends with its inventory"))
}
