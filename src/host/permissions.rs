//! Permissions of the user, and the free space of file systems.

use std::path::Path;

use nix::unistd::{AccessFlags, access};

use super::Host;

/// The free space of a file system.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Bytes.
    pub free: u64,
    pub free_files: u64,
    /// True if the file system is mounted noexec: nothing on it can be mapped as code.
    pub is_noexec: bool,
}

impl Host {
    /// True if this user may read and write a device. On another machine the user is unknown, so the mode for others
    /// counts. The device is not opened, since that may wake it up.
    pub fn may_use(&self, path: &Path) -> bool {
        self.count();
        if self.root.is_some() {
            return self.stat(path).is_ok_and(|stat| stat.mode & 0o004 != 0);
        }
        access(path, AccessFlags::R_OK | AccessFlags::W_OK).is_ok()
    }

    /// True if this user may write to a file or a directory. On another machine, the user may write nothing.
    pub fn may_write(&self, path: &Path) -> bool {
        self.count();
        self.root.is_none() && access(path, AccessFlags::W_OK).is_ok()
    }

    /// The free space of the file system that holds a path, or its nearest existing ancestor. `None` on another machine.
    pub fn room(&self, path: &Path) -> Option<Room> {
        self.count();
        if self.root.is_some() {
            return None;
        }
        let system = path
            .ancestors()
            .find_map(|above| rustix::fs::statvfs(above).ok())?;
        Some(Room {
            free: system.f_bavail.saturating_mul(system.f_frsize),
            // Some file systems do not count files.
            free_files: if system.f_files == 0 {
                u64::MAX
            } else {
                system.f_favail
            },
            is_noexec: system
                .f_flag
                .contains(rustix::fs::StatVfsMountFlags::NOEXEC),
        })
    }
}
