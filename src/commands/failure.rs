//! `cudarun diagnose PROGRAM …`: runs the program, and explains its failure by what it wrote to standard error.

use std::ffi::OsString;
use std::path::Path;

use super::diagnose::{explained, known_from_text};
use super::verdict::say_proof;
use super::{Exit, command_of, follow, only_here, paper, say_before, say_notes, say_refusal};
use crate::cli::{Common, Diagnose};
use crate::crash;
use crate::diagnose::{LogReader, Worth};
use crate::environment::{Change, Diff};
use crate::error::Error;
use crate::host::Host;
use crate::launch::{self, Exec};
use crate::pin::Decision;
use crate::pipeline::{Change as Planned, Facts, ProofOptions, Reached, Request, Stop, Subject};
use crate::program::Command;
use crate::report::{self, Diagnosis, Style};
use crate::settings::resolve::Purpose;
use crate::variables;

pub fn diagnose(host: &Host, common: &Common, options: &Diagnose) -> Result<Exit, Error> {
    only_here(common, "diagnose PROGRAM")?;
    if let [text] = options.words.as_slice()
        && is_text(host, text)
    {
        return Err(Error::NoProgram { text: text.clone() });
    }
    let command = command_of(&options.words);
    let proof = ProofOptions { is_quiet: common.quiet, ..ProofOptions::default() };
    let subject = Subject::Command(&command);
    let request = Request { proof, ..Request::new(host, common, &options.wishes, subject, Purpose::Start) };
    follow(&request, |reached| match reached {
        Reached::Decision(facts, decision) if options.as_is => {
            if !common.quiet {
                say_notes(facts, decision);
            }
            watch(facts, decision, None, &command, common, Some(options))
        }
        Reached::Decision(facts, decision) => {
            say_before(facts, decision, common);
            say_refusal(facts, decision, common);
            Ok(())
        }
        Reached::Proof(facts, decision, proven) => {
            let when = facts.settings.layers.verify().unwrap_or_default();
            say_proof(decision, proven, when, common)?;
            watch(facts, decision, Some(&proven.change), &command, common, Some(options))
        }
        _ => Ok(()),
    })
}

/// Runs the program, and stops with its status. `change` is none if it runs as it is; `options` are none if a setting asks
/// for the explanation, so that there is one only of a known failure.
pub(super) fn watch(
    facts: &Facts<'_>,
    decision: &Decision,
    change: Option<&Planned>,
    command: &Command,
    common: &Common,
    options: Option<&Diagnose>,
) -> Result<(), Stop> {
    let planned = change.map_or_else(Diff::default, |change| change.diff.clone());
    // A second cudarun, which the program starts, would explain the same failure again.
    let none = Change { name: variables::ON_FAILURE.into(), value: Some("none".into()) };
    let exec =
        Exec { diff: planned.then(&Diff(vec![none])), ..launch::unchanged(&facts.program.path, command) };
    // Made with the first piece, since most programs write nothing to standard error.
    let mut reader: Option<LogReader> = None;
    crash::has_started();
    let status = launch::run_relayed(&exec, |piece| reader.get_or_insert_default().take_live(piece))?;
    let is_json = options.is_some_and(|options| options.json);
    if reader.is_none() && status.success() && !is_json {
        return Err(Stop::Exit(Exit::Program(status)));
    }
    let log = reader.unwrap_or_default().finish();
    let style = Style::stderr(common.color).of(facts.host);
    let words: Vec<OsString> = std::iter::once(&command.program).chain(&command.arguments).cloned().collect();
    let text = Diagnosis { program: &words, ..known_from_text(&log) };
    let all = options.is_some_and(|options| options.all);
    let explain = || {
        explained(facts, decision, common, text, change.is_some(), |diagnosis| {
            if is_json {
                return report::diagnosis_json(diagnosis);
            }
            let in_form = options.map_or(Ok(false), |options| {
                paper::deliver_after(common, &options.paper, || report::diagnosed_page(diagnosis))
            });
            match in_form {
                Ok(true) => return String::new(),
                Ok(false) => {}
                Err(error) => return format!("cudarun: {}\n", report::error(&error)),
            }
            let page = report::diagnosis(diagnosis, all, common.verbose, style);
            style.page(&format!("\n{}\n{page}", report::ended(&command.program, status)))
        })
    };
    match Worth::of(&log.chain, status, facts.inventory.is_without_gpu()) {
        _ if is_json => report::say(&explain()),
        Worth::Failure => report::say(&explain()),
        Worth::Unknown if options.is_some_and(|options| options.paper.is_asked()) => report::say(&explain()),
        Worth::OnTheCpu(message) if options.is_some() => {
            report::say(&style.page(&report::on_the_cpu(message)));
        }
        Worth::Unknown if options.is_some() => {
            report::say(&style.page(&report::unknown_failure(&command.program, status, style)));
        }
        _ => {}
    }
    Err(Stop::Exit(Exit::Program(status)))
}

/// True for the name of a file that is no program.
fn is_text(host: &Host, file: &OsString) -> bool {
    let file = host.absolute(Path::new(file));
    let start = host.read_start(&file, 4096).unwrap_or_default();
    host.is_file(&file) && !host.is_executable(&file) && !start.contains(&0)
}
