//! Directories: their real paths, their entries, and all that is below them.

use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::errno::Errno;
use nix::sys::stat::lstat;
use rustix::fs::{FileType, Mode, OFlags, RawDir};

use super::stat::{FileKind, Stat};
use crate::parallel;

/// Deeper than any package; stops at what a loop of bind mounts would make.
const WALK_DEPTH: usize = 24;
/// Bytes of a directory that are read at once.
const LISTING: usize = 32 << 10;
/// As many links as Linux follows in one path.
pub(super) const LINK_LIMIT: u32 = 40;
/// Deeper than any path in use.
const PATH_DEPTH: usize = 128;

#[derive(Clone, Debug)]
pub struct DirectoryEntry {
    pub name: OsString,
    pub kind: FileKind,
}

/// Answers that are given again without another question to the system. A decision is kept only if nothing that it was read
/// from has changed since the run began.
#[derive(Default)]
pub(super) struct DirectoryCache {
    listings: Mutex<HashMap<OsString, Listing>>,
    /// The real paths of directories.
    real: Mutex<HashMap<OsString, PathBuf>>,
}

/// None where the directory cannot be listed.
type Listing = Option<Arc<[DirectoryEntry]>>;

impl DirectoryCache {
    /// Like the C library's `realpath`, which reads each component of each path, but resolves a directory once.
    pub(super) fn real_path(&self, path: &Path) -> io::Result<PathBuf> {
        let bytes = path.as_os_str().as_bytes();
        let is_deep = memchr::memchr_iter(b'/', bytes).count() > PATH_DEPTH;
        // A path that ends in these is that of a directory, or does not exist.
        let is_plain = path.is_absolute() && !is_deep && !matches!(bytes.last(), Some(b'/' | b'.'));
        let (Some(parent), Some(name)) = (path.parent().filter(|_| is_plain), path.file_name())
        else {
            return fs::canonicalize(path);
        };
        let real = self.real_directory(parent)?.join(name);
        match rustix::fs::readlink(&real, Vec::new()) {
            Ok(_) => fs::canonicalize(&real),
            Err(rustix::io::Errno::INVAL) => Ok(real),
            Err(error) => Err(error.into()),
        }
    }

    fn real_directory(&self, path: &Path) -> io::Result<PathBuf> {
        if let Some(real) = locked(&self.real).get(path.as_os_str()) {
            return Ok(real.clone());
        }
        let real = self.real_path(path)?;
        locked(&self.real).insert(path.as_os_str().to_owned(), real.clone());
        Ok(real)
    }

    /// Lists a directory, by its real path if the system's paths are the guest's.
    pub(super) fn listing(
        &self,
        path: &Path,
        is_here: bool,
        list: impl FnOnce(&Path) -> Option<Vec<DirectoryEntry>>,
    ) -> Listing {
        if let Some(listing) = self.cached_listing(path) {
            return listing;
        }
        let real = if is_here {
            self.real_directory(path).ok()?
        } else {
            path.to_owned()
        };
        let listing = match self.cached_listing(&real) {
            Some(listing) => listing,
            None => list(&real).map(Arc::from),
        };
        for path in [real.as_path(), path] {
            locked(&self.listings).insert(path.as_os_str().to_owned(), listing.clone());
        }
        listing
    }

    fn cached_listing(&self, path: &Path) -> Option<Listing> {
        locked(&self.listings).get(path.as_os_str()).cloned()
    }

    pub(super) fn is_unlisted(&self, path: &Path) -> bool {
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
            return false;
        };
        // The kernel refuses longer ones with another error than that of a missing file.
        if name.len() >= 256 || path.as_os_str().len() >= 4096 {
            return false;
        }
        let Some(Some(entries)) = self.cached_listing(directory) else {
            return false;
        };
        !entries
            .iter()
            .any(|entry| entry.name.eq_ignore_ascii_case(name))
    }
}

