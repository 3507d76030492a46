//! Metadata of a file.

use std::io;

use nix::sys::stat::{FileStat, SFlag};
use serde::{Deserialize, Serialize};

/// Files that are read whole are text and small tables; a larger one is not what it says it is. In bytes.
pub(super) const READ_LIMIT: u64 = 64 << 20;

/// Identifies a file. Two names with one identity are one file to the loader.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct FileId {
    pub device: u64,
    pub inode: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    File,
    Directory,
    Link,
    /// A fifo, a socket, a device: never opened.
    Other,
}

#[derive(Clone, Copy, Debug)]
pub struct Stat {
    pub kind: FileKind,
    pub id: FileId,
    pub size: u64,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// Seconds and nanoseconds.
    pub modified: (i64, i64),
    pub changed: (i64, i64),
}

impl Stat {
    pub fn is_file(&self) -> bool {
        self.kind == FileKind::File
    }

    pub fn is_directory(&self) -> bool {
        self.kind == FileKind::Directory
    }

    /// Writable by everybody, and not a directory whose sticky bit keeps strangers from its files.
    pub fn is_world_writable(&self) -> bool {
        self.mode & 0o002 != 0 && !(self.is_directory() && self.mode & 0o1000 != 0)
    }
}

impl From<FileStat> for Stat {
    fn from(stat: FileStat) -> Stat {
        let kind = match SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT {
            SFlag::S_IFREG => FileKind::File,
            SFlag::S_IFDIR => FileKind::Directory,
            SFlag::S_IFLNK => FileKind::Link,
            _ => FileKind::Other,
        };
        Stat {
            kind,
            id: FileId {
                device: stat.st_dev,
                inode: stat.st_ino,
            },
            size: u64::try_from(stat.st_size).unwrap_or(0),
            mode: stat.st_mode,
            uid: stat.st_uid,
            gid: stat.st_gid,
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }
}

pub(super) fn not_regular() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")
}
