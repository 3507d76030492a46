//! The cache: its directory, its size, and the directories that are refused for it.

use std::path::PathBuf;

use super::finding::{Finding, FindingEvidence};
use crate::catalog::Fault;
use crate::host::Host;
use crate::storage::{UnusablePlace, examined_candidates};
use crate::text::{show, size};

/// In bytes: a view and a start take a few thousand, the audit module fifty thousand.
const ENOUGH: u64 = 1 << 20;

#[derive(Debug, Default)]
pub struct CacheUse {
    /// The first usable directory.
    pub directory: Option<PathBuf>,
    pub starts: usize,
    pub views: usize,
    pub bytes: u64,
}

pub(super) fn look(host: &Host) -> (CacheUse, Vec<Finding>) {
    let places = examined_candidates(host);
    let refused = |(path, why): &(PathBuf, Result<(), UnusablePlace>)| {
        let why = why.as_ref().err()?.clone();
        Some(FindingEvidence::Place {
            path: path.clone(),
            why,
        })
    };
    let refused: Vec<FindingEvidence> = places.iter().map_while(refused).collect();
    let used = places
        .iter()
        .find(|(_, why)| why.is_ok())
        .map(|(path, _)| path.clone());
    let Some(used) = used else {
        return (
            CacheUse::default(),
            vec![Finding::new(Fault::NoCache, refused)],
        );
    };
    let mut findings = Vec::new();
    if !refused.is_empty() {
        findings.push(Finding::new(Fault::CacheRefused, refused).with("used", show(&used)));
    }
    if let Some(room) = host.room(&used) {
        let evidence = || vec![FindingEvidence::file(&used, "")];
        if room.free < ENOUGH || room.free_files == 0 {
            let full = Finding::new(Fault::CacheFull, evidence());
            findings.push(full.with("free", size(room.free)));
        }
        if room.is_noexec {
            findings.push(Finding::new(Fault::CacheNoexec, evidence()));
        }
    }
    (kept(host, used), findings)
}

fn kept(host: &Host, directory: PathBuf) -> CacheUse {
    let count = |below: &str| {
        let entries = host.list(&directory.join(below)).unwrap_or_default();
        // A name that begins with a dot is an unfinished entry.
        entries
            .iter()
            .filter(|entry| !entry.name.to_string_lossy().starts_with('.'))
            .count()
    };
    let (starts, views) = (count("starts"), count("views"));
    let size = |path: &PathBuf| host.lstat(path).map_or(0, |stat| stat.size);
    let files = if host.is_directory(&directory) {
        host.walk(&directory, &|_| false)
    } else {
        Vec::new()
    };
    let bytes = files.iter().map(size).sum();
    CacheUse {
        directory: Some(directory),
        starts,
        views,
        bytes,
    }
}
