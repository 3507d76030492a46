//! `cudarun PROGRAM …`: the whole flow, up to the program.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::parent_id;
use std::path::Path;

use super::fetch::{Order, carry_out};
use super::prove::{proof_time, say_proof};
use super::{
    Exit, diagnose, only_here, reported_at_every_start, say, say_before, say_refusal, settings_of,
};
use crate::cli::{Common, FetchFirst, FetchWhen, OnFailure, StartOptions, VerifyWhen};
use crate::crash;
use crate::error::Error;
use crate::host::Host;
use crate::kept;
use crate::launch::{self, Exec};
use crate::pin::Decision;
use crate::pipeline::{self, ProofOptions, Proven, Request, StartFacts, has_deciding_options};
use crate::predict::supply::{SupplyFault, given};
use crate::program::Command;
use crate::report::{self, Style};
use crate::settings::resolve::Purpose;
use crate::settings::{Layers, Setting, SettingKey, SettingPlace};
use crate::solve::{Lack, MissingWheel, Outcome};
use crate::text;
use crate::variables;
use crate::verify::{Skip, Verdict};

pub fn run(
    host: &Host,
    common: &Common,
    start: &StartOptions,
    first: FetchFirst,
    command: &Command,
) -> Result<Exit, Error> {
    become_program(host, common, start, first, command, true)
}

/// Becomes the program. Wheels that it lacks are fetched before, where that is allowed.
fn become_program(
    host: &Host,
    common: &Common,
    start: &StartOptions,
    first: FetchFirst,
    command: &Command,
    may_fetch: bool,
) -> Result<Exit, Error> {
    crash::will_start(command);
    let is_demanded = options_demand_a_set(common, start);
    // A file that an option names may demand one.
    if is_demanded || common.config.is_some() {
        crash::refuses(true);
    }
    host.trip("options");
    only_here(common, "run")?;
    let purpose = if launch::is_replaced() {
        Purpose::Follow
    } else {
        Purpose::Start
    };
    let request = Request {
        is_build: start.building.build || host.env.non_empty(variables::BUILD).is_some(),
        proof: ProofOptions {
            when: start
                .verify
                .or_else(|| is_profiled(host).then_some(VerifyWhen::Never)),
            is_quiet: common.quiet,
            ..ProofOptions::default()
        },
        fetches: first.fetch,
        ..Request::new(host, common, &start.library_options, Some(command), purpose)
    };
    let has_deciding_options = has_deciding_options(common, start);
    if !has_deciding_options
        && !first.fetch
        && common.verbose == 0
        && let Some(mut exec) = kept::exec_of(host, command, request.is_build)
    {
        exec.diff = request.with_options(exec.diff, &Layers::default());
        return launch::exec(&exec).map(|never| match never {});
    }

    let mut settings = settings_of(&request)?;
    crash::refuses(is_demanded || settings.layers.demand_a_set());
    host.trip("settings");
    let mut facts = request.facts(&mut settings)?;
    let outcome = facts.solve();
    if may_fetch && let Some(wheels) = lacking_wheels(&facts, &outcome, first) {
        if ignores_store(&facts.settings.layers) {
            report::say(report::STORE_IGNORED);
            return Ok(Exit::Refused);
        }
        let order = Order::for_start(facts.settings, wheels, first.yes);
        // The line of progress ends before a question is asked.
        drop(facts);
        return match carry_out(host, common, &order)? {
            // The answer may be another one now that they are here.
            Exit::Yes => become_program(host, common, start, first, command, false),
            _ => Ok(Exit::Refused),
        };
    }
    let mut decision = facts.decide(outcome)?;
    if launch::is_replaced() {
        say_followed(&facts, &decision, common);
    } else {
        say_before(&facts, &decision, common);
        say_refusal(&facts, &decision, common);
    }
    if decision.is_refused() {
        return Ok(Exit::Refused);
    }
    let proof = ProofOptions {
        is_asked_for: facts.program.demands_gpu(),
        ..request.proof
    };
    let proven = facts.prove(&mut decision, &proof)?;
    let when = proof_time(&facts, start.verify);
    let has_failed = matches!(proven.verdict, Verdict::Failed { .. });
    if misses_gpu(&facts, &decision, &proven.verdict) {
        if launch::is_replaced() {
            say(&report::does_not_start(&facts.program.words, &parent(host)));
            launch::refuse();
        }
        if !has_failed {
            let style = Style::stderr(common.color).of(host);
            let text = report::gpu_not_proved(&proven.verdict, &facts.program.words, style);
            report::say(&style.page(&text));
            return Ok(Exit::Refused);
        }
    } else if launch::is_replaced() && has_failed {
        // A set that cannot be proved is no reason to stop what nobody typed `cudarun` for.
        return Ok(Exit::Refused);
    }
    if !say_proof(&decision, &proven, when, common) {
        return Ok(Exit::Refused);
    }
    let layers = &facts.settings.layers;
    // What nobody typed `cudarun` for is watched by what starts it.
    if layers.choice(SettingKey::OnFailure) == Some(OnFailure::Diagnose) && !launch::is_replaced() {
        let change = Some(&proven.change);
        return diagnose::watch(&facts, &decision, change, command, common, None);
    }
    let reports = !reported_at_every_start(&facts, &decision, facts.follows()).is_empty();
    if pipeline::is_kept(&facts, &proven, when, has_deciding_options, reports) {
        keep(host, &facts, &decision, &proven, command, common);
    }
    let exec = Exec {
        diff: request.with_options(proven.change.of_start(), layers),
        ..launch::unchanged(&facts.program.path, command)
    };
    match launch::exec(&exec)? {}
}

