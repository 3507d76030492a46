//! The proof of a plan, and the way back: a set that fails through a library's fault is followed by the next best one
//! without that library.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use super::Considered;
use super::progress::PATIENCE;
use crate::cli::{Level, When};
use crate::environment::{Diff, Environment};
use crate::error::Error;
use crate::host::Host;
use crate::inventory::{Gpu, Inventory};
use crate::pin::audit_module;
use crate::pin::{Decision, PublishedPaths};
use crate::program::ImportCertainty;
use crate::report;
use crate::settings::start_key::reaches_libraries;
use crate::solve::{FailedProof, Outcome, Pick, Plan};
use crate::storage;
use crate::verify::kept::{self, KeptVerdict, Turn};
use crate::verify::protocol::Place;
use crate::verify::{self, Ask, Cause, Machine, Skip, Subject, Verdict};

/// How many sets are tried after the first.
const MORE: usize = 3;

/// When and how much is proved.
#[derive(Clone, Copy, Debug)]
pub(super) struct How {
    pub when: When,
    pub level: Level,
    /// What the random numbers are made from, where a person has said so.
    pub seed: Option<u32>,
    /// Nothing is said while it lasts.
    pub is_quiet: bool,
}

impl How {
    /// A new proof, as far as there is a GPU: without one, files can be loaded.
    pub(super) fn prove_once(
        self,
        host: &Host,
        inventory: &Inventory,
        subject: &Subject,
        env: &Environment,
    ) -> Result<Verdict, Error> {
        if !inventory.has_gpu() && self.level > Level::Load {
            return Ok(Verdict::Skipped { why: Skip::NoGpu });
        }
        let executable = host.own_executable().map_err(|error| Error::Verifier { error })?;
        let machine = Machine {
            driver: inventory.driver.as_ref().map(|driver| driver.version),
            devices: inventory.devices.len(),
        };
        let ask = Ask::new(self.level, self.seed.unwrap_or_else(|| seed(host)));
        let is_shown = host.stderr_is_terminal() && !self.is_quiet;
        let mut shown: Option<Place> = None;
        let mut progress = |place: &Place, since: Duration| {
            if is_shown && since > PATIENCE && shown.as_ref() != Some(place) {
                report::say(&report::proving(place));
                shown = Some(place.clone());
            }
        };
        let verdict = verify::run(host, &executable, subject, env, ask, machine, &mut progress);
        if shown.is_some() {
            report::say(report::NO_MORE_PROGRESS);
        }
        verdict
    }
}

/// The set that was settled on, and what was tried before it.
pub(super) struct Proven {
    pub diff: Diff,
    pub places: PublishedPaths,
    pub verdict: Verdict,
    /// Why each set before it was given up.
    pub given_up: Vec<Cause>,
    /// The verdict was made before, and still holds.
    pub is_known: bool,
}

