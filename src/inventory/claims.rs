//! Files that several Python distributions claim: one of them has overwritten the other's.

use std::collections::{BTreeMap, BTreeSet};

use super::directory_scan::Candidate;
use super::location::{Packaged, SearchLocation};
use super::model::Problem;

/// True if packages brought different files. Equal sizes count as equal files: no file is hashed.
pub(super) fn differ(claims: &[Packaged]) -> bool {
    let sizes: BTreeSet<u64> = claims.iter().filter_map(|claim| claim.size).collect();
    sizes.len() > 1
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
        let Some(claims) = place.claimed.get(file) else {
            continue;
        };
        let mut holders = claims
            .iter()
            .filter(|claim| claim.size.is_none_or(|own| own == size));
        let holder = holders.next().filter(|_| holders.next().is_none());
        match holder {
            Some(holder) => packaged.insert(file.clone(), holder.clone()),
            None => packaged.remove(file),
        };
        let holder = holder.map(|holder| holder.package.clone());
        let mut packages: Vec<String> = claims.iter().map(|claim| claim.package.clone()).collect();
        packages.sort();
        let problem = problems
            .entry(packages.clone())
            .or_insert_with(|| Problem::ClaimedTwice {
                files: Vec::new(),
                packages,
                holds: holder.clone(),
            });
        if let Problem::ClaimedTwice { files, holds, .. } = problem {
            files.push(file.clone());
            *holds = holds.take().filter(|holds| Some(holds) == holder.as_ref());
        }
    }
    (packaged, problems.into_values().collect())
}
