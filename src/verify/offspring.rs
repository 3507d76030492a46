//! What a proof has left running: libraries may start processes that leave the child's group and outlive it. They carry
//! the proof's mark in their environment, and come to us when their parent ends. Must touch no other process.

use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

use nix::sys::prctl::{get_child_subreaper, set_child_subreaper};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use super::protocol::MARK;
use crate::host::Host;

/// How long what was killed may take to go.
const DEPARTURE: Duration = Duration::from_secs(1);
const GLANCE: Duration = Duration::from_millis(1);

pub(super) struct Offspring<'h> {
    host: &'h Host,
    mark: String,
    /// The children of this process before, which are its starter's: a shell may have become us.
    before: Vec<i32>,
    /// Whether what our children leave has come to us before.
    was_reaper: bool,
}

/// How many proofs are under way in this process: what their children leave comes to all of it.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);

impl<'h> Offspring<'h> {
    /// From now on, what a child leaves behind comes to this process.
    pub(super) fn expect(host: &'h Host) -> Offspring<'h> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let since = host.started.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        UNDER_WAY.fetch_add(1, Ordering::SeqCst);
        let was_reaper = get_child_subreaper().unwrap_or(false);
        let _ = set_child_subreaper(true);
        let mark = format!("{}-{since}-{count}", std::process::id());
        Offspring { host, mark, before: children(host), was_reaper }
    }

    /// The value of [`MARK`] in the child's environment.
    pub(super) fn mark(&self) -> &str {
        &self.mark
    }

    /// Ends all of it. The child itself has ended.
    pub(super) fn end(self) {
        let began = Instant::now();
        let mut ours: Vec<i32> = Vec::new();
        while began.elapsed() < DEPARTURE {
            let new = children(self.host).into_iter().filter(|pid| !self.before.contains(pid));
            let found: Vec<i32> = new.filter(|pid| ours.contains(pid) || self.is_marked(*pid)).collect();
            for pid in &found {
                let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL);
                // It must not be left to the program that this process becomes.
                let _ = waitpid(Pid::from_raw(*pid), Some(WaitPidFlag::WNOHANG));
            }
            // What one of them has started comes to us when it is gone.
            if found.is_empty() {
                break;
            }
            ours.extend(found);
            std::thread::sleep(GLANCE);
        }
        if UNDER_WAY.fetch_sub(1, Ordering::SeqCst) == 1 {
            // What the starter's own children have left has come to us as well, and may have ended.
            for pid in children(self.host).into_iter().filter(|pid| !self.before.contains(pid)) {
                let _ = waitpid(Pid::from_raw(pid), Some(WaitPidFlag::WNOHANG));
            }
            let _ = set_child_subreaper(self.was_reaper);
        }
    }

    fn is_marked(&self, pid: i32) -> bool {
        let file = format!("/proc/{pid}/environ");
        let environment = self.host.read(Path::new(&file)).unwrap_or_default();
        let mark = format!("{MARK}={}", self.mark);
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    }
}

/// The children of every thread of this process, as the kernel lists them.
fn children(host: &Host) -> Vec<i32> {
    let tasks = host.list(Path::new("/proc/self/task")).unwrap_or_default();
    let of_task = |task: &crate::host::Entry| {
        let file = Path::new("/proc/self/task").join(&task.name).join("children");
        let text = host.read_text(&file).unwrap_or_default();
        text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>()
    };
    tasks.iter().flat_map(of_task).collect()
}
