//! `cudarun PROGRAM …`: the whole flow, up to the program.

use super::fetching::{Order, carry_out};
use super::verdict::say_proof;
use super::{Exit, failure, follow, only_here, reported_at_every_start, say_before, say_refusal};
use crate::cli::{Common, FetchWhen, First, OnFailure, Start};
use crate::crash;
use crate::error::Error;
use crate::host::Host;
use crate::launch;
use crate::pin::Decision;
use crate::pipeline::Facts;
use crate::pipeline::{
    self, Keeping, ProofOptions, Reached, Request, Stop, Subject, has_deciding_options, kept_start,
};
use crate::program::Command;
use crate::report::{self, Style};
use crate::settings::Key;
use crate::settings::resolve::Purpose;
use crate::solve::Lack;

pub fn run(
    host: &Host,
    common: &Common,
    start: &Start,
    first: First,
    command: &Command,
) -> Result<Exit, Error> {
    let mut to_fetch = None;
    let exit = start_or_order(host, common, start, command, first, Some(&mut to_fetch))?;
    let Some(order) = to_fetch else {
        return Ok(exit);
    };
    match carry_out(host, common, &order)? {
        // The answer may be another one now that they are here.
        Exit::Yes => start_or_order(host, common, start, command, first, None),
        _ => Ok(Exit::Refused),
    }
}

/// Becomes the program, unless it lacks wheels that may be fetched: those are then in `to_fetch`.
fn start_or_order(
    host: &Host,
    common: &Common,
    start: &Start,
    command: &Command,
    first: First,
    mut to_fetch: Option<&mut Option<Order>>,
) -> Result<Exit, Error> {
    crash::will_start(command);
    crash::has_options(common, start);
    host.trip("options");
    only_here(common, "run")?;
    let has_deciding_options = has_deciding_options(common, start);
    if !has_deciding_options
        && !first.fetch
        && common.verbose == 0
        && let Some(exec) = kept_start(host, command, start.building.build)
    {
        return launch::exec(&exec).map(|never| match never {});
    }
    let proof = ProofOptions {
        when: start.verify,
        is_quiet: common.quiet,
        ..ProofOptions::default()
    };
    let subject = Subject::Command(command);
    let is_build = start.building.build;
    let request = Request {
        is_build,
        proof,
        ..Request::new(host, common, &start.wishes, subject, Purpose::Start)
    };
    follow(&request, |reached| match reached {
        Reached::Settings(settings) => {
            crash::has_settings(&settings.layers);
            host.trip("settings");
            Ok(())
        }
        Reached::Outcome(facts, outcome) => {
            let layers = &facts.settings.layers;
            let ignores_store = layers
                .words(&Key::SearchWithout)
                .iter()
                .any(|source| source == "fetched");
            let may_fetch =
                first.fetch || layers.fetch_when() == FetchWhen::Always && !ignores_store;
            if may_fetch
                && let Some(to_fetch) = to_fetch.take()
                && let Lack::Wheels(wheels) =
                    facts.lack(outcome, &layers.wheels_from(&[]), first.fetch)
            {
                if ignores_store {
                    report::say(report::STORE_IGNORED);
                    return Err(Stop::Exit(Exit::Refused));
                }
                *to_fetch = Some(Order::for_start(facts.settings, wheels, first.yes));
                return Err(Stop::Exit(Exit::Refused));
            }
            Ok(())
        }
        Reached::Decision(facts, decision) => {
            say_before(facts, decision, common);
            say_refusal(facts, decision, common);
            Ok(())
        }
        Reached::Proof(facts, decision, proven) => {
            let when = start
                .verify
                .or(facts.settings.layers.verify())
                .unwrap_or_default();
            say_proof(decision, proven, when, common)?;
            if facts.settings.layers.on_failure() == OnFailure::Diagnose {
                return failure::watch(
                    facts,
                    decision,
                    Some(&proven.change),
                    command,
                    common,
                    None,
                );
            }
            let reports = !reported_at_every_start(facts, decision).is_empty();
            let keeping = pipeline::keeping(facts, proven, when, has_deciding_options, reports);
            if keeping == Keeping::Kept {
                let changed = pipeline::keep(host, facts, decision, proven, command);
                if let Some(changed) = changed.filter(|_| common.verbose > 0) {
                    report::say(&report::not_kept(&changed));
                }
                // The next starts say nothing. A script that reads standard error gets nothing either.
                if !common.quiet && Style::stderr(common.color).is_terminal {
                    say_repaired(facts, decision, common);
                }
            }
            Ok(())
        }
        _ => Ok(()),
    })
}

/// Reports the mix that the start would have had without cudarun.
fn say_repaired(facts: &Facts<'_>, decision: &Decision, common: &Common) {
    let style = Style::stderr(common.color).of(facts.host);
    let before = facts.before();
    if let Some(line) = report::repaired(decision, &before, &facts.inventory, &facts.program) {
        report::say(&style.page(&format!("cudarun: {line}\n")));
    }
}
