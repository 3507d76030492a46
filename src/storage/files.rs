//! Directories and files that only this user can write to, temporary names, and names by content.
#![allow(
    clippy::disallowed_methods,
    reason = "makes directories of our own, and nothing else"
)]

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use crate::host::{Host, Stat, judge_own};
use crate::text::hexadecimal;

/// Thirty days in seconds. All kept files can be worked out again.
const KEPT_FOR: i64 = 30 * 24 * 3600;
/// The beginning of the names of unfinished files and directories.
const TEMPORARY: &str = ".cudarun-";

/// True for a file of this user to which no other user can write.
pub fn is_ours(host: &Host, stat: &Stat) -> bool {
    stat.uid == host.uid && stat.mode & 0o022 == 0
}

fn own_directory(host: &Host, directory: &Path) -> io::Result<()> {
    judge_own(host, directory)
        .map_err(|_| io::Error::other("another user can write to it or replace it"))
}

/// Makes nothing where another user could replace it.
fn make_own_directory(host: &Host, directory: &Path) -> io::Result<()> {
    own_directory(host, directory)?;
    create_directory(directory)?;
    // Another user may have made it in the meantime.
    own_directory(host, directory)
}

/// Makes a directory and its missing parents, with mode 0700 whatever the umask is.
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
        // Another process was faster, or it is not a directory, which the next step reports.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// A new name, `.cudarun-PID-TIME-NUMBER`, for a directory that gets its final name once it is whole.
pub fn temporary_path(host: &Host, directory: &Path) -> PathBuf {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let since = host
        .started
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos());
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    directory.join(format!(
        "{TEMPORARY}{}-{since}-{number}",
        std::process::id()
    ))
}

/// Names a sequence of parts by its content, in 24 hexadecimal digits.
pub fn digest<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> String {
    let mut digest = full_digest(parts);
    digest.truncate(24);
    digest
}

/// Names a sequence of parts in 64 digits, for content that another user may have made to collide with a shorter name.
pub fn full_digest<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hexadecimal(&hash.finalize())
}

/// Reads a file that only we can write, in a directory that only we can write to or replace. A user who controls a
/// directory above could lead us to another file of ours by a link. Root, for example, owns the repositories that it has
/// cloned, with content by others.
pub fn read(host: &Host, directory: &Path, name: &str) -> Option<Vec<u8>> {
    Some(read_with_stat(host, directory, name)?.0)
}

/// Like [`read`], of a file that is not old.
pub fn read_recent(host: &Host, directory: &Path, name: &str) -> Option<Vec<u8>> {
    let (bytes, stat) = read_with_stat(host, directory, name)?;
    (!is_old(host, &stat)).then_some(bytes)
}

fn read_with_stat(host: &Host, directory: &Path, name: &str) -> Option<(Vec<u8>, Stat)> {
    own_directory(host, directory).ok()?;
    let (bytes, stat) = host.read_own(&directory.join(name)).ok()?;
    is_ours(host, &stat).then_some((bytes, stat))
}

fn is_old(host: &Host, stat: &Stat) -> bool {
    stamp(host.started).0 - stat.modified.0 > KEPT_FOR
}

/// Writes a file for us alone, whole or not at all, and removes old files. Returns true if it was written.
pub fn write(host: &Host, directory: &Path, name: &str, bytes: &[u8]) -> bool {
    prune(host, directory);
    deliver(host, directory, name, bytes).is_ok()
}

/// A lock that one process holds at a time. The kernel releases it when that process ends or becomes another program.
pub enum FileLock {
    Held(fs::File),
    /// By another process.
    Taken,
}

/// Takes the lock of this name in a directory that is ours alone.
pub fn lock(host: &Host, directory: &Path, name: &str) -> io::Result<FileLock> {
    make_own_directory(host, directory)?;
    let mut options = fs::OpenOptions::new();
    let file = options
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(directory.join(name))?;
    match file.try_lock() {
        Ok(()) => Ok(FileLock::Held(file)),
        Err(fs::TryLockError::WouldBlock) => Ok(FileLock::Taken),
        Err(fs::TryLockError::Error(error)) => Err(error),
    }
}

/// Writes a file for us alone, in a directory that only we can write to. Fails where it cannot be written.
pub fn deliver(host: &Host, directory: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    make_own_directory(host, directory)?;
    let file = directory.join(name);
    written(&file, 0o600, bytes)?.persist(file)?;
    Ok(())
}

/// Writes a file with the mode that the umask leaves, whole or not at all. A device or a pipe gets the bytes, and stays.
pub fn publish(file: &Path, bytes: &[u8]) -> io::Result<()> {
    if is_special(file) {
        return Delivery::open(file)?.write(bytes);
    }
    written(file, 0o666, bytes)?.persist(file)?;
    Ok(())
}

/// Like [`publish`]. Replaces a regular file only if it is empty or begins with `begin`, and not a link to such a file.
pub fn publish_again(host: &Host, file: &Path, begin: &str, bytes: &[u8]) -> io::Result<()> {
    if is_special(file) || host.lstat(file).is_err() {
        return publish(file, bytes);
    }
    let start = host
        .read_start(file, begin.len() as u64)
        .map_err(|_| ErrorKind::AlreadyExists)?;
    if !start.is_empty() && start != begin.as_bytes() {
        return Err(ErrorKind::AlreadyExists.into());
    }
    publish(&fs::canonicalize(file)?, bytes)
}

