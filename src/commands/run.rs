//! `cudarun PROGRAM …`: find, read, decide, publish, prove, become the program.

use std::path::{Path, PathBuf};

use super::{Considered, Exit, Purpose, consider, must_be_said, speak, style, wanted};
use crate::cache::proofs::{self, Turn};
use crate::cache::{self, Key};
use crate::cli::{Common, Start, When};
use crate::environment::Environment;
use crate::error::Error;
use crate::host::Host;
use crate::inventory::{Copy, Gpu};
use crate::launch::{self, Exec};
use crate::module;
use crate::pin::{self, Places};
use crate::private;
use crate::report;
use crate::solve::{Outcome, Plan};
use crate::target::{self, Command};
use crate::verify::{self, Skip, Verdict};
use crate::view;

/// A start that was worked out before and still holds; none of what can be slow happens here.
pub fn cached(host: &Host, command: &Command) -> Option<Exec> {
    let program = target::locate(host, &command.program).ok()?;
    let key = Key::of(host, &program, command)?;
    cache::find(host, &places(host), &key, &program, command)
}

pub fn run(host: &Host, common: &Common, start: &Start, command: &Command) -> Result<Exit, Error> {
    if common.root.is_some() {
        return Err(Error::NothingRunsUnderRoot { verb: "run" });
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
    let considered = consider(&wanted, common, command)?;
    let verify = start.verify.or(wanted.settings.verify()).unwrap_or_default();
    speak(&considered, common, style);
    if considered.refuse(false, style)? {
        return Ok(Exit::Refused);
    }
    let (diff, places) = considered.change(host, true)?;
    let exec = Exec { diff, ..launch::unchanged(&considered.target.program, command) };
    if let Outcome::Plan(plan) = &considered.decision.outcome {
        let verdict = prove(host, &considered, plan, &exec, verify)?;
        if let Verdict::Failed { .. } = verdict {
            report::say(&report::verdict(&verdict, style));
            return Ok(Exit::Refused);
        }
        let was_asked_for = verify == When::Always && !common.quiet;
        if common.verbose > 0 || was_asked_for && matches!(verdict, Verdict::Skipped { .. }) {
            report::say(&report::proof_line(&verdict));
        }
    }
    // What must be said is said at every start.
    let is_of_directory = considered.target.is_of_directory || wanted.is_of_directory;
    let is_kept = is_plain && verify != When::Always && !is_of_directory;
    if is_kept && wanted.remarks.is_empty() && must_be_said(&considered).is_empty() {
        keep(outer, &considered, command, &exec, &places);
    }
    launch::exec(&exec).map(|never| match never {})
}

/// Proves the plan, unless that was done before, is not wanted, or is not possible.
fn prove(
    host: &Host,
    considered: &Considered<'_>,
    plan: &Plan,
    exec: &Exec,
    when: When,
) -> Result<Verdict, Error> {
    if when == When::Never {
        return Ok(Verdict::Skipped { why: Skip::NotAsked });
    }
    let env = host.env.with(&exec.diff);
    let Some(name) = proof_name(host, considered, plan, &env) else {
        return considered.prove(host, plan, &env);
    };
    let places = places(host);
    // Whoever wants it proved now waits for nobody.
    let _turn = match when {
        When::Auto => match proofs::await_turn(host, &places, &name, verify::TIME_LIMIT) {
            Turn::Proved => return Ok(Verdict::Skipped { why: Skip::ProvedBefore }),
            Turn::Ours(turn) => turn,
        },
        When::Always | When::Never => None,
    };
    let verdict = considered.prove(host, plan, &env)?;
    match &verdict {
        Verdict::Passed { .. } => proofs::keep(host, &places, &name),
        Verdict::Failed { .. } => proofs::give_up(host, &places, &name),
        Verdict::Skipped { .. } => {}
    }
    Ok(verdict)
}

/// All that could falsify a proof: the files, the environment that reaches libraries, the driver, the GPUs,
/// this binary. Unknown means no name, and no name means no proof is kept.
fn proof_name(host: &Host, considered: &Considered<'_>, plan: &Plan, env: &Environment) -> Option<String> {
    let driver = considered.inventory.driver.as_ref()?.version.to_string();
    let own = host.stat(Path::new("/proc/self/exe")).ok()?;
    // A GPU that sleeps does not say its UUID.
    let known = |gpu: &Gpu| (gpu.bus.clone(), gpu.model.clone(), gpu.capability);
    let gpus: Vec<_> = considered.inventory.gpus.iter().map(known).collect();
    let gpus = format!("{gpus:?} {:?}", considered.inventory.devices);
    let files = format!("{:?}", plan.picks.iter().map(|pick| &pick.copy.files).collect::<Vec<_>>());
    let names =
        ["LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT", module::PINS, pin::VIEW, "CUDA_VISIBLE_DEVICES"];
    let variables = format!("{:?}", names.map(|name| env.get(name)));
    let own = format!("{:?} {:?}", own.id, own.modified);
    let parts = [driver.as_bytes(), own.as_bytes(), gpus.as_bytes(), files.as_bytes(), variables.as_bytes()];
    Some(private::digest(parts))
}

/// Keeps the start for the next time, where there is a place to keep it.
fn keep(host: &Host, considered: &Considered<'_>, command: &Command, exec: &Exec, places: &Places) {
    let (Ok(directory), Some(key)) = (view::cache_directory(host), Key::of(host, &exec.program, command))
    else {
        return;
    };
    let inventory = &considered.inventory;
    let mut watched = considered.target.watched.clone();
    watched.extend(inventory.watched.iter().cloned());
    watched.extend(considered.wanted.watched.iter().cloned());
    watched.extend(inventory.warnings.iter().map(|warning| warning.path.clone()));
    if let Some(pinned) = &considered.decision.pinned {
        watched.extend(pinned.after.watched.iter().cloned());
    }
    if let Outcome::Plan(plan) = &considered.decision.outcome {
        // A copy that was passed over may be the better one once it is whole.
        let is_picked = |copy: &&Copy| plan.picks.iter().any(|pick| pick.copy.family == copy.family);
        for copy in inventory.copies.iter().filter(is_picked) {
            watched.extend(copy.directories().map(Path::to_owned));
            // Who can write to where a file really stands may have changed as well.
            let places = copy.files.iter().filter_map(|member| member.path.parent());
            watched.extend(places.map(Path::to_owned));
            watched.extend(copy.files.iter().map(|member| member.path.clone()));
        }
    }
    cache::keep(host, &directory, &key, exec, &watched, &considered.target.located, places);
}

fn places(host: &Host) -> Vec<PathBuf> {
    view::cache_directories(host)
}
