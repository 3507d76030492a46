//! Ends the processes that a proof has left running. Libraries may start processes that leave the child's group and
//! outlive it. They carry the proof's mark in their environment, and this process becomes their parent when their own
//! parent ends. This file touches no other process.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

use nix::sys::prctl::{get_child_subreaper, set_child_subreaper};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{Pid, getpgid, getpgrp};

use super::protocol::MARK;
use crate::host::Host;

/// The time that killed processes get to end.
const DEPARTURE: Duration = Duration::from_secs(1);
const INTERVAL: Duration = Duration::from_millis(1);

pub(super) struct Offspring<'h> {
    host: &'h Host,
    mark: String,
    /// The earlier children of this process. A shell that became cudarun by exec may have started some.
    before: Vec<i32>,
}

/// The number of proofs under way in this process. All share one list of children.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);
/// True if this process was a child subreaper before the first of them.
static WAS_REAPER: AtomicBool = AtomicBool::new(false);

impl<'h> Offspring<'h> {
    /// Makes this process the parent of processes that its children leave behind.
    pub(super) fn expect(host: &'h Host) -> Offspring<'h> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let since = host
            .started
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_nanos();
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        if UNDER_WAY.fetch_add(1, Ordering::SeqCst) == 0 {
            WAS_REAPER.store(get_child_subreaper().unwrap_or(false), Ordering::SeqCst);
        }
        let _ = set_child_subreaper(true);
        let mark = format!("{}-{since}-{count}-", std::process::id());
        Offspring {
            host,
            mark,
            before: children(host),
        }
    }

    /// The value of [`MARK`] in the child's environment.
    pub(super) fn mark(&self) -> &str {
        &self.mark
    }

    /// Ends all marked processes. The child itself must have ended.
    pub(super) fn end(self) {
        end_marked(self.host, &self.before, &self.mark);
        if UNDER_WAY.fetch_sub(1, Ordering::SeqCst) == 1 {
            // Children of the earlier children may have become ours, and may have ended. The child of a proof leads a process
            // group of its own, so one of ours was started by another thread, which waits for it.
            for pid in children(self.host) {
                let pid = Pid::from_raw(pid);
                let is_strange = getpgid(Some(pid)).is_ok_and(|group| group != getpgrp());
                if is_strange && !self.before.contains(&pid.as_raw()) {
                    let _ = waitpid(pid, Some(WaitPidFlag::WNOHANG));
                }
            }
            let _ = set_child_subreaper(WAS_REAPER.load(Ordering::SeqCst));
        }
    }
}

/// Ends the children of the proofs that are under way, before this process becomes the program without their end.
pub fn end_all() {
    if UNDER_WAY.load(Ordering::SeqCst) > 0 {
        end_marked(
            &Host::for_a_glance(),
            &[],
            &format!("{}-", std::process::id()),
        );
        let _ = set_child_subreaper(WAS_REAPER.load(Ordering::SeqCst));
    }
}

/// Ends all processes whose marks begin with `mark`, without the children `before`.
fn end_marked(host: &Host, before: &[i32], mark: &str) {
    let began = Instant::now();
    let mut ours: Vec<i32> = Vec::new();
    while began.elapsed() < DEPARTURE {
        let new = children(host)
            .into_iter()
            .filter(|pid| !before.contains(pid));
        let found: Vec<i32> = new
            .filter(|pid| ours.contains(pid) || is_marked(host, *pid, mark))
            .collect();
        for pid in &found {
            let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL);
            // The program that this process becomes must not inherit it as a zombie.
            let _ = waitpid(Pid::from_raw(*pid), Some(WaitPidFlag::WNOHANG));
        }
        // This process becomes the parent of their children once they have ended.
        if found.is_empty() {
            break;
        }
        ours.extend(found);
        std::thread::sleep(INTERVAL);
    }
}

fn is_marked(host: &Host, pid: i32, mark: &str) -> bool {
    let environment = host
        .read(Path::new(&format!("/proc/{pid}/environ")))
        .unwrap_or_default();
    let mark = format!("{MARK}={mark}");
    environment
        .split(|byte| *byte == 0)
        .any(|variable| variable.starts_with(mark.as_bytes()))
}

/// The children of every thread of this process, as the kernel lists them.
fn children(host: &Host) -> Vec<i32> {
    let tasks = host.list(Path::new("/proc/self/task")).unwrap_or_default();
    let mut children = Vec::new();
    for task in tasks {
        let file = Path::new("/proc/self/task")
            .join(task.name)
            .join("children");
        let text = host.read_text(&file).unwrap_or_default();
        children.extend(
            text.split_whitespace()
                .filter_map(|pid| pid.parse::<i32>().ok()),
        );
    }
    children
}
