//! The store of fetched wheels: one directory a wheel, named by the hash of the wheel's file. An entry appears by one rename
//! and is never changed.
#![allow(
    clippy::disallowed_methods,
    reason = "writes into directories of our own"
)]

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use crate::error::Error;
use crate::host::{Host, judge_own};
use crate::inventory::FETCHED as ABOUT;
use crate::solve::MissingWheel;
use crate::storage::{self, FileLock};
use crate::text::{quoted, show, size};

/// The lock of the one process that writes.
const TURN: &str = ".turn";
/// The beginning of the names of unfinished directories.
const STAGE: &str = ".stage-";
const OTHER_PLACE: &str = "XDG_DATA_HOME=DIR cudarun …, or `store = \"DIR\"` in [fetch]";

/// A wheel in the store.
#[derive(Debug)]
pub struct StoredWheel {
    pub directory: PathBuf,
    pub about: About,
    /// Bytes of the files.
    pub size: u64,
    /// The time of its description, in seconds since 1970: a program has used it, or it was fetched.
    pub last_use: i64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    pub distribution: String,
    pub version: String,
    pub sha256: String,
    /// Bytes of the wheel's file.
    pub size: u64,
    /// Seconds since 1970.
    pub fetched: i64,
}

pub struct Store<'h> {
    host: &'h Host,
    pub directory: PathBuf,
}

/// The right to write into the store.
pub struct StoreLock {
    _lock: File,
}

