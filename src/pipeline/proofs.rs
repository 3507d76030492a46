//! The proof of a plan, and the way back: a set that fails through a library is followed by the next best one without that
//! library.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use super::progress::PATIENCE;
use super::publish::{Change, change_by, publish};
use super::start_facts::StartFacts;
use crate::cli::VerifyWhen;
use crate::environment::Environment;
use crate::error::Error;
use crate::host::Host;
use crate::inventory::{Gpu, Inventory};
use crate::modes::Level;
use crate::pin::{self, Decision, audit_module};
use crate::report;
use crate::settings::SettingKey;
use crate::settings::resolve::Settings;
use crate::solve::{self, FailedProof, Outcome, Pick};
use crate::storage;
use crate::variables::reaches_libraries;
use crate::verify::kept_proofs::{self, AwaitedProof};
use crate::verify::protocol::ProofStep;
use crate::verify::{self, ProofCause, ProofSettings, ProofSubject, Skip, Verdict};

/// How many sets are tried after the first.
const MORE: usize = 3;

/// The options of a verb that concern the proof.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProofOptions {
    pub when: Option<VerifyWhen>,
    pub level: Option<Level>,
    /// The seed of the random numbers.
    pub seed: Option<u32>,
    /// The verb is there to prove: `never` in settings does not count.
    pub is_asked_for: bool,
    /// Nothing is shown while the proof runs.
    pub is_quiet: bool,
}

impl ProofOptions {
    fn when(&self, settings: &Settings) -> VerifyWhen {
        let set = settings
            .layers
            .choice(SettingKey::Verify)
            .filter(|when| !self.is_asked_for || *when == VerifyWhen::Always);
        self.when.or(set).unwrap_or_default()
    }

    fn level(&self, settings: &Settings) -> Level {
        self.level
            .or(settings.layers.choice(SettingKey::VerifyLevel))
            .unwrap_or_default()
    }
}

/// A set that was settled on, and the sets that were tried before it.
#[derive(Debug)]
pub struct Proven {
    pub change: Change,
    pub verdict: Verdict,
    /// The causes for which the sets before it were given up.
    pub given_up: Vec<ProofCause>,
    /// True if an earlier start reached the verdict, which is still valid.
    pub is_known: bool,
}

/// Publishes the plan and proves it. A set that fails through a library is followed by the next best one without that
/// library; if there is none, the first failure is the result.
pub(super) fn settle(
    facts: &StartFacts<'_>,
    decision: &mut Decision,
    options: &ProofOptions,
) -> Result<Proven, Error> {
    let mut failed = Vec::new();
    let mut given_up = Vec::new();
    let mut first_failure = None;
    loop {
        let change = publish(facts, decision)?;
        let (verdict, is_known) = prove(facts, decision, &change, options)?;
        let mut proven = Proven {
            change,
            verdict,
            given_up: Vec::new(),
            is_known,
        };
        let mut next = None;
        if let Verdict::Failed { cause, .. } = &proven.verdict {
            given_up.push(cause.clone());
            if given_up.len() <= MORE {
                next = next_best(facts, decision, cause, &mut failed)?;
            }
            proven = first_failure.take().unwrap_or(proven);
        }
        let Some(next) = next else {
            proven.given_up = given_up;
            return Ok(proven);
        };
        first_failure = Some(proven);
        *decision = next;
    }
}

/// The next best decision without the library at fault, which joins the `failed` ones. `None` where no library is at fault, or
/// where the program is known to use the library and would have to do without one: it would load the one at fault all the same.
fn next_best(
    facts: &StartFacts<'_>,
    decision: &Decision,
    cause: &ProofCause,
    failed: &mut Vec<FailedProof>,
) -> Result<Option<Decision>, Error> {
    let Some(culprit) = cause.culprit.as_ref().filter(|_| cause.is_of_library()) else {
        return Ok(None);
    };
    let failure = FailedProof {
        family: culprit.family.clone(),
        directory: culprit.directory.clone(),
    };
    if failed.contains(&failure) {
        return Ok(None);
    }
    failed.push(failure);
    let policy = facts.policy(failed);
    let outcome = solve::solve(&facts.inventory, &facts.program, &policy);
    let next = pin::decide(facts.question(policy), outcome)?;
    let (Outcome::Plan(before), Outcome::Plan(after)) = (&decision.outcome, &next.outcome) else {
        return Ok(None);
    };
    let is_in_next = after.pick_of(&culprit.family).is_some();
    let is_used = before
        .pick_of(&culprit.family)
        .is_some_and(Pick::is_imported);
    Ok((is_in_next || !is_used)
        .then_some(next)
        .filter(|next| !next.is_refused()))
}

