//! Proofs that were made, and whose turn it is to make one: of many processes that start at once one proves, and the
//! others wait for it. A proof is kept under a name for all that could falsify it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{Beside, Proof, Verdict};
use crate::host::Host;
use crate::storage;

/// How long until it is asked again whether another process has proved it.
const GLANCE: Duration = Duration::from_millis(10);
/// How long a failure is believed: what is mended is to work at once, and 64 processes need not find out one by one.
const FAILURE_HOLDS: Duration = Duration::from_mins(1);
/// How long a process may have waited for another one's proof.
const LONGEST_PROOF: Duration = Duration::from_mins(10);

/// What a process that wants to prove a set is to do.
#[derive(Debug)]
pub enum Turn {
    /// Another has found out meanwhile, or long ago.
    Known(KeptVerdict),
    /// It is this one's; others wait for as long as it is held. Without one nobody waits: there is no place for it, or the
    /// one before came to nothing that could be kept, and every process is to say why by itself.
    Ours(Option<storage::Lock>),
}

/// A verdict that was kept.
#[derive(Debug, PartialEq)]
pub enum KeptVerdict {
    Verdict(Box<Verdict>),
    /// It passed, and there was no room to keep what was found.
    Passed,
}

/// The verdict that was kept under one of these names, if it still holds. The first is the one that it is about; of those
/// that show more, a failure may be of what is not asked for.
pub fn find(host: &Host, directories: &[PathBuf], names: &[String]) -> Option<KeptVerdict> {
    let under = |name: &String| directories.iter().find_map(|directory| read(host, directory, name));
    let (own, others) = names.split_first()?;
    under(own).or_else(|| others.iter().filter_map(under).find(KeptVerdict::is_pass))
}

fn read(host: &Host, directory: &Path, name: &str) -> Option<KeptVerdict> {
    let directory = proofs(directory);
    let bytes = storage::read(host, &directory, name)?;
    if bytes.is_empty() {
        return Some(KeptVerdict::Passed);
    }
    let verdict: Verdict = serde_json::from_slice(&bytes).ok()?;
    match &verdict {
        Verdict::Passed { proof } if !rests_on_the_same(host, proof) => return None,
        Verdict::Passed { .. } => {}
        Verdict::Failed { .. } => {
            let since = host.lstat(&directory.join(name)).ok()?.modified;
            // What was found out since this process started is newer than that. What is much newer is of a clock that
            // went wrong.
            let age = storage::stamp(host.started).0 - since.0;
            let holds = |limit: Duration| i64::try_from(limit.as_secs()).unwrap_or(0);
            if age > holds(FAILURE_HOLDS) || age < -holds(LONGEST_PROOF) {
                return None;
            }
        }
        Verdict::Skipped { .. } | Verdict::Busy { .. } => return None,
    }
    Some(KeptVerdict::Verdict(Box::new(verdict)))
}

/// Whether the files that were mapped besides look as they did: what libraries are linked against is not theirs.
fn rests_on_the_same(host: &Host, proof: &Proof) -> bool {
    let is_same = |file: &Beside| Beside::look(host, &file.path()).is_some_and(|now| now == *file);
    proof.finding.beside.iter().all(is_same)
}

impl KeptVerdict {
    fn is_pass(&self) -> bool {
        match self {
            KeptVerdict::Verdict(verdict) => matches!(**verdict, Verdict::Passed { .. }),
            KeptVerdict::Passed => true,
        }
    }
}

/// Keeps a verdict in the first place that takes it, if it is one that will hold. That something passed can be kept even
/// where there is no room. Those who wait are told where nothing is kept.
pub fn keep(host: &Host, directories: &[PathBuf], name: &str, verdict: &Verdict) {
    let is_kept = match verdict {
        Verdict::Passed { .. } => true,
        Verdict::Failed { cause, .. } => !cause.kind.is_passing(),
        Verdict::Skipped { .. } | Verdict::Busy { .. } => false,
    };
    let places = || directories.iter().map(|directory| proofs(directory));
    let bytes = serde_json::to_vec(verdict).unwrap_or_default();
    if is_kept && !bytes.is_empty() && places().any(|place| storage::write(host, &place, name, &bytes)) {
        return;
    }
    if matches!(verdict, Verdict::Passed { .. })
        && places().any(|place| storage::write(host, &place, name, b""))
    {
        return;
    }
    if !matches!(verdict, Verdict::Skipped { .. }) {
        places().any(|place| storage::write(host, &place, &failed(name), b""));
    }
}

/// Waits until it is this process's turn, another has found out, or the time is up. The verdict may be kept under any of
/// these names; the first is the one that it is about.
pub fn await_turn(host: &Host, directories: &[PathBuf], names: &[String], limit: Duration) -> Turn {
    let began = Instant::now();
    let Some(name) = names.first() else { return Turn::Ours(None) };
    loop {
        if let Some(known) = find(host, directories, names) {
            return Turn::Known(known);
        }
        match turn(host, directories, name) {
            Got::It(turn) => {
                // Between the look and the turn another may have come to its end.
                return match find(host, directories, names) {
                    Some(known) => Turn::Known(known),
                    None if has_failed(host, directories, name) => Turn::Ours(None),
                    None => Turn::Ours(Some(turn)),
                };
            }
            Got::Busy if began.elapsed() < limit => std::thread::sleep(GLANCE),
            Got::Busy | Got::NoPlace => return Turn::Ours(None),
        }
    }
}

/// What came of asking for a turn.
enum Got {
    It(storage::Lock),
    /// Another process has it.
    Busy,
    NoPlace,
}

/// In the first place where there can be one; all who wait look at the same places.
fn turn(host: &Host, directories: &[PathBuf], name: &str) -> Got {
    let name = format!("{name}.turn");
    let asked = directories.iter().find_map(|directory| storage::lock(host, &proofs(directory), &name).ok());
    match asked {
        Some(Some(turn)) => Got::It(turn),
        Some(None) => Got::Busy,
        None => Got::NoPlace,
    }
}

/// Whether one came to nothing since this process started.
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
