//! The store of fetched wheels: one directory a wheel, named by the hash of the wheel's file. An entry appears by one rename
//! and is never changed.
#![allow(
    clippy::disallowed_methods,
    reason = "writes into directories of our own"
)]

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::statvfs::{FsFlags, statvfs};
use serde::{Deserialize, Serialize};

use super::model::FetchFault;
use crate::host::{Host, judge_own};
use crate::inventory::FETCHED as ABOUT;
use crate::settings::LOCK;
use crate::solve::MissingWheel;
use crate::storage::{self, Lock};
use crate::text::{self, quoted};

/// The lock of the one process that writes.
const TURN: &str = ".turn";
/// Uses of entries: one small file for each entry and each program.
const LEASES: &str = "leases";
/// The beginning of the names of unfinished directories.
const STAGE: &str = ".stage-";

/// A wheel in the store.
#[derive(Debug, Serialize)]
pub struct Entry {
    #[serde(serialize_with = "text::path")]
    pub directory: PathBuf,
    #[serde(flatten)]
    pub about: About,
    /// Bytes of the files.
    #[serde(rename = "bytes")]
    pub size: u64,
    pub users: Vec<User>,
}

/// A program that uses a wheel.
#[derive(Debug, PartialEq, Serialize)]
pub struct User {
    #[serde(serialize_with = "text::path")]
    pub program: PathBuf,
    /// Seconds since 1970.
    pub last_use: i64,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    pub distribution: String,
    pub version: String,
    pub sha256: String,
    /// Bytes of the wheel's file.
    #[serde(skip_serializing)]
    pub size: u64,
    /// Seconds since 1970.
    pub fetched: i64,
}

impl Entry {
    /// The last time that anything has used it, in seconds since 1970.
    pub fn last_use(&self) -> i64 {
        self.users
            .iter()
            .map(|user| user.last_use)
            .fold(self.about.fetched, i64::max)
    }
}

pub struct Store<'h> {
    host: &'h Host,
    pub directory: PathBuf,
}

/// The right to write into the store.
pub struct Turn {
    _lock: File,
}

