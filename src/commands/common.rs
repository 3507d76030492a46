//! One lock that holds on every machine of a fleet, or the library for which there is none.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::Path;

use super::examined::examine;
use super::sets::{are_same, picks};
use super::{in_image, unusable};
use crate::catalog::knowledge;
use crate::cli::Common;
use crate::error::Error;
use crate::fleet::{Group, host_list};
use crate::host::Host;
use crate::inventory::Inventory;
use crate::machine::Machine;
use crate::report::NoCommonLock;
use crate::settings::lock::{Family, Lock};
use crate::version::{ComputeCapability, Version};

/// Rounds in which another version of a library is tried on all machines.
const ROUNDS: usize = 24;

/// A machine that is the same as some others, and what a program gets there.
struct Place {
    hosts: String,
    host: Host,
    versions: BTreeMap<String, BTreeSet<Version>>,
    gpus: BTreeSet<ComputeCapability>,
}

/// Finds the set for a program that every machine has: the first machine's best one, in which another version replaces each that
/// is not everywhere.
pub(super) fn common_lock(
    host: &Host,
    common: &Common,
    groups: &[&Group],
    words: &[OsString],
) -> Result<Result<Lock, NoCommonLock>, Error> {
    let mut places = Vec::new();
    for group in groups {
        places.push(place(host, common, group)?);
    }
    let Some(first) = places.first() else { return Ok(Err(NoCommonLock { family: None, on: Vec::new() })) };
    let mut fixed: BTreeMap<String, Version> = BTreeMap::new();
    let mut tried: BTreeMap<String, BTreeSet<Version>> = BTreeMap::new();
    for _ in 0..ROUNDS {
        let refuses = |place: &Place| {
            let on = vec![(place.hosts.clone(), "refuses".to_owned())];
            NoCommonLock { family: None, on }
        };
        let Some(set) = picks(&first.host, common, words, &fixed)? else { return Ok(Err(refuses(first))) };
        let wanted: BTreeMap<String, Version> =
            set.iter().filter_map(|one| Some((one.name.clone(), one.version?))).collect();
        let mut refusing = None;
        for place in &places[1..] {
            let own = picks(&place.host, common, words, &wanted)?;
            if own.is_none_or(|own| !are_same(&own, &set)) {
                refusing = Some(place);
                break;
            }
        }
        let Some(place) = refusing else { return Ok(Ok(lock(set, &places))) };
        let is_lacking = |(family, version): &(&String, &Version)| {
            !place.versions.get(*family).is_some_and(|own| own.contains(version))
        };
        let Some((family, version)) = wanted.iter().find(is_lacking) else { return Ok(Err(refuses(place))) };
        let tried = tried.entry(family.clone()).or_default();
        tried.insert(*version);
        let of = |place: &Place| place.versions.get(family).cloned().unwrap_or_default();
        let everywhere = places.iter().map(of).reduce(|all, own| all.intersection(&own).copied().collect());
        match everywhere.unwrap_or_default().into_iter().rfind(|version| !tried.contains(version)) {
            Some(version) => _ = fixed.insert(family.clone(), version),
            None => {
                let text = |versions: BTreeSet<Version>| {
                    let words: Vec<String> = versions.iter().map(ToString::to_string).collect();
                    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
                };
                let on = places.iter().map(|place| (place.hosts.clone(), text(of(place)))).collect();
                return Ok(Err(NoCommonLock { family: Some(family.clone()), on }));
            }
        }
    }
    Ok(Err(NoCommonLock { family: None, on: Vec::new() }))
}

fn place(host: &Host, common: &Common, group: &Group) -> Result<Place, Error> {
    let path: &Path = &group.machines[0].path;
    let machine = Machine::read(host, path).map_err(|fault| unusable(path, fault.0))?;
    let node = machine.host().map_err(|error| unusable(path, error.to_string()))?;
    let there = in_image(host, common, node)?;
    let (_, inventory) = examine(&there, common)?;
    let mut versions: BTreeMap<String, BTreeSet<Version>> = BTreeMap::new();
    for one in &inventory.installations {
        versions.entry(one.family.clone()).or_default().extend(one.version);
    }
    let hosts = host_list(group.machines.iter().map(|one| one.name.as_str()));
    Ok(Place { hosts, gpus: gpus(&inventory), versions, host: there })
}

fn gpus(inventory: &Inventory) -> BTreeSet<ComputeCapability> {
    inventory.gpus.iter().filter_map(|gpu| gpu.capability).collect()
}

fn lock(families: Vec<Family>, places: &[Place]) -> Lock {
    let cuda = families.iter().filter_map(|family| family.cuda).max();
    Lock {
        driver: cuda.and_then(|cuda| knowledge().driver_floor(cuda, None)),
        gpus: places.iter().flat_map(|place| place.gpus.iter().copied()).collect(),
        families,
    }
}
