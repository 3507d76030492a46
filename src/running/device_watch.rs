//! Whether a program opened a GPU while it ran. The kernel reports every opening of a device file of this machine's, whoever opened
//! it; then the processes are asked which of them has it open. A program that computes keeps it open for longer than that takes;
//! what is closed again, as by programs that measure the load, does not count.

use std::io::{self, ErrorKind, PipeReader, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{SysconfVar, sysconf};

use super::process::{open_gpus, parent, start_time};
use crate::host::Host;

/// How long a program may run without a GPU before a person is told. Imports and loading data take their time.
pub const UNUSED_AFTER: Duration = Duration::from_mins(1);
/// Between two looks at the processes, which may be thousands. To make a GPU ready takes twice as long.
const SCAN_INTERVAL: Duration = Duration::from_millis(50);
/// An opening this shortly before the end of the program may have been the program's.
const END_MARGIN: Duration = Duration::from_millis(50);
/// The most generations between this process and one of the program's.
const MAX_GENERATIONS: usize = 64;

/// Watches the device files of GPUs from now on.
pub struct DeviceWatch<'h> {
    host: &'h Host,
    events: Inotify,
    /// When it began, as the kernel tells the start of a process.
    began: u64,
}

/// Who has opened a GPU.
#[derive(Clone, Copy, PartialEq)]
enum Opener {
    Nobody,
    /// A process that no longer had it open when it was looked for.
    Gone(Instant),
    /// A process that may be the program's, or that may not be looked at.
    Unknown,
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

    /// Runs a program to its end, and returns whether it opened a GPU, if that can be told. Calls `tell` once if it runs for longer
    /// than `patience` without.
    pub fn during<T>(
        &self,
        patience: Duration,
        tell: impl FnOnce() + Send,
        run: impl FnOnce() -> T,
    ) -> (T, Option<bool>) {
        let Ok((end, mut running)) = io::pipe() else {
            return (run(), None);
        };
        let end = &end;
        thread::scope(|scope| {
            let watch = move || self.watch(end, patience, tell);
            let watcher = thread::Builder::new().spawn_scoped(scope, watch);
            let result = run();
            let ended = Instant::now();
            // A process that outlives the program may hold this end of the pipe, too, so that to close it tells nothing.
            let _ = running.write_all(b"\n");
            let opener = watcher.ok().and_then(|watcher| watcher.join().ok());
            let has_opened = match opener {
                Some(Opener::Program) => Some(true),
                _ if self.is_reported() => None,
                Some(Opener::Nobody) => Some(false),
                Some(Opener::Gone(when)) if ended.saturating_duration_since(when) >= END_MARGIN => {
                    Some(false)
                }
                _ => None,
            };
            (result, has_opened)
        })
    }

    /// Until the program ends, or has opened a GPU.
    fn watch(&self, end: &PipeReader, patience: Duration, tell: impl FnOnce()) -> Opener {
        let deadline = Instant::now() + patience;
        let mut tell = Some(tell);
        let mut opener = Opener::Nobody;
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
                return opener;
            }
            if is_opened && self.is_reported() {
                match self.opener() {
                    Opener::Program => return Opener::Program,
                    // What could not be told once stays so.
                    _ if opener == Opener::Unknown => {}
                    found => opener = found,
                }
                let mut end = [PollFd::new(end.as_fd(), PollFlags::POLLIN)];
                let pause = PollTimeout::try_from(SCAN_INTERVAL).unwrap_or(PollTimeout::ZERO);
                let _ = poll(&mut end, pause);
            } else if left.is_zero()
                && let Some(tell) = tell.take()
                && opener != Opener::Unknown
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

    /// Who has a GPU open, of the processes that started since.
    fn opener(&self) -> Opener {
        let mut opener = Opener::Gone(Instant::now());
        for pid in self.host.processes() {
            if start_time(self.host, pid).is_none_or(|start| start < self.began) {
                continue;
            }
            match open_gpus(self.host, pid) {
                Ok(gpus) if gpus.is_empty() => {}
                Ok(_) if self.is_of_program(pid) => return Opener::Program,
                Ok(_) => opener = Opener::Unknown,
                Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                    if self.is_of_program(pid) {
                        opener = Opener::Unknown;
                    }
                }
                // It has ended.
                Err(_) => {}
            }
        }
        opener
    }

    /// True for a process below this one.
    fn is_of_program(&self, pid: u32) -> bool {
        let own = std::process::id();
        std::iter::successors(Some(pid), |pid| parent(self.host, *pid))
            .take(MAX_GENERATIONS)
            .any(|ancestor| ancestor == own)
    }
}

/// The present, in ticks since the start of this machine.
fn now() -> Option<u64> {
    let now = clock_gettime(ClockId::CLOCK_BOOTTIME).ok()?;
    let ticks = u64::try_from(sysconf(SysconfVar::CLK_TCK).ok()??).ok()?;
    let part = 1_000_000_000 / ticks;
    let [seconds, nanoseconds] = [now.tv_sec(), now.tv_nsec()].map(u64::try_from);
    Some(seconds.ok()? * ticks + nanoseconds.ok()? / part)
}
