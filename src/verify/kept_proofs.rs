//! Kept proofs. A proof's name is a digest of all that could falsify it. If many processes start at once, one makes the
//! proof and the others wait for it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::verdict::{OtherFile, Verdict};
use crate::host::Host;
use crate::storage::{self, FileLock};

/// The interval between looks for another process's proof.
const INTERVAL: Duration = Duration::from_millis(10);
/// A failure holds for so many seconds: 64 processes that start at once share it, and a repair is seen soon.
const FAILURE_HOLDS: i64 = 60;
/// A process may have waited so many seconds for another one's proof.
const MAX_PROOF: i64 = 600;

/// The result of [`await_turn`].
#[derive(Debug)]
pub enum AwaitedProof {
    /// Another process has made the proof.
    Known(Box<Verdict>),
    /// This process makes the proof, and others wait while it holds the lock. Without a lock no process waits: no place
    /// for the lock exists, or the proof before could not be kept.
    Ours(Option<File>),
}

/// The verdict that was kept under one of these names, if it still holds. The first name is the proof's own. The
/// others are of deeper proofs, whose failures may concern only their additional steps.
pub fn find(host: &Host, directories: &[PathBuf], names: &[String]) -> Option<Verdict> {
    let (own, deeper) = names.split_first()?;
    if let Some(verdict) = find_one(host, directories, own) {
        return Some(verdict);
    }
    for name in deeper {
        if let Some(verdict @ Verdict::Passed { .. }) = find_one(host, directories, name) {
            return Some(verdict);
        }
    }
    None
}

fn find_one(host: &Host, directories: &[PathBuf], name: &str) -> Option<Verdict> {
    directories
        .iter()
        .find_map(|directory| read(host, directory, name))
}

fn read(host: &Host, directory: &Path, name: &str) -> Option<Verdict> {
    let directory = proofs(directory);
    let bytes = storage::read(host, &directory, name)?;
    let verdict: Verdict = serde_json::from_slice(&bytes).ok()?;
    let holds = match &verdict {
        // The files that are not NVIDIA's are not part of the proof's name.
        Verdict::Passed { proof } => {
            let mut files = proof.finding.other_files.iter();
            files.all(|file| OtherFile::read(host, &file.path()).as_ref() == Some(file))
        }
        Verdict::Failed { .. } => {
            let modified = host.lstat(&directory.join(name)).ok()?.modified.0;
            // Another process may have written it since this one started. A much later time is a wrong clock's.
            (-MAX_PROOF..=FAILURE_HOLDS).contains(&(storage::stamp(host.started).0 - modified))
        }
        Verdict::Skipped { .. } | Verdict::Busy { .. } => false,
    };
    holds.then_some(verdict)
}

/// Keeps a lasting verdict in the first directory that takes it. If it is not kept, an empty file tells the waiting
/// processes.
pub fn keep(host: &Host, directories: &[PathBuf], name: &str, verdict: &Verdict) {
    let is_kept = match verdict {
        Verdict::Passed { .. } => true,
        Verdict::Failed { cause, .. } => !cause.is_transient(),
        Verdict::Skipped { .. } | Verdict::Busy { .. } => false,
    };
    let bytes = serde_json::to_vec(verdict).unwrap_or_default();
    if is_kept && !bytes.is_empty() && write(host, directories, name, &bytes) {
        return;
    }
    if !matches!(verdict, Verdict::Skipped { .. }) {
        write(host, directories, &failed(name), b"");
    }
}

fn write(host: &Host, directories: &[PathBuf], name: &str, bytes: &[u8]) -> bool {
    directories
        .iter()
        .any(|directory| storage::write(host, &proofs(directory), name, bytes))
}

/// Waits until this process holds the lock, another process has kept a verdict under one of these names, or the time is
/// up. The first name is the proof's own.
pub fn await_turn(
    host: &Host,
    directories: &[PathBuf],
    names: &[String],
    limit: Duration,
) -> AwaitedProof {
    let start = Instant::now();
    let Some(name) = names.first() else {
        return AwaitedProof::Ours(None);
    };
    let lock_name = format!("{name}.turn");
    loop {
        if let Some(verdict) = find(host, directories, names) {
            return AwaitedProof::Known(Box::new(verdict));
        }
        // All processes ask in this order, so they ask for the same lock.
        let lock = directories
            .iter()
            .find_map(|directory| storage::lock(host, &proofs(directory), &lock_name).ok());
        match lock {
            Some(FileLock::Held(file)) => {
                // Another process may have kept its verdict before it released the lock.
                return match find(host, directories, names) {
                    Some(verdict) => AwaitedProof::Known(Box::new(verdict)),
                    None if has_failed(host, directories, name) => AwaitedProof::Ours(None),
                    None => AwaitedProof::Ours(Some(file)),
                };
            }
            Some(FileLock::Taken) if start.elapsed() < limit => std::thread::sleep(INTERVAL),
            Some(FileLock::Taken) | None => return AwaitedProof::Ours(None),
        }
    }
}

/// True if another process made a proof since this one started, and could not keep it.
fn has_failed(host: &Host, directories: &[PathBuf], name: &str) -> bool {
    let started = storage::stamp(host.started);
    directories.iter().any(|directory| {
        let stat = host.lstat(&proofs(directory).join(failed(name)));
        stat.is_ok_and(|stat| storage::is_ours(host, &stat) && stat.modified >= started)
    })
}

fn failed(name: &str) -> String {
    format!("{name}.failed")
}

fn proofs(directory: &Path) -> PathBuf {
    directory.join("proofs")
}