/// True if a GPU is demanded, and no proof has shown that the plan works on it. `--verify never` asks for no proof, and where the
/// kernel does not number its driver (WSL, Jetson), none can be made.
fn misses_gpu(facts: &StartFacts<'_>, decision: &Decision, verdict: &Verdict) -> bool {
    let is_shown = match verdict {
        Verdict::Passed { .. } => true,
        Verdict::Skipped { why } => match why {
            Skip::NothingToTry | Skip::NotAsked => true,
            Skip::NoGpu => !facts.inventory.devices.is_empty(),
            Skip::GpusHidden | Skip::NoPlace | Skip::LeftOut => false,
        },
        Verdict::Busy { .. } | Verdict::Failed { .. } => false,
    };
    facts.program.demands_gpu() && decision.outcome.plan().is_some() && !is_shown
}

/// True if options of the command line demand a set.
fn options_demand_a_set(common: &Common, start: &StartOptions) -> bool {
    let library_options = &start.library_options;
    !library_options.pin.is_empty()
        || !library_options.require.is_empty()
        || library_options.locked
        || library_options.pin_mode.is_some()
        || start.verify == Some(VerifyWhen::Always)
        || !common.elsewhere().is_empty()
}

/// The wheels that the program lacks, if an option or a setting allows to fetch them.
fn lacking_wheels(
    facts: &StartFacts<'_>,
    outcome: &Outcome,
    first: FetchFirst,
) -> Option<Vec<MissingWheel>> {
    let layers = &facts.settings.layers;
    let is_set = layers.choice(SettingKey::FetchWhen) == Some(FetchWhen::Always);
    if !first.fetch && (!is_set || ignores_store(layers)) {
        return None;
    }
    match facts.lack(outcome, &layers.wheels_from(&[]), first.fetch) {
        Lack::Wheels(wheels) => Some(wheels),
        _ => None,
    }
}

/// True if settings keep fetched wheels from being used.
fn ignores_store(layers: &Layers) -> bool {
    let ignored = layers.words(SettingKey::SearchWithout);
    ignored.iter().any(|source| source == "fetched")
}

/// Reports about a process that nobody typed `cudarun` for. One that must not start ends here; any other one that gets no plan
/// starts as it is.
fn say_followed(facts: &StartFacts<'_>, decision: &Decision, common: &Common) {
    let words = &facts.program.words;
    if common.verbose > 0 {
        say(&report::followed(words, &parent(facts.host), decision));
    }
    if decision.is_refused() && must_be_refused(facts) {
        say(&report::does_not_start(words, &parent(facts.host)));
        say_refusal(facts, decision, common);
        launch::refuse();
    }
}

/// Keeps the start for the next time.
fn keep(
    host: &Host,
    facts: &StartFacts<'_>,
    decision: &Decision,
    proven: &Proven,
    command: &Command,
    common: &Common,
) {
    if let Some(changed) = pipeline::keep(host, facts, decision, proven, command)
        && common.verbose > 0
        && !launch::is_replaced()
    {
        report::say(&report::not_kept(&changed));
    }
    // The next starts say nothing. A script that reads standard error gets nothing either.
    if !common.quiet && Style::stderr(common.color).is_terminal {
        say_repaired(facts, decision, common);
    }
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
                fault.is_some_and(SupplyFault::is_of_several)
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
