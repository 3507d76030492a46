//! One lock that holds on every machine of a fleet, or the reason why there is none.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::Path;

use super::sets::{Picks, picks};
use super::{in_image, unusable};
use crate::catalog::knowledge;
use crate::cli::Common;
use crate::error::Error;
use crate::fleet::{Group, host_list};
use crate::host::Host;
use crate::machine::Machine;
use crate::report::NoCommonLock;
use crate::settings::lock::{Family, Lock};

/// Rounds in which another build of a library is tried on all machines.
const ROUNDS: usize = 24;

/// A machine that is the same as some others, and the libraries of the program there.
struct Place {
    hosts: String,
    host: Host,
    libraries: Picks,
}

impl Place {
    fn has(&self, family: &Family) -> bool {
        self.libraries
            .all
            .iter()
            .any(|own| is_same_build(own, family))
    }
}

/// Finds a lock for a program that every machine obeys: the first machine's best set, in which another build replaces each that
/// is not everywhere.
pub(super) fn common_lock(
    host: &Host,
    common: &Common,
    groups: &[&Group],
    words: &[OsString],
) -> Result<Result<Lock, NoCommonLock>, Error> {
    let places = groups.iter().map(|group| place(host, common, group, words));
    let places = places.collect::<Result<Vec<Place>, _>>()?;
    let mut fixed: BTreeMap<String, Family> = BTreeMap::new();
    let mut tried: Vec<Family> = Vec::new();
    let mut refused = Vec::new();
    for _ in 0..ROUNDS {
        let wish = Lock {
            families: fixed.values().cloned().collect(),
            ..Lock::default()
        };
        let first = &places[0];
        let lock = match picks(&first.host, common, words, &wish) {
            Ok(picks) if picks.set.is_empty() => return Ok(Err(NoCommonLock::Nothing)),
            Ok(picks) => lock(picks.set, &places),
            Err(why) => return Ok(Err(NoCommonLock::Refused(vec![(first.hosts.clone(), why)]))),
        };
        let refuses = |place: &Place| {
            Some((
                place.hosts.clone(),
                picks(&place.host, common, words, &lock).err()?,
            ))
        };
        refused = places.iter().filter_map(refuses).collect();
        let is_lacking = |family: &&Family| !places.iter().all(|place| place.has(family));
        let Some(family) = lock
            .families
            .iter()
            .find(is_lacking)
            .filter(|_| !refused.is_empty())
        else {
            return Ok(if refused.is_empty() {
                Ok(lock)
            } else {
                Err(NoCommonLock::Refused(refused))
            });
        };
        tried.push(family.clone());
        let others = first
            .libraries
            .all
            .iter()
            .filter(|one| one.name == family.name && !tried.contains(one));
        let everywhere = others.filter(|one| places.iter().all(|place| place.has(one)));
        match everywhere.max_by_key(|one| one.version) {
            Some(other) => _ = fixed.insert(family.name.clone(), other.clone()),
            None => return Ok(Err(nowhere(family, &places))),
        }
    }
    Ok(Err(NoCommonLock::Refused(refused)))
}

/// The versions of a library on all machines.
fn nowhere(family: &Family, places: &[Place]) -> NoCommonLock {
    let versions = |place: &Place| -> BTreeSet<String> {
        let own = place
            .libraries
            .all
            .iter()
            .filter(|one| one.name == family.name);
        own.map(|one| {
            one.version
                .map_or_else(|| "?".to_owned(), |version| version.to_string())
        })
        .collect()
    };
    let words = |versions: BTreeSet<String>| {
        let words: Vec<String> = versions.into_iter().collect();
        if words.is_empty() {
            "none".to_owned()
        } else {
            words.join(", ")
        }
    };
    let common = places
        .iter()
        .map(versions)
        .reduce(|all, own| all.intersection(&own).cloned().collect());
    let on = places
        .iter()
        .map(|place| (place.hosts.clone(), words(versions(place))))
        .collect();
    NoCommonLock::Family {
        name: family.name.clone(),
        has_version: common.is_some_and(|all| !all.is_empty()),
        on,
    }
}

fn is_same_build(one: &Family, other: &Family) -> bool {
    (&one.name, one.version, &one.build_ids) == (&other.name, other.version, &other.build_ids)
}

fn place(host: &Host, common: &Common, group: &Group, words: &[OsString]) -> Result<Place, Error> {
    let path: &Path = &group.machines[0].path;
    let machine = Machine::read(host, path).map_err(|fault| unusable(path, fault.0))?;
    let node = machine
        .host()
        .map_err(|error| unusable(path, error.to_string()))?;
    let there = in_image(host, common, node)?;
    let hosts = host_list(group.machines.iter().map(|one| one.name.as_str()));
    // A machine that refuses the program has no lock.
    let libraries = picks(&there, common, words, &Lock::default()).unwrap_or_default();
    Ok(Place {
        hosts,
        host: there,
        libraries,
    })
}

fn lock(families: Vec<Family>, places: &[Place]) -> Lock {
    let cuda = families.iter().filter_map(|family| family.cuda).max();
    Lock {
        driver: cuda.and_then(|cuda| knowledge().driver_floor(cuda, None)),
        gpus: places
            .iter()
            .flat_map(|place| place.libraries.gpus.iter().copied())
            .collect(),
        families,
    }
}