impl<'h> Store<'h> {
    /// Opens the store that a person has named, if this user may write there, or else the user's own. Makes nothing.
    pub fn of(host: &'h Host, named: Option<&Path>) -> Result<Store<'h>, FetchFault> {
        let may_write = |store: &&Path| match host.stat(store) {
            Ok(stat) => stat.uid == host.uid,
            Err(_) => true,
        };
        let directory = named
            .filter(may_write)
            .map(Path::to_owned)
            .or_else(|| storage::user_store(host));
        let directory = directory.ok_or(FetchFault::NoHome)?;
        // A client runs in another directory.
        let directory = host.absolute(&directory);
        Ok(Store { host, directory })
    }

    pub fn place(&self, sha256: &str) -> PathBuf {
        self.directory.join(sha256)
    }

    pub fn has(&self, sha256: &str) -> bool {
        self.host.is_file(&self.place(sha256).join(ABOUT))
    }

    /// Waits until no other process writes. Removes what killed ones have left.
    pub fn take_turn(&self, mut waits: impl FnMut()) -> Result<Turn, FetchFault> {
        storage::create_directory(&self.directory)
            .map_err(|error| FetchFault::write(&self.directory, error))?;
        judge_own(self.host, &self.directory).map_err(|why| FetchFault::Unsafe {
            place: self.directory.clone(),
            why,
        })?;
        let mut has_waited = false;
        let lock = loop {
            match storage::lock(self.host, &self.directory, TURN) {
                Ok(Lock::Held(file)) => break file,
                Ok(Lock::Taken) => {
                    if !std::mem::replace(&mut has_waited, true) {
                        waits();
                    }
                    std::thread::sleep(Duration::from_millis(100));
                }
                Err(error) => return Err(FetchFault::write(&self.directory, error)),
            }
        };
        for name in self.names().filter(|name| name.starts_with(STAGE)) {
            // The client of a killed one may still write there.
            let _ = remove_tree(&self.directory.join(name));
        }
        Ok(Turn { _lock: lock })
    }

    /// Fails where libraries cannot be mapped, or where there is no room for this many bytes.
    pub fn must_take(&self, bytes: u64) -> Result<(), FetchFault> {
        let place = self.directory.clone();
        let seen = statvfs(&place).map_err(|error| FetchFault::write(&place, error.into()))?;
        if seen.flags().contains(FsFlags::ST_NOEXEC) {
            return Err(FetchFault::NoExec { place });
        }
        let free = seen.blocks_available() * seen.fragment_size();
        if free < bytes {
            Err(FetchFault::NoRoom {
                place,
                needs: bytes,
                free,
            })
        } else {
            Ok(())
        }
    }

    /// Free bytes where the store is or will be.
    pub fn free(&self) -> Option<u64> {
        let place = self
            .directory
            .ancestors()
            .find(|above| self.host.is_directory(above))?;
        statvfs(place)
            .ok()
            .map(|seen| seen.blocks_available() * seen.fragment_size())
    }

    /// Makes an empty directory for an unfinished wheel, of this process alone.
    pub fn stage(&self, _: &Turn, sha256: &str) -> Result<PathBuf, FetchFault> {
        let stage = self
            .directory
            .join(format!("{STAGE}{sha256}-{}", std::process::id()));
        storage::create_directory(&stage).map_err(|error| FetchFault::write(&stage, error))?;
        Ok(stage)
    }

    /// Turns an unpacked tree into an entry, which no process changes any more.
    pub fn publish(&self, _: &Turn, tree: &Path, wheel: &MissingWheel) -> Result<(), FetchFault> {
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
        let place = self.place(sha256);
        let published = fs::write(tree.join(ABOUT), about)
            .and_then(|()| seal(tree))
            // Only a directory that can be written to moves into another one.
            .and_then(|()| fs::set_permissions(tree, fs::Permissions::from_mode(0o755)))
            .and_then(|()| fs::rename(tree, &place))
            .and_then(|()| fs::set_permissions(&place, fs::Permissions::from_mode(0o555)))
            .and_then(|()| fs::File::open(&self.directory)?.sync_all());
        published.map_err(|error| FetchFault::write(&place, error))
    }

    /// True if a killed process has left something, or one writes now.
    pub fn has_unfinished(&self) -> bool {
        self.names().any(|name| name.starts_with(STAGE))
    }

    /// Removes an unfinished directory.
    pub fn clear(&self, _: &Turn, stage: &Path) -> Result<(), FetchFault> {
        remove_tree(stage).map_err(|error| FetchFault::write(stage, error))
    }

    pub fn entries(&self) -> Vec<Entry> {
        let is_hash =
            |name: &String| name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        let entry = |name: String| {
            let directory = self.directory.join(&name);
            let about: About =
                toml::from_str(&self.host.read_text(&directory.join(ABOUT)).ok()?).ok()?;
            let files = self.host.walk(&directory, &|_| false);
            let size = files
                .iter()
                .filter_map(|file| self.host.lstat(file).ok())
                .map(|stat| stat.size)
                .sum();
            Some(Entry {
                users: self.users(&name),
                directory,
                about,
                size,
            })
        };
        self.names().filter(is_hash).filter_map(entry).collect()
    }

    /// Notes that a program uses an entry, at most once a day. A store that this user cannot write to keeps no notes.
    fn note_use(&self, sha256: &str, program: &Path, lock: &Path) {
        let leases = self.directory.join(LEASES);
        let name = format!(
            "{sha256}-{}",
            storage::digest([program.as_os_str().as_bytes()])
        );
        let now = storage::stamp(self.host.started).0;
        let is_recent = |stat: crate::host::Stat| now - stat.modified.0 < DAY;
        if !self.host.stat(&leases.join(&name)).is_ok_and(is_recent) {
            let text = [
                program.as_os_str().as_bytes(),
                b"\n",
                lock.as_os_str().as_bytes(),
            ]
            .concat();
            let _ = storage::deliver(self.host, &leases, &name, &text);
        }
    }

    /// True if a process of this user maps a file of the entry, or the lock of a project that has used it names it.
    pub fn is_needed(&self, entry: &Entry) -> bool {
        let lines = |(name, _): &(String, Vec<u8>)| name.starts_with(&entry.about.sha256);
        let names_it = |(_, text): (String, Vec<u8>)| {
            let lock = text.split(|byte| *byte == b'\n').nth(1).unwrap_or_default();
            let lock = Path::new(OsStr::from_bytes(lock));
            lock.ends_with(LOCK)
                && self
                    .host
                    .read_text(lock)
                    .is_ok_and(|text| text.contains(&entry.about.sha256))
        };
        self.leases().into_iter().filter(lines).any(names_it) || self.is_mapped(&entry.directory)
    }

    /// Removes an entry. A process that has mapped its files keeps them until it ends.
    pub fn remove(&self, _: &Turn, entry: &Entry) -> Result<(), FetchFault> {
        let gone = self
            .directory
            .join(format!("{STAGE}{}", entry.about.sha256));
        let removed = fs::rename(&entry.directory, &gone).and_then(|()| remove_tree(&gone));
        for (name, _) in self
            .leases()
            .iter()
            .filter(|(name, _)| name.starts_with(&entry.about.sha256))
        {
            let _ = fs::remove_file(self.directory.join(LEASES).join(name));
        }
        removed.map_err(|error| FetchFault::write(&entry.directory, error))
    }

    fn names(&self) -> impl Iterator<Item = String> + use<> {
        let names = self
            .host
            .list(&self.directory)
            .unwrap_or_default()
            .into_iter();
        names.filter_map(|entry| entry.name.into_string().ok())
    }

    fn leases(&self) -> Vec<(String, Vec<u8>)> {
        let leases = self.directory.join(LEASES);
        let names = self.host.list(&leases).unwrap_or_default().into_iter();
        let read = |name: String| Some((name.clone(), storage::read(self.host, &leases, &name)?));
        names
            .filter_map(|entry| entry.name.into_string().ok())
            .filter_map(read)
            .collect()
    }

    fn users(&self, sha256: &str) -> Vec<User> {
        let leases = self.directory.join(LEASES);
        let user = |(name, text): (String, Vec<u8>)| {
            let program = text.split(|byte| *byte == b'\n').next()?;
            Some(User {
                program: OsStr::from_bytes(program).into(),
                last_use: self.host.stat(&leases.join(&name)).ok()?.modified.0,
            })
        };
        self.leases()
            .into_iter()
            .filter(|(name, _)| name.starts_with(sha256))
            .filter_map(user)
            .collect()
    }

    fn is_mapped(&self, directory: &Path) -> bool {
        let place = directory.as_os_str().as_bytes();
        let processes = self.host.list(Path::new("/proc")).unwrap_or_default();
        processes.iter().any(|process| {
            let maps = Path::new("/proc").join(&process.name).join("maps");
            process.name.as_bytes().iter().all(u8::is_ascii_digit)
                && fs::read(maps).is_ok_and(|maps| memchr::memmem::find(&maps, place).is_some())
        })
    }
}

/// Notes that a program uses the entries in which these directories are.
pub fn note_uses<'d>(
    host: &Host,
    directories: impl Iterator<Item = &'d Path>,
    program: &Path,
    lock: &Path,
) {
    let is_entry = |above: &&Path| host.is_file(&above.join(ABOUT));
    for entry in directories.filter_map(|directory| directory.ancestors().find(is_entry)) {
        if let (Some(store), Some(sha256)) =
            (entry.parent(), entry.file_name().and_then(OsStr::to_str))
        {
            Store {
                host,
                directory: store.to_owned(),
            }
            .note_use(sha256, program, lock);
        }
    }
}

/// Seconds.
pub const DAY: i64 = 24 * 3600;

/// Takes the right to write away from all directories, the lowest first, and makes what was written last.
fn seal(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            seal(&entry.path())?;
        } else {
            let mode = entry.metadata()?.permissions().mode() & 0o111 | 0o444;
            fs::set_permissions(entry.path(), fs::Permissions::from_mode(mode))?;
        }
    }
    fs::set_permissions(directory, fs::Permissions::from_mode(0o555))?;
    fs::File::open(directory)?.sync_all()
}

fn remove_tree(directory: &Path) -> io::Result<()> {
    fs::set_permissions(directory, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_tree(&entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    match fs::remove_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
