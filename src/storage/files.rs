//! What is ours alone on disk: directories that nobody else can write to, names for what is not finished yet,
//! names by content. Must not know what is kept there.
#![allow(clippy::disallowed_methods, reason = "makes directories of our own, and nothing else")]

use std::fmt::Write as _;
use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use sha2::{Digest, Sha256};

use crate::host::{Host, Stat};

/// Thirty days, in seconds: what is kept can be worked out again, which costs a moment.
const KEPT_FOR: i64 = 30 * 24 * 3600;

/// Whether it belongs to us and nobody else can write to it.
pub fn is_ours(host: &Host, stat: &Stat) -> bool {
    stat.uid == host.uid && stat.mode & 0o022 == 0
}

fn own_directory(host: &Host, directory: &Path) -> io::Result<()> {
    if is_ours(host, &host.lstat(directory)?) {
        return Ok(());
    }
    Err(io::Error::other("somebody else can write to it"))
}

/// Makes a directory, and those above it that are missing, for us alone, whatever the umask says.
pub fn create_directory(directory: &Path) -> io::Result<()> {
    let create = || fs::DirBuilder::new().mode(0o700).create(directory);
    let created = match (create(), directory.parent()) {
        (Err(error), Some(parent)) if error.kind() == ErrorKind::NotFound => {
            create_directory(parent)?;
            create()
        }
        (created, _) => created,
    };
    match created {
        Ok(()) => fs::set_permissions(directory, fs::Permissions::from_mode(0o700)),
        // Somebody was faster, or it is no directory: the next step will tell.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// A name that nobody else has, for what is renamed once it is whole: `.PID-TIME`.
pub fn temporary_path(host: &Host, directory: &Path) -> PathBuf {
    let since = host.started.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    directory.join(format!(".{}-{since}", std::process::id()))
}

/// A name for all of these together: the same content has the same name, and another content another.
pub fn digest<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> String {
    let mut digest = full_digest(parts);
    digest.truncate(24);
    digest
}

/// The same at full length, for content that somebody may have made to have the name of another.
pub fn full_digest<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A file that only we can have written, in a directory that only we can write to. The directories above are for the
/// caller to judge. Another user who controls one of them cannot make a file of ours, but can lead us to one by a link or
/// a second name: root owns what it has cloned or unpacked, and others wrote it.
pub fn read(host: &Host, directory: &Path, name: &str) -> Option<Vec<u8>> {
    own_directory(host, directory).ok()?;
    let (bytes, stat) = host.read_own(&directory.join(name)).ok()?;
    is_ours(host, &stat).then_some(bytes)
}

/// Writes a file for us alone, whole or not at all, and takes away what is old. What cannot be written is not: the
/// answer is whether it was.
pub fn write(host: &Host, directory: &Path, name: &str, bytes: &[u8]) -> bool {
    let _ = create_directory(directory);
    if own_directory(host, directory).is_err() {
        return false;
    }
    prune(host, directory);
    write_atomically(&temporary_path(host, directory), &directory.join(name), 0o600, bytes).is_ok()
}

/// Held by one process at a time: the kernel takes it back when that process ends, however it does, or becomes another
/// program.
#[derive(Debug)]
pub struct Lock {
    _file: fs::File,
}

/// The turn of this name in a directory that is ours alone; none while another process has it.
pub fn lock(host: &Host, directory: &Path, name: &str) -> io::Result<Option<Lock>> {
    create_directory(directory)?;
    own_directory(host, directory)?;
    let mut options = fs::OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).mode(0o600).open(directory.join(name))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(Lock { _file: file })),
        Err(fs::TryLockError::WouldBlock) => Ok(None),
        Err(fs::TryLockError::Error(error)) => Err(error),
    }
}

/// Writes what must not be lost: a file for us alone, in a directory of which nobody else can change anything.
pub fn deliver(host: &Host, directory: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    create_directory(directory)?;
    own_directory(host, directory)?;
    write_atomically(&temporary_path(host, directory), &directory.join(name), 0o600, bytes)
}

/// Writes a file that is everybody's to read, whole or not at all.
pub fn publish(host: &Host, file: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = file.parent().unwrap_or(Path::new("/"));
    write_atomically(&temporary_path(host, directory), file, 0o666, bytes)
}

/// Whether that is possible, before there is something to write.
pub fn can_publish(host: &Host, file: &Path) -> io::Result<()> {
    if host.lstat(file).is_ok_and(|stat| stat.is_directory()) {
        return Err(io::Error::from(ErrorKind::IsADirectory));
    }
    let temporary = temporary_path(host, file.parent().unwrap_or(Path::new("/")));
    new_file(&temporary)?;
    fs::remove_file(temporary)
}

/// Writes a file where there is nothing yet.
pub fn publish_new(file: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::OpenOptions::new().write(true).create_new(true).open(file)?.write_all(bytes)
}

