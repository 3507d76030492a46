//! Whether a program opened a GPU while it ran. The kernel reports every opening of a device file of this machine's, whoever opened
//! it; then the processes are asked which of them has it open. A program that computes keeps it open; others, such as those that
//! measure its load, do not count. A container has device files of its own, which are not watched.

use std::io::{self, PipeReader};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{SysconfVar, sysconf};

use super::devices::open_gpus;
use crate::host::Host;
use crate::launch::start_time;

/// How long a program may run without a GPU before a person is told. Imports and loading data take their time.
pub const PATIENCE: Duration = Duration::from_mins(1);
/// Between two looks at the processes, which may be thousands.
const PAUSE: Duration = Duration::from_millis(200);
/// Who opened a GPU that shortly before the end of the program may have been the program.
const MOMENT: Duration = Duration::from_millis(50);

/// Watches the device files of GPUs from now on.
pub struct DeviceWatch<'h> {
    host: &'h Host,
    events: Inotify,
    /// When it began, as the kernel tells the start of a process.
    began: u64,
}

/// Who has opened a GPU.
#[derive(Clone, Copy, PartialEq)]
enum Opened {
    Nobody,
    /// A process that no longer had it open when it was looked for.
    Somebody(Instant),
    Program,
}

impl DeviceWatch<'_> {
    /// None without a GPU, and where the kernel does not report on each of these files.
    pub fn of<'h>(host: &'h Host, devices: &[PathBuf]) -> Option<DeviceWatch<'h>> {
        if devices.is_empty() {
            return None;
        }
        let events = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).ok()?;
        for device in devices {
            events.add_watch(device, AddWatchFlags::IN_OPEN).ok()?;
        }
        Some(DeviceWatch {
            host,
            events,
            began: now()?,
        })
    }

    /// Runs a program to its end. Calls `tell` once if it runs for longer than `patience` without a GPU. Returns false if it has
    /// opened none.
    pub fn during<T>(
        &self,
        patience: Duration,
        tell: impl FnOnce() + Send,
        run: impl FnOnce() -> T,
    ) -> (T, bool) {
        let Ok((end, running)) = io::pipe() else {
            return (run(), true);
        };
        thread::scope(|scope| {
            let watcher = scope.spawn(move || self.watch(&end, patience, tell));
            let result = run();
            let ended = Instant::now();
            drop(running);
            let is_possible = match watcher.join() {
                Ok(Opened::Nobody) => false,
                Ok(Opened::Somebody(when)) => ended.saturating_duration_since(when) < MOMENT,
                Ok(Opened::Program) | Err(_) => true,
            };
            (result, is_possible || self.is_reported())
        })
    }

    /// Until the program ends, or has opened a GPU.
    fn watch(&self, end: &PipeReader, patience: Duration, tell: impl FnOnce()) -> Opened {
        let deadline = Instant::now() + patience;
        let mut tell = Some(tell);
        let mut opened = Opened::Nobody;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let wait = match &tell {
                Some(_) => PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX),
                None => PollTimeout::NONE,
            };
            let mut both =
                [end.as_fd(), self.events.as_fd()].map(|one| PollFd::new(one, PollFlags::POLLIN));
            // A signal is for the program.
            if poll(&mut both, wait).is_err() {
                continue;
            }
            let [is_over, is_opened] = both.map(|one| one.any().unwrap_or(true));
            if is_over {
                return opened;
            }
            if is_opened && self.is_reported() {
                if self.is_open() {
                    return Opened::Program;
                }
                opened = Opened::Somebody(Instant::now());
                let mut end = [PollFd::new(end.as_fd(), PollFlags::POLLIN)];
                let pause = PollTimeout::try_from(PAUSE).unwrap_or(PollTimeout::ZERO);
                let _ = poll(&mut end, pause);
            } else if left.is_zero()
                && let Some(tell) = tell.take()
            {
                tell();
            }
        }
    }

    /// True if the kernel has reported an opening since the last time that this was asked.
    fn is_reported(&self) -> bool {
        let events = self.events.read_events();
        events.is_ok_and(|events| !events.is_empty())
    }

    /// True if a process that started since then has a GPU open.
    fn is_open(&self) -> bool {
        let host = self.host;
        host.processes().into_iter().any(|pid| {
            started(host, pid).is_some_and(|start| start >= self.began)
                && !open_gpus(host, pid).is_empty()
        })
    }
}

/// The start of a process, in ticks since this machine's.
fn started(host: &Host, pid: u32) -> Option<u64> {
    let stat = host
        .read(&PathBuf::from(format!("/proc/{pid}/stat")))
        .ok()?;
    Some(start_time(&stat))
}

/// The present, in the same unit.
fn now() -> Option<u64> {
    let now = clock_gettime(ClockId::CLOCK_BOOTTIME).ok()?;
    let ticks = u64::try_from(sysconf(SysconfVar::CLK_TCK).ok()??).ok()?;
    let part = 1_000_000_000 / ticks;
    let [seconds, nanoseconds] = [now.tv_sec(), now.tv_nsec()].map(u64::try_from);
    Some(seconds.ok()? * ticks + nanoseconds.ok()? / part)
}
