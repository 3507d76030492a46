//! Publishing a plan: the view and the audit module, and the change of environment that leads the loader to them.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use super::start_facts::StartFacts;
use crate::environment::{Diff, Environment};
use crate::error::Error;
use crate::fetch::note_uses;
use crate::host::Host;
use crate::inventory::Origin;
use crate::launch;
use crate::pin::{self, Decision, Pinned, PublishedPaths, audit_module, view};
use crate::solve::{Outcome, Plan};
use crate::storage::{self, WriteRefusal};
use crate::variables;

/// The change of environment that the program gets, and the paths that it leads to.
#[derive(Clone, Debug, Default)]
pub struct Change {
    pub diff: Diff,
    /// What it gets beside that, so that what it starts is decided for itself.
    pub following: Diff,
    pub paths: PublishedPaths,
}

impl Change {
    /// True if the audit module answers the names of a table.
    fn has_pins(&self) -> bool {
        self.diff.get(variables::PINS).is_some()
    }

    /// The change with which the program starts.
    pub fn of_start(&self) -> Diff {
        self.diff.then(&self.following)
    }
}

/// Publishes the plan of a decision. If no directory can hold the view, the plan is pinned without one, if the program
/// gets all of it by itself.
pub(super) fn publish(facts: &StartFacts<'_>, decision: &mut Decision) -> Result<Change, Error> {
    note_fetched(facts, decision);
    match change(facts, decision, true) {
        Err(error @ Error::NoCache { .. }) => {
            let Outcome::Plan(plan) = &decision.outcome else {
                return Err(error);
            };
            let question = facts.question(facts.policy(&[]));
            let pinned = question
                .without_a_view(plan)
                .filter(|_| question.mode.is_none());
            decision.pinned = Some(pinned.ok_or(error)?);
            change(facts, decision, true)
        }
        changed => changed,
    }
}

/// Notes which fetched wheels the program uses, so that they are kept.
fn note_fetched(facts: &StartFacts<'_>, decision: &Decision) {
    let picks = if let Outcome::Plan(plan) = &decision.outcome {
        plan.picks.as_slice()
    } else {
        &[]
    };
    let picked = picks
        .iter()
        .map(|pick| (pick.installation.origin, &pick.installation.directory));
    let toolkit = facts.build.iter().map(|build| &build.plan.toolkit);
    let used = picked.chain(toolkit.map(|toolkit| (toolkit.origin, &toolkit.root)));
    let fetched = used
        .filter(|(origin, _)| *origin == Origin::Fetched)
        .map(|(_, directory)| directory.as_path());
    note_uses(facts.host, fetched);
}

/// The change of environment that pins a decision. What it leads to is published if `writes`.
pub fn change(facts: &StartFacts<'_>, decision: &Decision, writes: bool) -> Result<Change, Error> {
    let mut change = match (&decision.outcome, &decision.pinned) {
        (Outcome::Plan(plan), Some(pinned)) => change_by(facts, plan, pinned, writes)?,
        _ => Change {
            diff: facts.settings.variables.clone(),
            ..Change::default()
        },
    };
    change.diff = change.diff.then(&facts.compilers.environment());
    if facts.follows()
        && let Ok(module) = module(facts.host, writes)
    {
        let env = &facts.host.env;
        let added = pin::followed(&change.diff, &module, env);
        // `env` has the variables of `[env]` already: they are the person's own, and are not taken back below the program.
        let mut after = env.with(&added);
        after.remove(OsStr::new(variables::HOOK_FOLLOWS));
        let added = Diff::between(env, &after);
        let with_plan = facts.program.executable.as_deref();
        let with_plan = with_plan.filter(|_| matches!(decision.outcome, Outcome::Plan(_)));
        change.following = added.then(&launch::tree_change(&added, env, with_plan));
        change.paths.module = Some(module);
    } else if change.has_pins() && facts.settings.purpose.starts() && !facts.host.is_rerooted() {
        // The module knows by the variable of the tree which process the pins are for.
        let env = &facts.host.env;
        let mut after = env.with(&change.diff);
        after.set(variables::FOLLOW, "off");
        let added = Diff::between(env, &after);
        change.following = added.then(&launch::tree_change(&added, env, None));
    }
    Ok(change)
}

/// The change of environment in which a program is started by somebody else: pins are known only to a process that cudarun
/// starts, so it is followed instead, and decided when it starts.
pub fn started_later(facts: &StartFacts<'_>, change: &Change) -> Diff {
    let mut diff = change.diff.clone();
    if change.has_pins() && facts.follows() {
        for name in [variables::PINS, variables::VIEW] {
            diff.0.remove(OsStr::new(name));
        }
        let env = &facts.host.env;
        let added = Diff::between(env, &env.with(&diff));
        let with_plan = facts.program.executable.as_deref();
        diff = diff.then(&launch::tree_change(&added, env, with_plan));
    }
    diff
}

/// The place of the audit module, where it is published if `writes`.
fn module(host: &Host, writes: bool) -> Result<PathBuf, Error> {
    if writes {
        return publish_module(host);
    }
    if let Some(installed) = audit_module::installed(host) {
        return Ok(installed);
    }
    Ok(audit_module::place(
        host,
        &storage::planned_cache_directory(host)?,
    ))
}

/// The change that pins a plan in one way.
pub(super) fn change_by(
    facts: &StartFacts<'_>,
    plan: &Plan,
    pinned: &Pinned,
    writes: bool,
) -> Result<Change, Error> {
    let host = facts.host;
    let view = match (pinned.spec.is_empty(), writes) {
        (true, _) => None,
        (false, true) => Some(view::publish(host, &pinned.spec)?),
        (false, false) => Some(view::place(host, &pinned.spec)?),
    };
    let module = if pinned.mode.traits().uses_module {
        Some(module(host, writes)?)
    } else {
        None
    };
    let paths = PublishedPaths { view, module };
    let change = pinned.environment(plan, &paths, &facts.views, &host.env);
    Ok(Change {
        diff: facts.settings.variables.then(&change),
        paths,
        ..Change::default()
    })
}

/// The module, and the value of the variable of the tree, with which a shell follows.
pub fn following(host: &Host) -> Result<(PathBuf, OsString), Error> {
    let module = publish_module(host)?;
    let before = Environment::default();
    let after = [(variables::AUDIT, module.as_os_str())]
        .into_iter()
        .collect();
    let noted = launch::tree_change(&Diff::between(&before, &after), &before, None);
    let tree = noted.0.into_values().flatten().next();
    Ok((module, tree.unwrap_or_default()))
}

/// The audit module: the installed one, or else one in the first directory that takes it.
pub(super) fn publish_module(host: &Host) -> Result<PathBuf, Error> {
    if let Some(installed) = audit_module::installed(host) {
        return Ok(installed);
    }
    storage::first_usable(host, |directory| {
        audit_module::publish(host, directory).map_err(|error| WriteRefusal::Here(error.into()))
    })
}