/// The same, whole or not at all.
pub fn publish_new_whole(host: &Host, file: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = file.parent().unwrap_or(Path::new("/"));
    let temporary = temporary_path(host, directory);
    let written = new_file(&temporary).and_then(|mut made| made.write_all(bytes));
    // A second name is made only where there is none of that name.
    let published = written.and_then(|()| fs::hard_link(&temporary, file));
    let _ = fs::remove_file(&temporary);
    match published {
        // Some file systems have no second names.
        Err(error) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::PermissionDenied) => {
            publish_new(file, bytes)
        }
        published => published,
    }
}

pub fn remove(file: &Path) -> io::Result<()> {
    fs::remove_file(file)
}

fn write_atomically(temporary: &Path, file: &Path, mode: u32, bytes: &[u8]) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    let written = options
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(temporary)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| fs::rename(temporary, file));
    if written.is_err() {
        let _ = fs::remove_file(temporary);
    }
    written
}

/// Makes an empty file for us alone, whatever the umask says: for others to add to whom we tell of it.
pub fn create(file: &Path) -> io::Result<()> {
    new_file(file)?.set_permissions(fs::Permissions::from_mode(0o600))
}

/// What was written to a file of our own by others whom we have told of it; it is gone afterwards.
pub fn read_and_remove(host: &Host, file: &Path) -> Vec<u8> {
    let bytes = host.read(file).unwrap_or_default();
    let _ = fs::remove_file(file);
    bytes
}

/// Where a person wants something to be written, in the course of time.
#[derive(Debug)]
pub struct Delivery(fs::File);

impl Delivery {
    /// What is there stays until it is written over; where it is a pipe, this waits for a reader.
    pub fn open(file: &Path) -> io::Result<Delivery> {
        fs::OpenOptions::new().write(true).create(true).truncate(false).open(file).map(Delivery)
    }

    pub fn write(mut self, bytes: &[u8]) -> io::Result<()> {
        if self.0.metadata()?.is_file() {
            self.0.set_len(0)?;
        }
        self.0.write_all(bytes)
    }
}

fn new_file(file: &Path) -> io::Result<fs::File> {
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)
}

/// Takes away what was written long ago, by what was killed perhaps: it can all be worked out again. Only
/// files of our own, by their names, in a directory of our own.
fn prune(host: &Host, directory: &Path) {
    let ours = |stat: &Stat| is_ours(host, stat);
    if !host.lstat(directory).is_ok_and(|stat| stat.is_directory() && ours(&stat)) {
        return;
    }
    let now = host.started.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let is_old = |stat: &Stat| i64::try_from(now).unwrap_or(0) - stat.modified.0 > KEPT_FOR;
    for entry in host.list(directory).unwrap_or_default() {
        let path = directory.join(&entry.name);
        let goes = |stat: &Stat| stat.is_file() && ours(stat) && is_old(stat);
        if is_own_name(entry.name.as_bytes()) && host.lstat(&path).as_ref().is_ok_and(goes) {
            let _ = fs::remove_file(path);
        }
    }
}

/// The digest of a start or a proof, of whose turn it is to make one, or `.PID-TIME` of what was never finished.
fn is_own_name(name: &[u8]) -> bool {
    let is_hexadecimal = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
    match name.strip_prefix(b".") {
        Some(unfinished) => unfinished.iter().all(|byte| byte.is_ascii_digit() || *byte == b'-'),
        None => {
            let ends = [&b".turn"[..], b".failed"];
            let digest = ends.iter().find_map(|end| name.strip_suffix(*end)).unwrap_or(name);
            matches!(digest.len(), 16 | 24) && digest.iter().all(is_hexadecimal)
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "arranges what is looked at")]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn only_old_files_are_removed() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("starts");
        fs::create_dir(&directory).unwrap();
        let long_ago = Host::here().started - Duration::from_hours(24 * 40);
        let file = |name: &str, is_old: bool| {
            let path = directory.join(name);
            let file = fs::File::create(&path).unwrap();
            if is_old {
                file.set_modified(long_ago).unwrap();
            }
            path
        };
        let turn = "0123456789abcdef01234567.turn";
        let gone = [file(".123-4", true), file("0123456789abcdef", true), file(turn, true)];
        let kept = [file("fedcba9876543210", false), file("thesis.txt", true), file(".profile", true)];
        let link = home.path().join("link");
        std::os::unix::fs::symlink(&directory, &link).unwrap();
        prune(&Host::here(), &link);
        assert!(gone.iter().all(|path| path.exists()), "a link leads to what may be another's");
        prune(&Host::here(), &directory);
        assert!(gone.iter().all(|path| !path.exists()) && kept.iter().all(|path| path.exists()));
    }
}
