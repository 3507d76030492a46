//! A program that is started, waited for, and asked what it mapped.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::ExitStatus;

use super::publish::{Change, publish_module};
use super::start_facts::StartFacts;
use crate::error::{Error, OldLoader};
use crate::formats::audit_log;
use crate::launch::{self, Exec};
use crate::pin::{self, Decision};
use crate::predict::Prediction;
use crate::predict::observe::ObservedProcess;
use crate::program::Command;
use crate::settings::resolve::NotPinnable;
use crate::solve::Outcome;
use crate::storage;

/// Runs the program with the audit module, which records what is mapped. `before_start` runs right before the program, and
/// can still prevent it. `as_is` is true when the plan is not pinned.
pub fn watch(
    facts: &StartFacts<'_>,
    decision: &Decision,
    change: &Change,
    command: &Command,
    as_is: bool,
    before_start: impl FnOnce() -> Result<(), Error>,
) -> Result<(Result<ExitStatus, Error>, ObservedProcess), Error> {
    let host = facts.host;
    let directory = storage::cache_directory(host)?;
    let unwritten = |error| Error::unwritten(&directory, error);
    // Other processes of this user will append to it, whatever the umask is.
    let log = storage::temporary_file(&directory, 0o600).map_err(unwritten)?;
    let mode = Permissions::from_mode(0o600);
    log.as_file().set_permissions(mode).map_err(unwritten)?;
    let module = publish_module(host)?;
    let diff = pin::watched(&change.of_start(), &module, log.path(), &host.env);
    before_start()?;
    let exec = Exec {
        diff,
        ..launch::unchanged(&facts.program.path, command)
    };
    let status = launch::run(&exec);
    let records = audit_log::records(&host.read(log.path()).unwrap_or_default());
    let plan = match &decision.outcome {
        Outcome::Plan(plan) if !as_is => Some(plan),
        _ => None,
    };
    Ok((
        status,
        ObservedProcess::new(host, records, &facts.program, plan),
    ))
}

/// The files that the program is expected to map, pinned or as it is.
pub fn expected(facts: &StartFacts<'_>, decision: &Decision, as_is: bool) -> Prediction {
    match &decision.pinned {
        Some(pinned) if !as_is => pinned.after.clone(),
        _ => facts.before(),
    }
}

/// Fails where the dynamic loader does not ask an audit module.
pub fn can_be_watched(facts: &StartFacts<'_>) -> Result<(), Error> {
    match facts.program.cannot_be_pinned() {
        Some(note) => Err(Error::NotTraced(NotPinnable::boxed(note, &facts.program))),
        None if !pin::suits_auditors(&facts.searcher) => {
            Err(Error::NotTraced(Box::new(OldLoader {
                glibc: pin::release(&facts.searcher),
            })))
        }
        None => Ok(()),
    }
}
