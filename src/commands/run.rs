//! `cudarun PROGRAM …`: the whole flow, up to the program.

use super::fetch::{Order, carry_out};
use super::prove::say_proof;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::parent_id;
use std::path::Path;

use super::{
    Exit, diagnose, follow, only_here, reported_at_every_start, say, say_before, say_refusal,
};
use crate::cli::{Common, FetchFirst, FetchWhen, OnFailure, StartOptions, VerifyWhen};
use crate::crash;
use crate::error::Error;
use crate::host::Host;
use crate::launch;
use crate::pin::Decision;
use crate::pipeline::StartFacts;
use crate::pipeline::{
    self, ProofOptions, Reached, Request, Stop, Subject, has_deciding_options, kept_start,
};
use crate::predict::supply::{SupplyFault, given};
use crate::program::Command;
use crate::report::{self, Style};
use crate::settings::resolve::Purpose;
use crate::settings::{Layers, Setting, SettingKey, SettingPlace};
use crate::solve::Lack;
use crate::text;
use crate::variables;
use crate::verify::Verdict;

pub fn run(
    host: &Host,
    common: &Common,
    start: &StartOptions,
    first: FetchFirst,
    command: &Command,
) -> Result<Exit, Error> {
    let (exit, lacking) = become_program(host, common, start, command, first, true)?;
    match lacking {
        None => Ok(exit),
        Some(order) => match carry_out(host, common, &order)? {
            // The answer may be another one now that they are here.
            Exit::Yes => Ok(become_program(host, common, start, command, first, false)?.0),
            _ => Ok(Exit::Refused),
        },
    }
}

