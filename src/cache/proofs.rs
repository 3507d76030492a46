//! Proofs that were made, and whose turn it is to make one: of many processes that start at once one proves, and the
//! others wait for it. A proof is kept under a name for all that could falsify it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::host::Host;
use crate::private;

/// How long until it is asked again whether another process has proved it.
const GLANCE: Duration = Duration::from_millis(10);

/// What a process that wants to prove a set is to do.
#[derive(Debug)]
pub enum Turn {
    /// Another has proved it meanwhile.
    Proved,
    /// It is this one's; others wait for as long as it is held. Without one nobody waits: there is no place for it, or the
    /// one before has failed, and every process is to say why by itself.
    Ours(Option<private::Turn>),
}

/// Whether a proof of this name was kept.
pub fn has(host: &Host, directories: &[PathBuf], name: &str) -> bool {
    directories.iter().any(|directory| private::read(host, &proofs(directory), name).is_some())
}

/// Keeps a proof in the first place that takes it.
pub fn keep(host: &Host, directories: &[PathBuf], name: &str) {
    directories.iter().any(|directory| private::write(host, &proofs(directory), name, b"passed\n"));
}

/// Tells those who wait that there will be none.
pub fn give_up(host: &Host, directories: &[PathBuf], name: &str) {
    directories.iter().any(|directory| private::write(host, &proofs(directory), &failed(name), b"failed\n"));
}

/// Waits until it is this process's turn, another has proved it, or the time is up.
pub fn await_turn(host: &Host, directories: &[PathBuf], name: &str, limit: Duration) -> Turn {
    let began = Instant::now();
    loop {
        if has(host, directories, name) {
            return Turn::Proved;
        }
        match turn(host, directories, name) {
            // Between the look and the turn another may have come to its end.
            Got::It(_) if has(host, directories, name) => return Turn::Proved,
            Got::It(_) if has_failed(host, directories, name) => return Turn::Ours(None),
            Got::It(turn) => return Turn::Ours(Some(turn)),
            Got::Busy if began.elapsed() < limit => std::thread::sleep(GLANCE),
            Got::Busy | Got::NoPlace => return Turn::Ours(None),
        }
    }
}

/// What came of asking for a turn.
enum Got {
    It(private::Turn),
    /// Another process has it.
    Busy,
    NoPlace,
}

/// In the first place where there can be one; all who wait look at the same places.
fn turn(host: &Host, directories: &[PathBuf], name: &str) -> Got {
    let name = format!("{name}.turn");
    let asked = directories.iter().find_map(|directory| private::turn(host, &proofs(directory), &name).ok());
    match asked {
        Some(Some(turn)) => Got::It(turn),
        Some(None) => Got::Busy,
        None => Got::NoPlace,
    }
}

/// Whether one has failed since this process started.
fn has_failed(host: &Host, directories: &[PathBuf], name: &str) -> bool {
    let started = super::stamp(host.started);
    directories.iter().any(|directory| {
        let stat = host.lstat(&proofs(directory).join(failed(name)));
        stat.is_ok_and(|stat| private::is_ours(host, &stat) && stat.modified >= started)
    })
}

fn failed(name: &str) -> String {
    format!("{name}.failed")
}

fn proofs(directory: &Path) -> PathBuf {
    directory.join("proofs")
}
