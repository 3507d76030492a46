//! Whether a GPU was opened while a program ran. The kernel reports every opening of a device file of this machine's, whoever opened
//! it: what nobody opened, the program did not use. A container has device files of its own, which are not watched.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

/// How long a program may run without a GPU before a person is told. Imports and loading data take their time.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Watches the device files of GPUs from now on.
pub struct DeviceWatch {
    events: Inotify,
    was_opened: AtomicBool,
}

impl DeviceWatch {
    /// None without a GPU, and where the kernel does not report on each of these files.
    pub fn of(devices: &[PathBuf]) -> Option<DeviceWatch> {
        if devices.is_empty() {
            return None;
        }
        let events = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).ok()?;
        for device in devices {
            events.add_watch(device, AddWatchFlags::IN_OPEN).ok()?;
        }
        Some(DeviceWatch {
            events,
            was_opened: AtomicBool::new(false),
        })
    }

    /// True if some process has opened a GPU since the watch began.
    pub fn was_opened(&self) -> bool {
        if !matches!(self.events.read_events(), Err(Errno::EAGAIN)) {
            self.was_opened.store(true, Ordering::Relaxed);
        }
        self.was_opened.load(Ordering::Relaxed)
    }

    /// Runs a program to its end. Calls `tell` once if it runs for longer than `patience` and no process has opened a GPU.
    pub fn during<T>(
        watch: Option<&DeviceWatch>,
        patience: Duration,
        tell: impl FnOnce() + Send,
        run: impl FnOnce() -> T,
    ) -> T {
        let (ended, end) = mpsc::channel::<()>();
        thread::scope(|scope| {
            if let Some(watch) = watch {
                scope.spawn(move || {
                    let waited = end.recv_timeout(patience);
                    if waited == Err(RecvTimeoutError::Timeout) && !watch.was_opened() {
                        tell();
                    }
                });
            }
            let result = run();
            drop(ended);
            result
        })
    }
}
