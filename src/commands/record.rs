//! `cudarun record PROGRAM …`: runs the program, and writes the set that it really mapped to `.cudarun.lock`. Nothing is
//! written where that set may differ from the one that is meant.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitStatus;

use super::{Exit, command_of, only_here, say, say_before, say_refusal, settings_of};
use crate::catalog::{Platform, knowledge};
use crate::cli::{Common, RecordOptions};
use crate::error::Error;
use crate::host::Host;
use crate::inventory::{Installation, Inventory, Member, Origin};
use crate::pipeline::{self, Request, StartFacts, WatchedRun};
use crate::predict::observe::ObservedProcess;
use crate::report::{self, NotRecorded};
use crate::settings::lock::{Lock, LockedFamily};
use crate::settings::resolve::Purpose;
use crate::storage;
use crate::version::ComputeCapability;

pub fn record(host: &Host, common: &Common, options: &RecordOptions) -> Result<Exit, Error> {
    only_here(common, "record")?;
    let command = command_of(&options.words);
    let request = Request::new(
        host,
        common,
        &options.library_options,
        Some(&command),
        Purpose::Record,
    );
    let mut settings = settings_of(&request)?;
    let (facts, mut decision) = request.decision(&mut settings)?;
    pipeline::can_be_watched(&facts)?;
    say_before(&facts, &decision, common);
    if decision.is_refused() {
        say_refusal(&facts, &decision, common);
        return Ok(Exit::Refused);
    }
    let change = facts.publish(&mut decision)?;
    let path = facts.settings.lock_file();
    let run = WatchedRun::new(&facts, &change, &command)?;
    // A program that trains for a day must not end with a lock that cannot be written.
    storage::can_publish(facts.host, &path).map_err(|error| Error::unwritten(&path, error))?;
    let (status, _) = run.run(host, None::<fn()>)?;
    let observation = match run.observed(&facts, decision.outcome.plan(), None) {
        Ok(observation) => observation,
        Err(error) => {
            say(&error.to_string());
            return Ok(Exit::Program(status));
        }
    };
    let told = match lock(&facts, &observation, status) {
        Err(why) => report::not_recorded(&path, &why),
        Ok(lock) => {
            storage::publish(&path, lock.text().as_bytes())
                .map_err(|error| Error::unwritten(&path, error))?;
            report::recorded(&path, lock.families.len())
        }
    };
    if !common.quiet {
        say(&told);
    }
    Ok(Exit::Program(status))
}

/// The lock for what was mapped, or why it is not worth keeping.
fn lock(
    facts: &StartFacts<'_>,
    observation: &ObservedProcess,
    status: ExitStatus,
) -> Result<Lock, NotRecorded> {
    if !status.success() {
        return Err(NotRecorded::Failed);
    }
    let StartFacts {
        host, inventory, ..
    } = facts;
    let mapped = observation.images.iter().flat_map(|image| &image.files);
    let mut installations: BTreeMap<(&str, Option<u32>, &Path), &Installation> = BTreeMap::new();
    for file in mapped {
        // The driver belongs to the kernel; a lock requires a minimum of it.
        let Some(family) = file.family.as_deref().filter(|family| *family != "driver") else {
            continue;
        };
        let id = host.stat(&file.file).ok().map(|stat| stat.id);
        let is_it = |installation: &&Installation| {
            installation.family == family && id.is_some_and(|id| installation.has_file(id))
        };
        match inventory.installations.iter().find(is_it) {
            // A package's own library cannot be picked by another start.
            Some(installation) if installation.origin == Origin::Bundled => {}
            Some(installation) => {
                installations.insert(
                    (family, installation.soname, &installation.directory),
                    installation,
                );
            }
            None => {
                return Err(NotRecorded::Elsewhere {
                    file: file.file.clone(),
                });
            }
        }
    }
    if installations.is_empty() {
        return Err(NotRecorded::Nothing);
    }
    let places: Vec<_> = installations
        .keys()
        .map(|(family, soname, _)| (family, soname))
        .collect();
    if let Some(pair) = places.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(NotRecorded::Twice {
            family: (*pair[0].0).to_owned(),
        });
    }
    let families = libraries(
        facts.program.machine,
        inventory,
        installations.into_values(),
    );
    let gpus = inventory.gpus.iter().filter_map(|gpu| gpu.capability);
    Ok(lock_of(families, gpus))
}

/// A lock of these libraries.
pub(super) fn lock_of(
    families: Vec<LockedFamily>,
    gpus: impl Iterator<Item = ComputeCapability>,
) -> Lock {
    let cuda = families.iter().filter_map(|family| family.cuda).max();
    Lock {
        driver: cuda.and_then(|cuda| knowledge().driver_floor(cuda, None)),
        gpus: gpus.collect(),
        families,
    }
}

/// The entries of a lock for installations, on a machine of this architecture.
pub(super) fn libraries<'i>(
    machine: u16,
    inventory: &Inventory,
    installations: impl Iterator<Item = &'i Installation>,
) -> Vec<LockedFamily> {
    let platform = Platform {
        machine,
        glibc: inventory.glibc.unwrap_or_default(),
        at_hand: None,
    };
    let build_id = |member: &Member| Some((member.soname.clone(), member.build_id.clone()?));
    let wheel = |package: &str| Some(platform.wheel(package)?.1.sha256.clone());
    installations
        .map(|one| LockedFamily {
            name: one.family.clone(),
            version: one.version,
            cuda: one.cuda,
            build_ids: one.files.iter().filter_map(build_id).collect(),
            wheel: one.package.as_deref().and_then(wheel),
            line: 0,
        })
        .collect()
}
