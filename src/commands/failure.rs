//! `cudarun diagnose PROGRAM …`: runs the program, and explains its failure by what it wrote to standard error.

use std::ffi::OsString;
use std::path::Path;

use super::ended::Ended;
use super::verdict::say_proof;
use super::{Exit, command_of, follow, only_here, say_before, say_notes, say_refusal};
use crate::cli::{Common, Diagnose, Wishes};
use crate::crash;
use crate::diagnose::LogReader;
use crate::environment::{Change, Diff};
use crate::error::Error;
use crate::host::Host;
use crate::launch::{self, Exec};
use crate::pin::Decision;
use crate::pipeline::{Change as Planned, Facts, ProofOptions, Reached, Request, Stop, Subject};
use crate::program::Command;
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
    let proof = ProofOptions {
        is_quiet: common.quiet,
        ..ProofOptions::default()
    };
    let subject = Subject::Command(&command);
    let request = Request {
        proof,
        ..Request::new(host, common, &options.wishes, subject, Purpose::Start)
    };
    follow(&request, |reached| match reached {
        Reached::Decision(facts, decision) if options.as_is => {
            if !common.quiet {
                say_notes(facts, decision, facts.follows());
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
            watch(
                facts,
                decision,
                Some(&proven.change),
                &command,
                common,
                Some(options),
            )
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
    let planned = change.map_or_else(Diff::default, Planned::of_start);
    // A second cudarun, which the program starts, would explain the same failure again.
    let none = Change {
        name: variables::ON_FAILURE.into(),
        value: Some("none".into()),
    };
    let exec = Exec {
        diff: planned.then(&Diff(vec![none])),
        ..launch::unchanged(&facts.program.path, command)
    };
    // Made with the first piece, since most programs write nothing to standard error.
    let mut reader: Option<LogReader> = None;
    crash::has_started();
    let status = launch::run_relayed(&exec, |piece| {
        reader.get_or_insert_default().take_live(piece);
    })?;
    if reader.is_none() && status.success() && !options.is_some_and(|options| options.json) {
        return Err(Stop::Exit(Exit::Program(status)));
    }
    let log = reader.unwrap_or_default().finish();
    let ended = Ended {
        log: &log,
        status,
        command,
        is_pinned: change.is_some(),
    };
    if facts.program.needs_nothing() && !log.chain.leading.is_empty() {
        // No library was looked for, because the program shows no need of one. Its failure may.
        let (wishes, subject) = (Wishes::default(), Subject::Command(command));
        let request = Request::new(facts.host, common, &wishes, subject, Purpose::Answer);
        follow(&request, |reached| match reached {
            Reached::Decision(facts, decision) => {
                ended.explain(facts, decision, common, options);
                Err(Stop::Exit(Exit::Program(status)))
            }
            _ => Ok(()),
        })?;
    } else {
        ended.explain(facts, decision, common, options);
    }
    Err(Stop::Exit(Exit::Program(status)))
}

/// True for the name of a file that is no program.
fn is_text(host: &Host, file: &OsString) -> bool {
    let file = host.absolute(Path::new(file));
    let start = host.read_start(&file, 4096).unwrap_or_default();
    host.is_file(&file) && !host.is_executable(&file) && !start.contains(&0)
}
