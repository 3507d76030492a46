//! `cudarun diagnose` with a text: from an error message to its cause on this machine, and the command that cures it. Starts
//! nothing.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::examined::frameworks;
use super::log;
use super::{Exit, command_of, follow, machine, paper, print, say};
use crate::causes;
use crate::cli::{Common, Diagnose};
use crate::diagnose::{Log, NamedPaths};
use crate::doctor;
use crate::error::Error;
use crate::host::{self, Host, PipedInput};
use crate::launch;
use crate::pin::Decision;
use crate::pipeline::{Facts, Reached, Request, Stop, Subject, own_views};
use crate::program::{self, Command};
use crate::report::{self, Diagnosis, Style};
use crate::settings::resolve::{self, Purpose};

/// How long to wait for the first bytes on a pipe. A batch system's pipe may stay silent as long as the job runs.
const FIRST_DATA_TIMEOUT: Duration = Duration::from_secs(2);

/// True if there is a text to explain. It is in an option, or on standard input: where no program is named, or where a pipe or a
/// file brings data.
pub fn has_text(common: &Common, options: &Diagnose) -> bool {
    if options.has_text() || options.as_is {
        return options.has_text();
    }
    let input = host::piped_input(FIRST_DATA_TIMEOUT);
    if input == PipedInput::Silent && !common.quiet {
        say(&report::silent_input(FIRST_DATA_TIMEOUT));
    }
    input == PipedInput::Data
}

pub fn diagnose(host: Host, common: &Common, options: &Diagnose) -> Result<Exit, Error> {
    let log = log::asked(&host, common, options)?;
    if !options.has_text() && !common.quiet {
        say(&report::not_started(&options.words));
    }
    let host = machine(host, common)?;
    if log.chain.leading.is_empty() && log.chain.harmless.is_empty() {
        tell(&host, common, options, &known_from_text(&log))?;
        return Ok(Exit::No);
    }
    let (words, is_program_known) = match options.words.as_slice() {
        [] => program_of(&host, &log.paths),
        words => (words.to_vec(), true),
    };
    let is_elsewhere = options.words.is_empty() && is_elsewhere(&host, &log.paths);
    let command = command_of(&words);
    let subject = if words.is_empty() {
        Subject::Project
    } else {
        Subject::Command(&command)
    };
    let request = Request::new(&host, common, &options.wishes, subject, Purpose::Answer);
    follow(&request, |reached| match reached {
        Reached::Decision(facts, decision) => {
            let text = Diagnosis {
                program: &words,
                is_program_guessed: !is_program_known,
                is_elsewhere: is_elsewhere || causes::contradicts(&facts.inventory, &log.chain),
                ..known_from_text(&log)
            };
            explained(facts, decision, common, text, false, |found| {
                tell(&host, common, options, found)
            })?;
            Err(Stop::Exit(Exit::Yes))
        }
        _ => Ok(()),
    })
}

/// Adds the causes to what is known from a text, for `tell`.
pub(super) fn explained<T>(
    facts: &Facts<'_>,
    decision: &Decision,
    common: &Common,
    text: Diagnosis<'_>,
    is_pinned: bool,
    tell: impl FnOnce(&Diagnosis<'_>) -> T,
) -> T {
    let (host, inventory) = (facts.host, &facts.inventory);
    let (choice, vocabulary) = (resolve::choice(host, common), resolve::vocabulary());
    let followed_by = launch::followed_by();
    let machine = doctor::Subject {
        host,
        inventory,
        views: &own_views(host),
        followed_by: followed_by.as_deref(),
        choice,
        vocabulary,
    };
    let examination = doctor::examine(&machine);
    let (is_known, is_elsewhere) = (!text.is_program_guessed, text.is_elsewhere);
    let known = facts.of_failure(
        decision,
        &examination,
        common,
        is_known,
        is_elsewhere,
        is_pinned,
    );
    let causes = causes::causes(&known, text.chain);
    tell(&Diagnosis {
        causes: &causes,
        elements: &examination.elements,
        ..text
    })
}

pub(super) fn known_from_text(log: &Log) -> Diagnosis<'_> {
    let Log {
        chain,
        is_utf16,
        left_out,
        is_empty,
        ..
    } = log;
    Diagnosis {
        chain,
        causes: &[],
        elements: &[],
        program: &[],
        is_program_guessed: false,
        is_elsewhere: false,
        is_utf16: *is_utf16,
        left_out: *left_out,
        is_empty: *is_empty,
    }
}

fn tell(
    host: &Host,
    common: &Common,
    options: &Diagnose,
    diagnosis: &Diagnosis<'_>,
) -> Result<(), Error> {
    if paper::deliver(common, &options.paper, || report::diagnosed_page(diagnosis))? {
        return Ok(());
    }
    let style = Style::stdout(common.color).of(host);
    print(&if options.json {
        report::diagnosis_json(diagnosis)
    } else {
        style.page(&report::diagnosis(
            diagnosis,
            options.all,
            common.verbose,
            style,
        ))
    })
}

/// Returns the Python whose environment the text names, or else the first in PATH, with the framework that the text
/// names, or else the first that is installed. True if the text names them.
fn program_of(host: &Host, paths: &NamedPaths) -> (Vec<OsString>, bool) {
    let python = |site: &PathBuf| Some(site.ancestors().nth(3)?.join("bin/python3"));
    let named = paths
        .sites
        .iter()
        .filter_map(python)
        .find(|python| host.is_executable(python));
    let is_known = named.is_some();
    let python: OsString = named.map_or_else(|| "python3".into(), PathBuf::into_os_string);
    let command = Command {
        program: python.clone(),
        arguments: Vec::new(),
    };
    let Ok(environment) = program::environment(host, &command) else {
        return (Vec::new(), false);
    };
    let here: Vec<&String> = frameworks(host, &environment).collect();
    let module = here
        .iter()
        .find(|module| paths.modules.contains(**module))
        .or(here.first());
    let code = module.map(|module| ["-c".into(), format!("import {module}").into()]);
    (
        std::iter::once(python)
            .chain(code.into_iter().flatten())
            .collect(),
        is_known,
    )
}

fn is_elsewhere(host: &Host, paths: &NamedPaths) -> bool {
    let mut named = paths.sites.iter().chain(&paths.objects).peekable();
    named.peek().is_some() && !named.any(|path| host.stat(path).is_ok())
}