impl<'h> Store<'h> {
    /// Opens the store that a person has named, if this user may write there, or else the user's own. Makes nothing.
    pub fn of(host: &'h Host, named: Option<&Path>) -> Result<Store<'h>, Error> {
        let directory = match named {
            Some(named) if host.stat(named).map_or(true, |stat| stat.uid == host.uid) => {
                Some(named.to_owned())
            }
            _ => storage::user_store(host),
        };
        let Some(directory) = directory else {
            return Err(elsewhere(
                "there is no home directory for the store".to_owned(),
            ));
        };
        Ok(Store {
            host,
            // A client runs in another directory.
            directory: host.absolute(&directory),
        })
    }

    pub fn place(&self, sha256: &str) -> PathBuf {
        self.directory.join(sha256)
    }

    pub fn has(&self, sha256: &str) -> bool {
        self.host.is_file(&self.place(sha256).join(ABOUT))
    }

    /// Waits until no other process writes. Removes what killed ones have left.
    pub fn take_turn(&self, mut waits: impl FnMut()) -> Result<StoreLock, Error> {
        storage::create_directory(&self.directory).map_err(Error::at(&self.directory))?;
        judge_own(self.host, &self.directory).map_err(|fault| {
            let directory = show(&self.directory);
            let fault = fault.at(&self.directory);
            Error::Fetch {
                why: format!("{directory} cannot be used: {fault}"),
                hint: None,
            }
        })?;
        let mut has_waited = false;
        let lock = loop {
            match storage::lock(self.host, &self.directory, TURN) {
                Ok(FileLock::Held(file)) => break file,
                Ok(FileLock::Taken) => {
                    if !has_waited {
                        waits();
                    }
                    has_waited = true;
                    std::thread::sleep(Duration::from_millis(100));
                }
                Err(error) => return Err(Error::at(&self.directory)(error)),
            }
        };
        for name in self.names().filter(|name| name.starts_with(STAGE)) {
            // The client of a killed one may still write there.
            let _ = remove_tree(&self.directory.join(name));
        }
        Ok(StoreLock { _lock: lock })
    }

    /// Fails where libraries cannot be mapped, or where there is no room for this many bytes.
    pub fn must_take(&self, bytes: u64) -> Result<(), Error> {
        let directory = show(&self.directory);
        match self.host.room(&self.directory) {
            Some(room) if room.is_noexec => Err(elsewhere(format!(
                "{directory} is mounted `noexec`: no library there can be loaded"
            ))),
            Some(room) if room.free < bytes => {
                let free = size(room.free);
                let needs = size(bytes);
                Err(elsewhere(format!(
                    "{directory} has {free} free, and {needs} are needed"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Free bytes where the store is or will be.
    pub fn free(&self) -> Option<u64> {
        Some(self.host.room(&self.directory)?.free)
    }

    /// Makes an empty directory for an unfinished wheel, of this process alone.
    pub fn stage(&self, _: &StoreLock, sha256: &str) -> Result<PathBuf, Error> {
        let stage = self
            .directory
            .join(format!("{STAGE}{sha256}-{}", std::process::id()));
        storage::create_directory(&stage).map_err(Error::at(&stage))?;
        Ok(stage)
    }

    /// Turns an unpacked tree into an entry, which no process changes any more.
    pub fn publish(&self, _: &StoreLock, tree: &Path, wheel: &MissingWheel) -> Result<(), Error> {
        let fetched = storage::stamp(self.host.started).0;
        let MissingWheel {
            distribution,
            version,
            sha256,
            size,
            ..
        } = wheel;
        let about = format!(
            "distribution = {}\nversion = \"{version}\"\nsha256 = \"{sha256}\"\nsize = {size}\nfetched = {fetched}\n",
            quoted(distribution)
        );
        let directory = self.place(sha256);
        fs::write(tree.join(ABOUT), about)
            .and_then(|()| close(tree))
            .and_then(|()| fs::rename(tree, &directory))
            .and_then(|()| fs::File::open(&self.directory)?.sync_all())
            .map_err(Error::at(&directory))
    }

    /// True if a killed process has left something, or one writes now.
    pub fn has_unfinished(&self) -> bool {
        self.names().any(|name| name.starts_with(STAGE))
    }

    /// Removes an unfinished directory.
    pub fn clear(&self, _: &StoreLock, stage: &Path) -> Result<(), Error> {
        remove_tree(stage).map_err(Error::at(stage))
    }

    pub fn entries(&self) -> Vec<StoredWheel> {
        let mut entries = Vec::new();
        for name in self.names() {
            if name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                entries.extend(self.entry(self.directory.join(name)));
            }
        }
        entries
    }

    fn entry(&self, directory: PathBuf) -> Option<StoredWheel> {
        let description = directory.join(ABOUT);
        let about: About = toml::from_str(&self.host.read_text(&description).ok()?).ok()?;
        let files = self.host.walk(&directory, &|_| false);
        let stats = files.iter().filter_map(|file| self.host.lstat(file).ok());
        Some(StoredWheel {
            size: stats.map(|stat| stat.size).sum(),
            last_use: self.host.stat(&description).ok()?.modified.0,
            directory,
            about,
        })
    }

    /// Removes an entry. A process that has mapped its files keeps them until it ends.
    pub fn remove(&self, _: &StoreLock, entry: &StoredWheel) -> Result<(), Error> {
        let sha256 = &entry.about.sha256;
        let gone = self.directory.join(format!("{STAGE}{sha256}"));
        fs::rename(&entry.directory, &gone)
            .and_then(|()| remove_tree(&gone))
            .map_err(Error::at(&entry.directory))
    }

    fn names(&self) -> impl Iterator<Item = String> + use<> {
        let entries = self.host.list(&self.directory).unwrap_or_default();
        entries
            .into_iter()
            .filter_map(|entry| entry.name.into_string().ok())
    }

    /// True if a process of this user maps a file of an entry.
    pub fn is_mapped(&self, entry: &StoredWheel) -> bool {
        // The kernel shows real paths.
        let real = self.host.canonical(&entry.directory);
        let path = real.as_ref().unwrap_or(&entry.directory).as_os_str();
        self.host.processes().into_iter().any(|process| {
            let maps = fs::read(format!("/proc/{process}/maps"));
            maps.is_ok_and(|maps| memchr::memmem::find(&maps, path.as_bytes()).is_some())
        })
    }
}

/// The store must be in another place.
fn elsewhere(fault: String) -> Error {
    Error::Fetch {
        why: fault,
        hint: Some(OTHER_PLACE),
    }
}

/// Notes by the time of its description that a program uses an entry, in which each of these directories is. Only the owner
/// of a store can do so.
pub fn note_uses<'d>(host: &Host, directories: impl Iterator<Item = &'d Path>) {
    for directory in directories {
        let mut descriptions = directory.ancestors().map(|above| above.join(ABOUT));
        if let Some(description) = descriptions.find(|file| host.is_file(file))
            && let Ok(file) = File::open(description)
        {
            let _ = file.set_modified(host.started);
        }
    }
}

/// Seconds.
pub const DAY: i64 = 24 * 3600;

/// Takes the right to write away from files, and from directories for all but the owner, and makes what was written last.
fn close(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            close(&entry.path())?;
        } else {
            let mode = entry.metadata()?.permissions().mode() & 0o111 | 0o444;
            fs::set_permissions(entry.path(), fs::Permissions::from_mode(mode))?;
        }
    }
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755))?;
    File::open(directory)?.sync_all()
}

/// Removes a tree, also one in whose directories an earlier cudarun has taken the right to write away.
fn remove_tree(tree: &Path) -> io::Result<()> {
    match fs::remove_dir_all(tree) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let _ = open(tree);
            fs::remove_dir_all(tree)
        }
        removed => removed,
    }
}

fn open(directory: &Path) -> io::Result<()> {
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755))?;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open(&entry.path())?;
        }
    }
    Ok(())
}
