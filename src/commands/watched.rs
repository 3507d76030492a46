//! A program that is started, waited for, and asked what it mapped.

use std::process::ExitStatus;

use super::{Considered, publish_module};
use crate::environment::Diff;
use crate::error::Error;
use crate::formats::audit_log;
use crate::host::Host;
use crate::launch::{self, Exec};
use crate::pin;
use crate::predict::Prediction;
use crate::predict::observe::Observation;
use crate::program::Command;
use crate::report;
use crate::solve::Outcome;
use crate::storage;

pub(super) struct Start<'s> {
    pub host: &'s Host,
    pub considered: &'s Considered<'s>,
    pub command: &'s Command,
    /// In the environment as it is.
    pub as_is: bool,
}

impl Start<'_> {
    /// `before` is what must have been possible before there is a start.
    pub(super) fn run(
        &self,
        diff: &Diff,
        before: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(Result<ExitStatus, Error>, Observation), Error> {
        let Start { host, considered, .. } = self;
        let log = storage::temporary_path(host, &storage::cache_directory(host)?);
        let diff = pin::watched(diff, &publish_module(host, true)?, &log, &host.env);
        before()?;
        storage::create(&log).map_err(|error| Error::Report { path: log.clone(), error })?;
        let exec = Exec { diff, ..launch::unchanged(&considered.program.path, self.command) };
        let status = launch::run(&exec);
        let records = audit_log::records(&storage::read_and_remove(host, &log));
        let prediction = expected(host, considered, self.as_is);
        let plan = match &considered.decision.outcome {
            Outcome::Plan(plan) if !self.as_is => Some(plan),
            _ => None,
        };
        Ok((status, Observation::new(host, records, &considered.program, &prediction, plan)))
    }
}

/// What the program is expected to map, pinned or as it is.
pub(super) fn expected(host: &Host, considered: &Considered<'_>, as_is: bool) -> Prediction {
    match &considered.decision.pinned {
        Some(pinned) if !as_is => pinned.after.clone(),
        _ => considered.before(host),
    }
}

/// The module sees what the dynamic loader does, where that asks one.
pub(super) fn can_be_watched(considered: &Considered<'_>) -> Result<(), Error> {
    let why = match considered.program.cannot_be_pinned() {
        Some(note) => report::note(note, &considered.program),
        None if !pin::suits_auditors(&considered.searcher) => {
            report::too_old_for_auditors(pin::release(&considered.searcher))
        }
        None => return Ok(()),
    };
    Err(Error::NotTraced { why })
}
