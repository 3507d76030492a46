//! `cudarun record PROGRAM …`: starts it as a start would, and writes the set that it has really mapped to
//! `.cudarun.lock`. Nothing is written where that set may be another one than meant.

use std::collections::BTreeMap;
use std::process::ExitStatus;

use super::{Considered, Ended, Exit, Purpose, command_of, consider, speak, style, wanted, watched};
use crate::catalog::knowledge;
use crate::cli::{Common, Record};
use crate::error::Error;
use crate::host::Host;
use crate::inventory::{Installation, Origin};
use crate::predict::observe::Observation;
use crate::report;
use crate::settings::files;
use crate::settings::lock::{Family, Lock};
use crate::storage;

pub fn record(host: &Host, common: &Common, options: &Record) -> Result<Ended, Error> {
    if let Some(option) = common.elsewhere() {
        return Err(Error::NothingRunsUnderRoot { option, verb: "record" });
    }
    let style = style(host, common.color, host.stderr_is_terminal());
    let command = command_of(&options.words);
    let wanted = wanted(host, common, &options.wishes, Some(&command), Purpose::Record)?;
    let host = &wanted.host;
    let considered = consider(&wanted, common, &command)?;
    watched::can_be_watched(&considered)?;
    speak(&considered, common, style);
    if considered.refuse(false, style)? {
        return Ok(Ended::NotStarted(Exit::Refused.code()));
    }
    let (diff, _) = considered.change(host, true)?;
    let start = watched::Start { host, considered: &considered, command: &command, as_is: false };
    let path = files::lock(host, wanted.project.as_deref());
    let unwritable = |error| Error::Report { path: path.clone(), error };
    // Nobody wants to hear after a day of training that it was not recorded.
    let before = || storage::can_publish(host, &path).map_err(unwritable);
    let (status, observation) = start.run(&diff, before)?;
    let status = status?;
    let said = match lock(host, &considered, &observation, status) {
        Err(why) => report::not_recorded(&path, &why),
        Ok(lock) => {
            storage::publish(host, &path, lock.text().as_bytes()).map_err(unwritable)?;
            report::recorded(&path, lock.families.len())
        }
    };
    if !common.quiet {
        report::say(&format!("cudarun: {said}\n"));
    }
    Ok(Ended::Program(status))
}

/// What was mapped, or why that is not worth keeping.
fn lock(
    host: &Host,
    considered: &Considered<'_>,
    observation: &Observation,
    status: ExitStatus,
) -> Result<Lock, report::NotRecorded> {
    if !status.success() {
        return Err(report::NotRecorded::Failed);
    }
    let inventory = &considered.inventory;
    let mapped = observation.images.iter().flat_map(|image| &image.files);
    let mut lock = Lock::default();
    let mut installations: BTreeMap<(&str, Option<u32>, &std::path::Path), &Installation> = BTreeMap::new();
    for file in mapped {
        // The driver is the kernel's; what is asked of it is a floor.
        let Some(family) = file.family.as_deref().filter(|family| *family != "driver") else { continue };
        let id = host.stat(&file.file).ok().map(|stat| stat.id);
        let is_it = |installation: &&Installation| {
            installation.family == family && id.is_some_and(|id| installation.has_file(id))
        };
        match inventory.installations.iter().find(is_it) {
            // What a package carries for itself no other start can pick.
            Some(installation) if installation.origin == Origin::Bundled => {}
            Some(installation) => {
                installations.insert((family, installation.soname, &installation.directory), installation);
            }
            None => return Err(report::NotRecorded::Elsewhere { file: file.file.clone() }),
        }
    }
    if installations.is_empty() {
        return Err(report::NotRecorded::Nothing);
    }
    let places: Vec<_> = installations.keys().map(|(family, soname, _)| (*family, *soname)).collect();
    if let Some(((family, _), _)) = places.iter().zip(places.iter().skip(1)).find(|(one, next)| one == next) {
        return Err(report::NotRecorded::Twice { family: (*family).to_owned() });
    }
    lock.families = installations.into_values().map(family).collect();
    let cuda = lock.families.iter().filter_map(|family| family.cuda).max();
    lock.driver = cuda.and_then(|cuda| knowledge().driver_floor(cuda, None));
    lock.gpus = inventory.gpus.iter().filter_map(|gpu| gpu.capability).collect();
    Ok(lock)
}

fn family(installation: &Installation) -> Family {
    let build_id =
        |member: &crate::inventory::Member| Some((member.soname.clone(), member.build_id.clone()?));
    Family {
        name: installation.family.clone(),
        version: installation.version,
        cuda: installation.cuda,
        build_ids: installation.files.iter().filter_map(build_id).collect(),
        line: 0,
    }
}
