//! Which cudarun the module starts in place of a process, and with which word. Pure. Compiled into the module, which has no
//! standard library, and into the crate.

use core::ffi::CStr;

/// Marks the place for the path of cudarun in the module, and begins it.
pub(crate) const MARKER: &[u8] = b"the path of cudarun:";
/// The length of that place.
pub(crate) const ROOM: usize = 1024;

/// The first argument of a cudarun that replaces a process.
pub(crate) const REPLACES: &CStr = c"--follow-process";
/// The same for a process that nothing is decided for, and that must not inherit all that a cudarun above has set.
pub(crate) const RESTORES: &CStr = c"--restore-process";

/// Who may change a file.
#[derive(Clone, Copy)]
pub(crate) struct Access {
    pub owner: u32,
    pub group: u32,
    pub mode: u32,
}

impl Access {
    /// True if nobody but root and this user can change the file, or what is in the directory. A group with the owner's number
    /// is the owner's alone: the module cannot ask who is in a group.
    pub(crate) fn is_only_for(self, user: u32) -> bool {
        const BY_GROUP: u32 = 0o020;
        const BY_OTHERS: u32 = 0o002;
        const STICKY: u32 = 0o1000;
        const KIND: u32 = 0o170_000;
        const DIRECTORY: u32 = 0o040_000;
        let is_shared =
            self.mode & BY_OTHERS != 0 || self.mode & BY_GROUP != 0 && self.group != self.owner;
        let is_sticky_directory = self.mode & (STICKY | KIND) == STICKY | DIRECTORY;
        (self.owner == 0 || self.owner == user) && (!is_shared || is_sticky_directory)
    }
}