fn is_special(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// Fails where [`publish`] would fail, and writes nothing.
pub fn can_publish(host: &Host, file: &Path) -> io::Result<()> {
    if host.lstat(file).is_ok_and(|stat| stat.is_directory()) {
        return Err(io::Error::from(ErrorKind::IsADirectory));
    }
    if !is_special(file) {
        written(file, 0o600, &[])?;
    }
    Ok(())
}

/// Writes a file, whole or not at all. Fails if it exists.
pub fn publish_new(file: &Path, mode: u32, bytes: &[u8]) -> io::Result<()> {
    match written(file, mode, bytes)?.persist_noclobber(file) {
        // Some file systems have neither hard links nor a rename that leaves an existing file alone.
        Err(refused) if refused.error.kind() != ErrorKind::AlreadyExists => new_file(file, mode)?
            .write_all(bytes)
            .inspect_err(|_| _ = fs::remove_file(file)),
        Err(refused) => Err(refused.error),
        Ok(_) => Ok(()),
    }
}

pub fn remove(file: &Path) -> io::Result<()> {
    fs::remove_file(file)
}

/// The number of directories above a file that do not exist.
pub fn missing_directories(host: &Host, file: &Path) -> usize {
    let above = file.ancestors().skip(1);
    above.take_while(|path| host.lstat(path).is_err()).count()
}

/// Like [`publish`], and makes the missing directories above, with the mode that the umask leaves. Where it fails, they are
/// removed again.
pub fn publish_below(host: &Host, file: &Path, bytes: &[u8]) -> io::Result<()> {
    let missing = missing_directories(host, file);
    fs::create_dir_all(file.parent().unwrap_or(file))
        .and_then(|()| publish(file, bytes))
        .inspect_err(|_| remove_empty(file, missing))
}

/// Removes a file, and as many directories above it as are empty, at most `made`.
pub fn remove_with_directories(file: &Path, made: usize) -> io::Result<()> {
    remove(file)?;
    remove_empty(file, made);
    Ok(())
}

fn remove_empty(file: &Path, most: usize) {
    for directory in file.ancestors().skip(1).take(most) {
        match fs::remove_dir(directory) {
            Err(error) if error.kind() != ErrorKind::NotFound => break,
            _ => {}
        }
    }
}

/// A file for us alone in a directory of ours, which is removed with the value.
pub fn temporary_file(directory: &Path, mode: u32) -> io::Result<NamedTempFile> {
    tempfile::Builder::new()
        .prefix(TEMPORARY)
        .permissions(fs::Permissions::from_mode(mode))
        .tempfile_in(directory)
}

/// A temporary file beside a file, with its content.
fn written(file: &Path, mode: u32, bytes: &[u8]) -> io::Result<NamedTempFile> {
    let mut written = temporary_file(file.parent().unwrap_or(file), mode)?;
    written.write_all(bytes)?;
    Ok(written)
}

/// The output file that a person named. It is opened before its content is known.
#[derive(Debug)]
pub struct Delivery(fs::File);

impl Delivery {
    /// Keeps the present content until `write`. For a pipe, waits for a reader.
    pub fn open(file: &Path) -> io::Result<Delivery> {
        fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(file)
            .map(Delivery)
    }

    pub fn write(mut self, bytes: &[u8]) -> io::Result<()> {
        if self.0.metadata()?.is_file() {
            self.0.set_len(0)?;
        }
        self.0.write_all(bytes)
    }
}

/// Creates a file that must not exist.
pub fn new_file(file: &Path, mode: u32) -> io::Result<fs::File> {
    fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(file)
}

/// Removes old files of our own from a directory of our own, unfinished ones of killed processes too. Only files with
/// names that cudarun gives.
pub fn prune(host: &Host, directory: &Path) {
    if !host
        .lstat(directory)
        .is_ok_and(|stat| stat.is_directory() && is_ours(host, &stat))
    {
        return;
    }
    let may_go = |stat: Stat| stat.is_file() && is_ours(host, &stat) && is_old(host, &stat);
    for entry in host.list(directory).unwrap_or_default() {
        let path = directory.join(&entry.name);
        if is_own_name(entry.name.as_bytes()) && host.lstat(&path).is_ok_and(may_go) {
            let _ = fs::remove_file(path);
        }
    }
}

/// A time as file systems store it: seconds and nanoseconds.
pub fn stamp(at: SystemTime) -> (i64, i64) {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    (
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        i64::from(since.subsec_nanos()),
    )
}

/// True for the digest of a start, a proof or a layer, the lock of a proof, and the name of an unfinished file.
fn is_own_name(name: &[u8]) -> bool {
    let is_hexadecimal = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
    let ends = [&b".turn"[..], b".failed", b".layer"];
    let digest = ends.iter().find_map(|end| name.strip_suffix(*end));
    let digest = digest.unwrap_or(name);
    name.starts_with(TEMPORARY.as_bytes())
        || matches!(digest.len(), 16 | 24 | 64) && digest.iter().all(is_hexadecimal)
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
        let gone = [
            file(".cudarun-a1B2c3", true),
            file("0123456789abcdef", true),
            file(turn, true),
        ];
        let kept = [
            file("fedcba9876543210", false),
            file("thesis.txt", true),
            file(".profile", true),
        ];
        let link = home.path().join("link");
        std::os::unix::fs::symlink(&directory, &link).unwrap();
        prune(&Host::here(), &link);
        assert!(
            gone.iter().all(|path| path.exists()),
            "a link leads to what may be another's"
        );
        prune(&Host::here(), &directory);
        assert!(gone.iter().all(|path| !path.exists()) && kept.iter().all(|path| path.exists()));
    }
}
