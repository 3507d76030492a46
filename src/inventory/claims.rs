//! Files that several Python distributions claim: one of them has overwritten the other's.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::directory_scan::Candidate;
use super::location::{Claimants, Packaged, SearchLocation};
use super::model::Problem;
use crate::formats::metadata;
use crate::host::Host;

/// The entry for one file in a distribution's `RECORD`.
pub(super) struct Claim<'r> {
    /// The distribution's `.dist-info` directory.
    pub directory: PathBuf,
    /// The file as its `RECORD` has it.
    pub name: &'r str,
    pub packaged: Packaged,
}

/// Returns the files, by path, of which these claims differ. Packages may bring equal files.
pub(super) fn differing(
    host: &Host,
    site: &Path,
    mut claims: BTreeMap<PathBuf, Vec<Claim<'_>>>,
) -> BTreeMap<PathBuf, Claimants> {
    claims.retain(|_, claims| claims.len() > 1 && differ(host, claims));
    let required = if claims.is_empty() {
        BTreeSet::new()
    } else {
        required_in(host, site)
    };
    let is_required =
        |packaged: &&Packaged| required.contains(packaged.package.split(' ').next().unwrap_or(""));
    let claimants = |claims: Vec<Claim<'_>>| {
        let packages: Vec<Packaged> = claims.into_iter().map(|claim| claim.packaged).collect();
        let needed =
            only(packages.iter().filter(is_required)).map(|packaged| packaged.package.clone());
        Claimants { packages, needed }
    };
    claims
        .into_iter()
        .map(|(path, claims)| (path, claimants(claims)))
        .collect()
}

/// Different sizes are enough. Otherwise the hashes in the records decide; the file itself is not hashed.
fn differ(host: &Host, claims: &[Claim<'_>]) -> bool {
    let sizes: BTreeSet<u64> = claims
        .iter()
        .filter_map(|claim| claim.packaged.size)
        .collect();
    let hash = |claim: &Claim<'_>| {
        let record = host.read(&claim.directory.join("RECORD")).ok()?;
        metadata::recorded_hash(&record, claim.name).map(str::to_owned)
    };
    sizes.len() > 1
        || claims
            .iter()
            .filter_map(hash)
            .collect::<BTreeSet<_>>()
            .len()
            > 1
}

/// The distributions that others in this directory require.
fn required_in(host: &Host, site: &Path) -> BTreeSet<String> {
    let entries = host.list(site).unwrap_or_default();
    let read = |name| host.read_text(&site.join(name).join("METADATA")).ok();
    let texts = entries.iter().filter_map(|entry| read(&entry.name));
    let requires = texts.flat_map(|text| metadata::requirements(&text));
    requires
        .filter(|requires| !requires.optional)
        .map(|requires| requires.name)
        .collect()
}

fn only<T>(mut items: impl Iterator<Item = T>) -> Option<T> {
    let first = items.next();
    first.filter(|_| items.next().is_none())
}

/// Returns the records of the place's files, each by the package whose file it is, and the problems of those that two
/// packages claim. A file that could be either package's has no record: it is what its bytes say.
pub(super) fn settle(
    place: &SearchLocation,
    candidates: &[Candidate],
) -> (BTreeMap<String, Packaged>, Vec<Problem>) {
    let mut packaged = place.packaged.clone();
    let mut problems: BTreeMap<Vec<String>, Problem> = BTreeMap::new();
    let files = candidates
        .iter()
        .flat_map(|one| one.names.iter().map(|name| (name, one.stat.size)));
    for (file, size) in files {
        let Some(Claimants { packages, needed }) = place.claimed.get(file) else {
            continue;
        };
        let holder = only(
            packages
                .iter()
                .filter(|packaged| packaged.size.is_none_or(|own| own == size)),
        );
        match holder {
            Some(holder) => packaged.insert(file.clone(), holder.clone()),
            None => packaged.remove(file),
        };
        let holder = holder.map(|holder| holder.package.clone());
        let mut packages: Vec<String> = packages
            .iter()
            .map(|packaged| packaged.package.clone())
            .collect();
        packages.sort();
        let problem = problems
            .entry(packages.clone())
            .or_insert_with(|| Problem::ClaimedTwice {
                files: Vec::new(),
                packages,
                holds: holder.clone(),
                needed: needed.clone(),
            });
        if let Problem::ClaimedTwice { files, holds, .. } = problem {
            files.push(file.clone());
            *holds = holds.take().filter(|holds| Some(holds) == holder.as_ref());
        }
    }
    (packaged, problems.into_values().collect())
}
