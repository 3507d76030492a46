//! Packages' lists of files: a `RECORD` of Python or a record of conda. Each is read again only after it changed.

use std::path::PathBuf;

use super::directory_scan;
use super::location::ScanContext;
use super::warning::ReadFault;
use crate::parallel;

/// The libraries in a list, with their sizes in bytes if it has them.
pub(super) type ListedLibraries = Vec<(String, Option<u64>)>;

/// Returns the libraries of each list; none if the file is missing. Warns of one with more than `limit` bytes, and of one
/// that `parse` fails on.
pub(super) fn libraries(
    scan: &mut ScanContext<'_>,
    files: &[PathBuf],
    limit: u64,
    parse: impl Fn(&[u8]) -> Result<ListedLibraries, ReadFault> + Sync,
) -> Vec<ListedLibraries> {
    let (host, cache) = (scan.host, &*scan.cache);
    let answers = parallel::map(files, |file| {
        let stat = host.stat(file).ok()?;
        if let Some(libraries) = cache.records.get(&stat) {
            return Some((Ok(libraries), None));
        }
        if stat.size > limit {
            let what = format!("{} bytes are too many", stat.size);
            return Some((Err(ReadFault::BadRecord { what }), None));
        }
        Some((parse(&host.read(file).ok()?), Some(stat)))
    });
    let mut all = Vec::with_capacity(files.len());
    for (file, answer) in files.iter().zip(answers) {
        let libraries = match answer {
            Some((Ok(libraries), new)) => {
                if let Some(stat) = new.filter(|stat| scan.cache.is_settled(stat)) {
                    scan.cache.records.insert(&stat, &libraries);
                }
                libraries
            }
            Some((Err(fault), _)) => {
                scan.warn(file, fault);
                ListedLibraries::new()
            }
            None => ListedLibraries::new(),
        };
        all.push(libraries);
    }
    all
}

/// True for the path or the name of a library of a known family.
pub fn is_library(path: &str) -> bool {
    path.rsplit('/')
        .next()
        .is_some_and(directory_scan::is_of_interest)
}
