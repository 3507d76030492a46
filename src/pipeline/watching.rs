//! A program that is started, waited for, and asked what it mapped.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::ExitStatus;

use tempfile::NamedTempFile;

use super::publish::{Change, publish_module};
use super::start_facts::StartFacts;
use crate::error::{Error, OldLoader};
use crate::formats::audit_log;
use crate::host::Host;
use crate::inventory;
use crate::launch::{self, Exec};
use crate::pin::{self, Decision};
use crate::predict::Prediction;
use crate::predict::observe::ObservedProcess;
use crate::program::{Command, NotPinnable};
use crate::running::{DeviceWatch, UNUSED_AFTER};
use crate::solve::Plan;
use crate::storage;
use crate::text::show;

/// A program that is ready to start with the audit module, which records what is mapped.
pub struct WatchedRun {
    exec: Exec,
    log: NamedTempFile,
}

impl WatchedRun {
    pub fn new(
        facts: &StartFacts<'_>,
        change: &Change,
        command: &Command,
    ) -> Result<WatchedRun, Error> {
        let host = facts.host;
        let directory = storage::cache_directory(host)?;
        // Other processes of this user will append to it, whatever the umask is.
        let log = storage::temporary_file(&directory, 0o600)
            .and_then(|log| {
                log.as_file()
                    .set_permissions(Permissions::from_mode(0o600))?;
                Ok(log)
            })
            .map_err(|error| Error::unwritten(&directory, error))?;
        let module = publish_module(host)?;
        let diff = pin::watched(&change.of_start(), &module, log.path(), &host.env);
        let exec = Exec {
            diff,
            ..launch::unchanged(&facts.program.path, command)
        };
        Ok(WatchedRun { exec, log })
    }

    /// Runs the program to its end, like [`watch_gpus`].
    pub fn run(
        &self,
        host: &Host,
        tell: Option<impl FnOnce() + Send>,
    ) -> Result<(ExitStatus, Option<bool>), Error> {
        let (status, has_opened_gpu) = watch_gpus(host, tell, || launch::run(&self.exec));
        Ok((status?, has_opened_gpu))
    }

    /// What the program mapped. `plan` is what was pinned.
    pub fn observed(
        &self,
        facts: &StartFacts<'_>,
        plan: Option<&Plan>,
        has_opened_gpu: Option<bool>,
    ) -> Result<ObservedProcess, Error> {
        let path = self.log.path();
        // It grows with every process of a build.
        let log = facts.host.map(path).map_err(Error::io(show(path)))?;
        let records = audit_log::records(&log);
        Ok(ObservedProcess::new(
            facts.host,
            records,
            &facts.program,
            plan,
            has_opened_gpu,
        ))
    }
}

/// Runs a program, and tells whether it opened a GPU, if that is asked for and can be known. Calls `tell` if it runs for long
/// without.
pub fn watch_gpus<T>(
    host: &Host,
    tell: Option<impl FnOnce() + Send>,
    run: impl FnOnce() -> T,
) -> (T, Option<bool>) {
    let Some(tell) = tell else {
        return (run(), None);
    };
    match DeviceWatch::of(host, &inventory::gpu_devices(host)) {
        Some(watch) => watch.during(UNUSED_AFTER, tell, run),
        None => (run(), None),
    }
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
        Some(note) => Err(Error::NotTraced(NotPinnable::boxed(
            note,
            facts.program.runs(),
        ))),
        None if !pin::suits_auditors(&facts.searcher) => {
            Err(Error::NotTraced(Box::new(OldLoader {
                glibc: pin::release(&facts.searcher),
            })))
        }
        None => Ok(()),
    }
}