/// Proves a published plan. Returns the verdict, and true if it is the kept verdict of an earlier start.
fn prove(
    facts: &StartFacts<'_>,
    decision: &Decision,
    change: &Change,
    options: &ProofOptions,
) -> Result<(Verdict, bool), Error> {
    let skipped = |why| Ok((Verdict::Skipped { why }, false));
    let Outcome::Plan(plan) = &decision.outcome else {
        return skipped(Skip::NothingToTry);
    };
    let when = options.when(facts.settings);
    // A program that does without a GPU decides itself.
    let does_without = facts.program.has_modules && !options.is_asked_for;
    if when == VerifyWhen::Never || when == VerifyWhen::Auto && does_without {
        return skipped(Skip::NotAsked);
    }
    // The child has no search paths that lead to the plan, and is not the program that the audit module answers to.
    let aided = decision
        .pinned
        .as_ref()
        .and_then(|pinned| pinned.for_proof(plan));
    let env = match aided.map(|aided| change_by(facts, plan, &aided, true)) {
        Some(Err(Error::NoCache { .. })) => return skipped(Skip::NoPlace),
        Some(aided) => facts.host.env.with(&aided?.diff),
        None => facts.host.env.with(&change.diff),
    };
    let subject = ProofSubject::of_plan(plan);
    let level = options.level(facts.settings);
    let names = names(facts, &subject, &env, level);
    let places: Vec<PathBuf> = storage::safe_directories(facts.host).collect();
    // A proof that is wanted now waits for no other process.
    let turn = match when {
        VerifyWhen::Auto => {
            kept_proofs::await_turn(facts.host, &places, &names, verify::limit(level))
        }
        VerifyWhen::Always | VerifyWhen::Never => AwaitedProof::Ours(None),
    };
    Ok(match turn {
        AwaitedProof::Known(verdict) => (*verdict, true),
        AwaitedProof::Ours(_held) => {
            let verdict = prove_once(facts.settings, &facts.inventory, &subject, &env, options)?;
            if let Some(name) = names.first() {
                kept_proofs::keep(facts.host, &places, name, &verdict);
            }
            (verdict, false)
        }
    })
}

/// Runs a new proof. Without a GPU, files can only be loaded.
pub fn prove_once(
    settings: &Settings,
    inventory: &Inventory,
    subject: &ProofSubject,
    env: &Environment,
    options: &ProofOptions,
) -> Result<Verdict, Error> {
    let host = &settings.host;
    let level = options.level(settings);
    if !inventory.has_gpu() && level > Level::Load {
        return Ok(Verdict::Skipped { why: Skip::NoGpu });
    }
    let proof_settings = ProofSettings {
        level,
        seed: options.seed.unwrap_or_else(|| seed(host)),
        limit: verify::limit(level),
    };
    let is_shown = host.stderr_is_terminal() && !options.is_quiet;
    let mut shown: Option<ProofStep> = None;
    let mut progress = |place: &ProofStep, since: Duration| {
        if is_shown && since > PATIENCE && shown.as_ref() != Some(place) {
            report::say(&report::proving(place));
            shown = Some(place.clone());
        }
    };
    // By this name it is found also after it was replaced.
    let executable = Path::new("/proc/self/exe");
    let verdict = verify::run(
        host,
        executable,
        subject,
        env,
        inventory,
        proof_settings,
        &mut progress,
    );
    if shown.is_some() {
        report::say(report::NO_MORE_PROGRESS);
    }
    verdict
}

/// The names under which a proof is kept that shows this level or more. They depend on all that could falsify it:
/// the files, the environment that reaches libraries, the driver, the GPUs, this binary. Without one of these
/// there is no name, and nothing is kept.
fn names(
    facts: &StartFacts<'_>,
    subject: &ProofSubject,
    env: &Environment,
    level: Level,
) -> Vec<String> {
    let Some(parts) = key(facts, subject, env) else {
        return Vec::new();
    };
    // Between the first and the last level, not every file is loaded.
    let shown_by: &[Level] = match level {
        Level::Load => &[Level::Load, Level::Deep],
        Level::Handle => &[Level::Handle, Level::Conv, Level::Deep],
        Level::Conv => &[Level::Conv, Level::Deep],
        Level::Deep => &[Level::Deep],
    };
    let name = |level: &Level| {
        let level = serde_json::json!(level).to_string();
        storage::digest(parts.iter().map(String::as_bytes).chain([level.as_bytes()]))
    };
    shown_by.iter().map(name).collect()
}

fn key(facts: &StartFacts<'_>, subject: &ProofSubject, env: &Environment) -> Option<Vec<String>> {
    let StartFacts {
        host, inventory, ..
    } = facts;
    let driver = match &inventory.driver {
        Some(driver) => driver.version.to_string(),
        None if inventory.devices.is_empty() => "none".to_owned(),
        None => return None,
    };
    // If the kernel does not list the GPUs, they may differ next time.
    if inventory.gpus.is_empty() && !inventory.devices.is_empty() {
        return None;
    }
    let own = host.stat(Path::new("/proc/self/exe")).ok()?;
    // Another machine with the same home, or this one after what needs a restart.
    let boot = host.read_text(Path::new(BOOT)).ok()?;
    // A GPU that sleeps does not say its UUID.
    let known = |gpu: &Gpu| {
        (
            gpu.bus.clone(),
            gpu.model.clone(),
            gpu.capability,
            gpu.visible,
        )
    };
    let gpus: Vec<_> = inventory.gpus.iter().map(known).collect();
    let mut files = Vec::new();
    let libraries = subject.libraries.iter();
    for file in libraries.flat_map(|library| &library.installation.files) {
        let stat = host.stat(&file.path).ok()?;
        files.push((stat.id, stat.size, stat.modified, stat.changed));
    }
    let reaches = |name: &OsStr| reaches_libraries(name) || name == audit_module::PINS;
    let variables = env.iter().filter(|(name, _)| reaches(name));
    let variables =
        variables.map(|(name, value)| (name.as_encoded_bytes(), value.as_encoded_bytes()));
    Some(vec![
        boot,
        serde_json::to_string(&(env!("CARGO_PKG_VERSION"), own.id, own.modified)).ok()?,
        driver,
        serde_json::to_string(&(gpus, &inventory.devices)).ok()?,
        serde_json::to_string(&files).ok()?,
        serde_json::to_string(&variables.collect::<Vec<_>>()).ok()?,
    ])
}

/// Different on each machine, and after each start of it.
pub(super) const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// Another one at each proof.
fn seed(host: &Host) -> u32 {
    host.started
        .duration_since(UNIX_EPOCH)
        .map_or(1, |since| since.subsec_nanos() | 1)
}
