//! `cudarun PROGRAM …`: find, read, decide, publish, prove, become the program.

use super::proving::{BOOT, How, Proven};
use super::{Considered, Exit, Purpose, consider, must_be_said, speak, style, wanted};
use std::path::{Path, PathBuf};

use crate::cli::{Common, Start, When};
use crate::error::Error;
use crate::host::Host;
use crate::launch::{self, Exec};
use crate::pin::{Decision, PublishedPaths};
use crate::program::{self, Command};
use crate::report;
use crate::settings::start_key::start_key;
use crate::solve::Outcome;
use crate::storage::{self, starts};
use crate::verify::{Beside, Skip, Verdict};

/// A start that was worked out before and still holds; none of what can be slow happens here.
pub fn cached(host: &Host, command: &Command) -> Option<Exec> {
    let program = program::locate(host, &command.program).ok()?;
    let key = start_key(host, &program, command)?;
    let diff = starts::find(host, storage::safe_directories(host), &key)?;
    Some(Exec { diff, ..launch::unchanged(&program, command) })
}

pub fn run(host: &Host, common: &Common, start: &Start, command: &Command) -> Result<Exit, Error> {
    if let Some(option) = common.elsewhere() {
        return Err(Error::NothingRunsUnderRoot { option, verb: "run" });
    }
    let is_everywhere = common.also.is_empty() && common.without.is_empty();
    let is_configured = common.config.is_some() || common.no_config;
    let is_plain = is_everywhere && !is_configured && start.wishes.is_empty() && start.verify.is_none();
    if is_plain
        && common.verbose == 0
        && let Some(exec) = cached(host, command)
    {
        return launch::exec(&exec).map(|never| match never {});
    }
    let style = style(host, common.color, host.stderr_is_terminal());
    let wanted = wanted(host, common, &start.wishes, Some(command), Purpose::Start)?;
    // By what the key of a kept start is made from this one, variables that files set do not count.
    let (outer, host) = (host, &wanted.host);
    let mut considered = consider(&wanted, common, command)?;
    let verify = start.verify.or(wanted.settings.verify()).unwrap_or_default();
    speak(&considered, common, style);
    if considered.refuse(false, style)? {
        return Ok(Exit::Refused);
    }
    let level = wanted.settings.level().unwrap_or_default();
    let how = How { when: verify, level, seed: None, is_quiet: common.quiet };
    let Proven { diff, places, verdict, given_up, is_known } = considered.prove(host, how)?;
    if let Verdict::Failed { .. } = verdict {
        report::say(&report::verdict(&verdict, &given_up, is_known, style));
        return Ok(Exit::Refused);
    }
    if !common.quiet {
        report::say(&report::fallback(&given_up, style));
    }
    let is_unproved = matches!(verdict, Verdict::Busy { .. });
    let is_skipped = matches!(verdict, Verdict::Skipped { why } if why != Skip::NothingToTry);
    let is_news = is_unproved || verify == When::Always && is_skipped;
    let is_plan = matches!(considered.decision.outcome, Outcome::Plan(_));
    if is_plan && (common.verbose > 0 || is_news && !common.quiet) {
        report::say(&report::proof_line(&verdict, is_known));
    }
    let exec = Exec { diff, ..launch::unchanged(&considered.program.path, command) };
    // What must be said is said at every start.
    let is_of_directory = considered.program.is_of_directory || wanted.is_of_directory;
    let is_kept =
        is_plain && verify != When::Always && !is_of_directory && !is_unproved && given_up.is_empty();
    if is_kept && wanted.remarks.is_empty() && must_be_said(&considered).is_empty() {
        keep(outer, &considered, command, &exec, &places, &verdict);
    }
    launch::exec(&exec).map(|never| match never {})
}

/// Keeps the start for the next time, where there is a place to keep it.
fn keep(
    host: &Host,
    considered: &Considered<'_>,
    command: &Command,
    exec: &Exec,
    places: &PublishedPaths,
    verdict: &Verdict,
) {
    let (Ok(directory), Some(key)) =
        (storage::cache_directory(host), start_key(host, &exec.program, command))
    else {
        return;
    };
    let Decision { outcome, pinned, .. } = &considered.decision;
    let mut watched = considered.watched(outcome, pinned.as_ref().map(|pinned| &pinned.after));
    if let Verdict::Passed { proof } = verdict {
        watched.insert(BOOT.into());
        watched.extend(proof.finding.beside.iter().map(Beside::path));
    }
    let own: Vec<&Path> = places.view.iter().chain(&places.module).map(PathBuf::as_path).collect();
    starts::keep(host, &directory, &key, &exec.diff, &watched, &considered.program.located, &own);
}