fn locked<T>(table: &Mutex<T>) -> MutexGuard<'_, T> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Every file and link below a directory, relative to it. `entries` lists a directory, by such a path.
pub(super) fn walk(
    entries: &(dyn Fn(&Path) -> io::Result<Vec<DirectoryEntry>> + Sync),
    prune: &dyn Fn(&OsStr) -> bool,
) -> Vec<PathBuf> {
    let mut listed: HashMap<PathBuf, Vec<DirectoryEntry>> = HashMap::new();
    let mut level = vec![PathBuf::new()];
    for _ in 0..WALK_DEPTH {
        let listings = parallel::map(&level, |directory| entries(directory).unwrap_or_default());
        let mut next = Vec::new();
        for (directory, mut entries) in level.into_iter().zip(listings) {
            entries.retain(|entry| entry.kind != FileKind::Directory || !prune(&entry.name));
            entries.sort_by(|a, b| a.name.cmp(&b.name));
            for entry in &entries {
                if entry.kind == FileKind::Directory {
                    next.push(directory.join(&entry.name));
                }
            }
            listed.insert(directory, entries);
        }
        level = next;
    }
    let mut files = Vec::new();
    let mut pending = vec![(PathBuf::new(), FileKind::Directory)];
    while let Some((path, kind)) = pending.pop() {
        if kind != FileKind::Directory {
            files.push(path);
            continue;
        }
        for entry in listed.remove(&path).into_iter().flatten().rev() {
            pending.push((path.join(&entry.name), entry.kind));
        }
    }
    files
}

/// The entries of a directory, in no order. Without the question for its own status, of which the C library makes no use.
pub(super) fn entries(directory: &Path) -> io::Result<Vec<DirectoryEntry>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(directory, flags, Mode::empty())?;
    let mut buffer = Vec::with_capacity(LISTING);
    let mut raw = RawDir::new(opened, buffer.spare_capacity_mut());
    let mut entries = Vec::new();
    while let Some(entry) = raw.next() {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        let kind = match entry.file_type() {
            FileType::RegularFile => FileKind::File,
            FileType::Directory => FileKind::Directory,
            FileType::Symlink => FileKind::Link,
            // Some file systems do not tell.
            FileType::Unknown => {
                lstat(&directory.join(name)).map_or(FileKind::Other, |stat| Stat::from(stat).kind)
            }
            _ => FileKind::Other,
        };
        if name != "." && name != ".." {
            entries.push(DirectoryEntry {
                name: name.to_owned(),
                kind,
            });
        }
    }
    Ok(entries)
}

/// The components of a path below the root, `..` kept.
pub(super) fn components(path: &Path) -> VecDeque<OsString> {
    path.components()
        .filter(|component| matches!(component, Component::Normal(_) | Component::ParentDir))
        .map(|component| component.as_os_str().to_owned())
        .collect()
}

pub(super) fn join_root(root: &Path, guest: &Path) -> PathBuf {
    match guest.strip_prefix("/") {
        Ok(relative) => root.join(relative),
        Err(_) => root.to_owned(),
    }
}

/// Resolves a path as the kernel does after `chroot`: absolute links start at the root again, and `..` stays there. `link`
/// is asked for the target of each component.
pub(super) fn resolve(
    path: &Path,
    follow_last: bool,
    link: &mut dyn FnMut(&Path) -> io::Result<Option<PathBuf>>,
) -> io::Result<PathBuf> {
    let mut pending = components(path);
    let mut resolved = PathBuf::from("/");
    let mut links = 0;
    while let Some(name) = pending.pop_front() {
        if name == OsStr::new("..") {
            resolved.pop();
            continue;
        }
        let candidate = resolved.join(&name);
        if pending.is_empty() && !follow_last {
            return Ok(candidate);
        }
        let Some(target) = link(&candidate)? else {
            resolved = candidate;
            continue;
        };
        links += 1;
        if links > LINK_LIMIT {
            return Err(Errno::ELOOP.into());
        }
        if target.is_absolute() {
            resolved = PathBuf::from("/");
        }
        for component in components(&target).into_iter().rev() {
            pending.push_front(component);
        }
    }
    Ok(resolved)
}