/// Becomes the program, unless it lacks wheels that may be fetched: those are then returned.
fn become_program(
    host: &Host,
    common: &Common,
    start: &StartOptions,
    command: &Command,
    first: FetchFirst,
    mut may_fetch: bool,
) -> Result<(Exit, Option<Order>), Error> {
    crash::will_start(command);
    crash::has_options(common, start);
    host.trip("options");
    only_here(common, "run")?;
    let has_deciding_options = has_deciding_options(common, start);
    let proof = ProofOptions {
        when: start
            .verify
            .or_else(|| is_profiled(host).then_some(VerifyWhen::Never)),
        is_quiet: common.quiet,
        ..ProofOptions::default()
    };
    let subject = Subject::Command(command);
    let purpose = if launch::is_replaced() {
        Purpose::Follow
    } else {
        Purpose::Start
    };
    let is_build = start.building.build || host.env.non_empty(variables::BUILD).is_some();
    let request = Request {
        is_build,
        proof,
        fetches: first.fetch,
        ..Request::new(host, common, &start.wishes, subject, purpose)
    };
    if !has_deciding_options
        && !first.fetch
        && common.verbose == 0
        && let Some(mut exec) = kept_start(host, command, is_build)
    {
        exec.diff = request.with_options(exec.diff, &Layers::default());
        return launch::exec(&exec).map(|never| match never {});
    }
    let mut lacking = None;
    let exit = follow(&request, |reached| match reached {
        Reached::Settings(settings) => {
            crash::has_settings(&settings.layers);
            host.trip("settings");
            Ok(())
        }
        Reached::Outcome(facts, outcome) => {
            let layers = &facts.settings.layers;
            let ignores_store = layers
                .words(SettingKey::SearchWithout)
                .iter()
                .any(|source| source == "fetched");
            may_fetch &= first.fetch
                || layers.choice(SettingKey::FetchWhen) == Some(FetchWhen::Always)
                    && !ignores_store;
            if may_fetch
                && let Lack::Wheels(wheels) =
                    facts.lack(outcome, &layers.wheels_from(&[]), first.fetch)
            {
                if ignores_store {
                    report::say(report::STORE_IGNORED);
                    return Err(Stop::Exit(Exit::Refused));
                }
                lacking = Some(Order::for_start(facts.settings, wheels, first.yes));
                return Err(Stop::Exit(Exit::Refused));
            }
            Ok(())
        }
        Reached::Decision(facts, decision) if launch::is_replaced() => {
            if common.verbose > 0 {
                let line = report::followed(&facts.program.words, &parent(host), decision);
                say(&line);
            }
            if decision.is_refused() && must_be_refused(facts) {
                say(&report::does_not_start(&facts.program.words, &parent(host)));
                say_refusal(facts, decision, common);
                launch::refuse();
            }
            Ok(())
        }
        Reached::Decision(facts, decision) => {
            say_before(facts, decision, common);
            say_refusal(facts, decision, common);
            Ok(())
        }
        // A set that cannot be proved is no reason to stop what nobody typed `cudarun` for.
        Reached::Proof(_, _, proven)
            if launch::is_replaced() && matches!(proven.verdict, Verdict::Failed { .. }) =>
        {
            Err(Stop::Exit(Exit::Refused))
        }
        Reached::Proof(facts, decision, proven) => {
            let when = say_proof(facts, decision, proven, start.verify, common)?;
            let is_watched =
                facts.settings.layers.choice(SettingKey::OnFailure) == Some(OnFailure::Diagnose);
            // What nobody typed `cudarun` for is watched by what starts it.
            if is_watched && !launch::is_replaced() {
                return diagnose::watch(
                    facts,
                    decision,
                    Some(&proven.change),
                    command,
                    common,
                    None,
                );
            }
            let reports = !reported_at_every_start(facts, decision, facts.follows()).is_empty();
            if pipeline::is_kept(facts, proven, when, has_deciding_options, reports) {
                let changed = pipeline::keep(host, facts, decision, proven, command);
                if let Some(changed) =
                    changed.filter(|_| common.verbose > 0 && !launch::is_replaced())
                {
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
    })?;
    Ok((exit, lacking))
}

/// What started this process, as a person would name it.
fn parent(host: &Host) -> String {
    let id = parent_id();
    let name = host.read_text(Path::new(&format!("/proc/{id}/comm")));
    let name = name.unwrap_or_default();
    format!("`{}` ({id})", text::show(name.trim_end()))
}

/// True for a followed process that would mix, or that breaks what a person demands. Any other one starts as it is.
fn must_be_refused(facts: &StartFacts<'_>) -> bool {
    let layers = &facts.settings.layers;
    let before = facts.before();
    layers.is_locked()
        || layers
            .iter()
            .any(|setting| setting.key.is_demand() && is_of_person(facts.host, setting))
        || given(&before, &facts.inventory)
            .into_values()
            .any(|supply| {
                let fault = supply.fault(&facts.inventory);
                matches!(fault, Some(SupplyFault::Mixed | SupplyFault::Twice))
            })
}

/// True if a tool such as a profiler watches this process, and would watch the child of a proof in its place.
fn is_profiled(host: &Host) -> bool {
    let preloaded = host.env.get(variables::PRELOAD).unwrap_or_default();
    launch::is_replaced()
        && (memchr::memmem::find(preloaded.as_bytes(), b"Injection").is_some()
            || host.env.non_empty("CUDA_INJECTION64_PATH").is_some())
}

/// True unless another user wrote it.
fn is_of_person(host: &Host, setting: &Setting) -> bool {
    match &setting.from {
        SettingPlace::File { path, .. } => host
            .stat(path)
            .is_ok_and(|stat| stat.uid == 0 || stat.uid == host.uid),
        _ => true,
    }
}

/// Reports the mix that the start would have had without cudarun.
fn say_repaired(facts: &StartFacts<'_>, decision: &Decision, common: &Common) {
    let style = Style::stderr(common.color).of(facts.host);
    let before = facts.before();
    if let Some(line) = report::repaired(decision, &before, &facts.inventory, &facts.program) {
        report::say(&style.page(&format!("cudarun: {line}\n")));
    }
}
