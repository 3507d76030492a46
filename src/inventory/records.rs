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
    look: &mut ScanContext<'_>,
    files: &[PathBuf],
    limit: u64,
    parse: impl Fn(&[u8]) -> Result<ListedLibraries, ReadFault> + Sync,
) -> Vec<ListedLibraries> {
    let (host, known) = (look.host, &*look.known);
    let read = parallel::map(files, |file| {
        let stat = host.stat(file).ok()?;
        if let Some(libraries) = known.records.get(&stat) {
            return Some((Ok(libraries), None));
        }
        if stat.size > limit {
            let what = format!("{} bytes are too many", stat.size);
            return Some((Err(ReadFault::BadRecord { what }), None));
        }
        Some((parse(&host.read(file).ok()?), Some(stat)))
    });
    let mut all = Vec::with_capacity(files.len());
    for (file, read) in files.iter().zip(read) {
        let (libraries, new) = read.unwrap_or_else(|| (Ok(ListedLibraries::new()), None));
        let new = new.filter(|stat| look.known.is_settled(stat));
        match (&libraries, new) {
            (Ok(libraries), Some(stat)) => look.known.records.insert(&stat, libraries),
            (Ok(_), None) => {}
            (Err(fault), _) => look.warn(file, fault.clone()),
        }
        all.push(libraries.unwrap_or_default());
    }
    all
}

/// True for the path or the name of a library of a known family.
pub fn is_library(path: &str) -> bool {
    path.rsplit('/')
        .next()
        .is_some_and(directory_scan::is_of_interest)
}
