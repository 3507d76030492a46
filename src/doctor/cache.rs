//! The cache: its directory, its size, and the directories that are refused for it.

use std::path::{Path, PathBuf};

use super::finding::{Finding, FindingEvidence};
use crate::catalog::Fault;
use crate::host::Host;
use crate::storage::examined_candidates;
use crate::text::{show, size};

/// In bytes: a view and a start take a few thousand, the audit module fifty thousand.
const MIN_FREE: u64 = 1 << 20;

#[derive(Debug, Default)]
pub struct CacheUse {
    /// The first usable directory.
    pub directory: Option<PathBuf>,
    pub starts: usize,
    pub views: usize,
    pub bytes: u64,
}

pub(super) fn examine(host: &Host, findings: &mut Vec<Finding>) -> CacheUse {
    let mut refused = Vec::new();
    let mut usable = None;
    for (path, fitness) in examined_candidates(host) {
        match fitness {
            Ok(()) => {
                usable = Some(path);
                break;
            }
            Err(why) => refused.push(FindingEvidence::Place { path, why }),
        }
    }
    let Some(directory) = usable else {
        findings.push(Finding::new(Fault::NoCache, refused));
        return CacheUse::default();
    };
    if !refused.is_empty() {
        let finding = Finding::new(Fault::CacheRefused, refused);
        findings.push(finding.with("used", show(&directory)));
    }
    if let Some(room) = host.room(&directory) {
        let evidence = vec![FindingEvidence::file(&directory, "")];
        if room.free < MIN_FREE || room.free_files == 0 {
            let finding = Finding::new(Fault::CacheFull, evidence.clone());
            findings.push(finding.with("free", size(room.free)));
        }
        if room.is_noexec {
            findings.push(Finding::new(Fault::CacheNoexec, evidence));
        }
    }
    let mut bytes = 0;
    if host.is_directory(&directory) {
        for path in host.walk(&directory, &|_| false) {
            bytes += host.lstat(&path).map_or(0, |stat| stat.size);
        }
    }
    CacheUse {
        starts: count(host, &directory.join("starts")),
        views: count(host, &directory.join("views")),
        bytes,
        directory: Some(directory),
    }
}

fn count(host: &Host, directory: &Path) -> usize {
    let mut entries = host.list(directory).unwrap_or_default();
    // A name that begins with a dot is an unfinished entry.
    entries.retain(|entry| !entry.name.to_string_lossy().starts_with('.'));
    entries.len()
}