impl Considered<'_> {
    /// Publishes and proves the plan; one that fails through a library's fault is followed by the next. Where no set holds,
    /// the verdict is the first one's.
    pub(super) fn prove(&mut self, host: &Host, how: How) -> Result<Proven, Error> {
        let mut failed_proofs: Vec<FailedProof> = Vec::new();
        let mut given_up: Vec<Cause> = Vec::new();
        let mut first: Option<Proven> = None;
        loop {
            let (diff, places) = match self.change(host, true) {
                // The place was full or read-only after all.
                Err(error @ Error::NoCache { .. }) => {
                    self.do_without_a_view().ok_or(error)?;
                    self.change(host, true)?
                }
                changed => changed?,
            };
            let (verdict, is_known) = self.prove_this(host, how, &diff)?;
            let Verdict::Failed { cause, .. } = &verdict else {
                return Ok(Proven { diff, places, verdict, given_up, is_known });
            };
            given_up.push(cause.clone());
            let next = if given_up.len() > MORE { None } else { self.without(cause, &mut failed_proofs)? };
            let failed = first.unwrap_or(Proven { diff, places, verdict, given_up: Vec::new(), is_known });
            let Some(decision) = next else { return Ok(Proven { given_up, ..failed }) };
            self.decision = decision;
            first = Some(failed);
        }
    }

    /// Pins the plan again without a view, if the program gets all of it by itself.
    fn do_without_a_view(&mut self) -> Option<()> {
        let Outcome::Plan(plan) = &self.decision.outcome else { return None };
        let question = self.stages.question(0, &[]);
        let pinned = question.without_a_view(plan).filter(|_| question.mode.is_none())?;
        self.decision.pinned = Some(pinned);
        Some(())
    }

    /// The next best decision, without the library that is at fault. None where no library is, or where the program would
    /// have to do without one that it is known to use: it would get the one at fault all the same.
    fn without(
        &self,
        cause: &Cause,
        failed_proofs: &mut Vec<FailedProof>,
    ) -> Result<Option<Decision>, Error> {
        let Some(culprit) = cause.culprit.as_ref().filter(|_| cause.kind.is_of_library()) else {
            return Ok(None);
        };
        let installation =
            FailedProof { family: culprit.family.clone(), directory: culprit.directory.clone() };
        if failed_proofs.contains(&installation) {
            return Ok(None);
        }
        failed_proofs.push(installation);
        let decision = self.decide(0, failed_proofs)?;
        let (Outcome::Plan(failed), Outcome::Plan(next)) = (&self.decision.outcome, &decision.outcome) else {
            return Ok(None);
        };
        let of_family =
            |plan: &Plan| plan.picks.iter().find(|pick| pick.installation.family == culprit.family).cloned();
        let is_used =
            |pick: Pick| pick.asked_by.iter().any(|asker| asker.standing == ImportCertainty::Imported);
        let is_lost = of_family(next).is_none() && of_family(failed).is_some_and(is_used);
        Ok((!is_lost && !decision.is_refused()).then_some(decision))
    }

    /// The verdict on this very plan: one that was kept, where that is enough, or a new one.
    fn prove_this(&self, host: &Host, how: How, diff: &Diff) -> Result<(Verdict, bool), Error> {
        let Outcome::Plan(plan) = &self.decision.outcome else {
            return Ok((Verdict::Skipped { why: Skip::NothingToTry }, false));
        };
        if how.when == When::Never {
            return Ok((Verdict::Skipped { why: Skip::NotAsked }, false));
        }
        // A child of our own has no search paths that lead to the plan, and is not the program that the module answers to.
        let aided = self.decision.pinned.as_ref().and_then(|pinned| pinned.for_proof(plan));
        let mut env = match aided.map(|aided| self.change_by(host, plan, &aided, true)) {
            Some(Err(Error::NoCache { .. })) => {
                return Ok((Verdict::Skipped { why: Skip::NoPlace }, false));
            }
            Some(changed) => host.env.with(&changed?.0),
            None => host.env.with(diff),
        };
        env.remove(OsStr::new(audit_module::FOR));
        let subject = Subject::of_plan(plan);
        let run = || how.prove_once(host, &self.inventory, &subject, &env);
        let names = self.names(host, &subject, &env, how.level);
        let places: Vec<PathBuf> = storage::safe_directories(host).collect();
        if names.is_empty() {
            return Ok((run()?, false));
        }
        // Whoever wants it proved now waits for nobody.
        let turn = match how.when {
            When::Auto => kept::await_turn(host, &places, &names, verify::limit(how.level)),
            When::Always | When::Never => Turn::Ours(None),
        };
        match turn {
            Turn::Known(KeptVerdict::Verdict(verdict)) => Ok((*verdict, true)),
            Turn::Known(KeptVerdict::Passed) => Ok((Verdict::Skipped { why: Skip::ProvedBefore }, true)),
            Turn::Ours(_held) => {
                let verdict = run()?;
                kept::keep(host, &places, &names[0], &verdict);
                Ok((verdict, false))
            }
        }
    }

    /// The names under which a proof is kept that shows this level or more. They stand for all that could falsify it:
    /// the files, the environment that reaches libraries, the driver, the GPUs, this binary. Where one of these is not
    /// known there is no name, and nothing is kept.
    fn names(&self, host: &Host, subject: &Subject, env: &Environment, level: Level) -> Vec<String> {
        let Some(parts) = self.key(host, subject, env) else { return Vec::new() };
        // Between the first and the last level, not every file is loaded.
        let shown_by: &[Level] = match level {
            Level::Load => &[Level::Load, Level::Deep],
            Level::Handle => &[Level::Handle, Level::Conv, Level::Deep],
            Level::Conv => &[Level::Conv, Level::Deep],
            Level::Deep => &[Level::Deep],
        };
        let name = |level: &Level| {
            let level = format!("{level:?}");
            storage::digest(parts.iter().map(String::as_bytes).chain([level.as_bytes()]))
        };
        shown_by.iter().map(name).collect()
    }

    fn key(&self, host: &Host, subject: &Subject, env: &Environment) -> Option<Vec<String>> {
        let inventory = &self.inventory;
        let driver = match &inventory.driver {
            Some(driver) => driver.version.to_string(),
            None if inventory.devices.is_empty() => "none".to_owned(),
            None => return None,
        };
        // Where the kernel does not list the GPUs, others may be there the next time.
        if inventory.gpus.is_empty() && !inventory.devices.is_empty() {
            return None;
        }
        let own = host.stat(Path::new("/proc/self/exe")).ok()?;
        // Another machine with the same home, or this one after what needs a restart.
        let boot = host.read_text(Path::new(BOOT)).ok()?;
        // A GPU that sleeps does not say its UUID.
        let known = |gpu: &Gpu| (gpu.bus.clone(), gpu.model.clone(), gpu.capability, gpu.visible);
        let gpus: Vec<_> = inventory.gpus.iter().map(known).collect();
        let mut files = Vec::new();
        for file in subject.libraries.iter().flat_map(|library| &library.files) {
            let stat = host.stat(&file.path).ok()?;
            files.push(format!("{:?} {} {:?} {:?}", stat.id, stat.size, stat.modified, stat.changed));
        }
        let reaches = |name: &OsStr| reaches_libraries(name) || name == audit_module::PINS;
        let variables: Vec<_> = env.iter().filter(|(name, _)| reaches(name)).collect();
        Some(vec![
            boot,
            format!("{} {:?} {:?}", env!("CARGO_PKG_VERSION"), own.id, own.modified),
            driver,
            format!("{gpus:?} {:?}", inventory.devices),
            files.join("\n"),
            format!("{variables:?}"),
        ])
    }
}

/// Different on each machine, and after each start of it.
pub(super) const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// Another one at each proof.
fn seed(host: &Host) -> u32 {
    host.started.duration_since(UNIX_EPOCH).map_or(1, |since| since.subsec_nanos() | 1)
}
