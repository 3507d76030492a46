//! What a user may do here without trying it: with devices, and with what a file system has left.

use std::path::Path;

use super::Host;

/// What a file system has left, in bytes and in files.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    pub free: u64,
    pub free_files: u64,
    /// Nothing on it can be mapped as code.
    pub is_noexec: bool,
}

impl Host {
    /// Whether this user may read a device and write to it. Of another machine, what everybody may do counts: who will
    /// be asking there is not known. Devices are not opened, which does something to them.
    pub fn may_use(&self, path: &Path) -> bool {
        self.count();
        if self.root.is_some() {
            return self.stat(path).is_ok_and(|stat| stat.mode & 0o004 != 0);
        }
        let both = nix::unistd::AccessFlags::R_OK | nix::unistd::AccessFlags::W_OK;
        nix::unistd::access(path, both).is_ok()
    }

    /// The same for whoever is looking, under whatever root.
    pub fn may_use_here(&self, path: &Path) -> bool {
        let both = nix::unistd::AccessFlags::R_OK | nix::unistd::AccessFlags::W_OK;
        let is_described = self.kept.is_some();
        let may = |real| nix::unistd::access(&real, both).is_ok();
        if is_described { self.may_use(path) } else { self.real(path, true).is_ok_and(may) }
    }

    /// Tells whether this user may write to a file or a directory. On another machine, the user may write nothing.
    pub fn may_write(&self, path: &Path) -> bool {
        self.count();
        self.root.is_none() && nix::unistd::access(path, nix::unistd::AccessFlags::W_OK).is_ok()
    }

    /// What the file system of a path, or of the nearest one above that is there, has left; unknown of another machine.
    pub fn room(&self, path: &Path) -> Option<Room> {
        self.count();
        let here = path.ancestors().filter(|_| self.root.is_none());
        let system = here.into_iter().find_map(|above| rustix::fs::statvfs(above).ok())?;
        Some(Room {
            free: system.f_bavail.saturating_mul(system.f_frsize),
            // Where files are not counted, there is always one more.
            free_files: if system.f_files == 0 { u64::MAX } else { system.f_favail },
            is_noexec: system.f_flag.contains(rustix::fs::StatVfsMountFlags::NOEXEC),
        })
    }
}
