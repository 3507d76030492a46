//! Whether a GPU was opened while a program ran. The kernel reports every opening of a device file, whoever opened it: what nobody
//! opened, the program did not use.

use std::path::PathBuf;

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

/// Watches the device files of GPUs from now on.
pub struct DeviceWatch {
    opened: Inotify,
}

impl DeviceWatch {
    /// None without a GPU, and where the kernel does not report on each of these files.
    pub fn of(devices: &[PathBuf]) -> Option<DeviceWatch> {
        if devices.is_empty() {
            return None;
        }
        let opened = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).ok()?;
        for device in devices {
            opened.add_watch(device, AddWatchFlags::IN_OPEN).ok()?;
        }
        Some(DeviceWatch { opened })
    }

    /// True if some process has opened a GPU since the watch began.
    pub fn was_opened(&self) -> bool {
        !matches!(self.opened.read_events(), Err(Errno::EAGAIN))
    }
}
