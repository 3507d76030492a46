//! Which files of projects a person has allowed: by where they really stand and by their content, so that a change of
//! either asks again. One small file each, in a directory that only we can write to.

use std::io::{Error, ErrorKind, Result};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::files;
use crate::host::Host;
use crate::storage;

/// A file that was allowed once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Allowed {
    pub path: PathBuf,
    /// Whether it still says what was allowed.
    pub is_current: bool,
}

pub fn directory(host: &Host) -> Option<PathBuf> {
    files::directory(host).map(|directory| directory.join("allowed"))
}

/// Where a file really stands. One that is a link is not where it leads to: the directories that it names are of the
/// place of the link.
fn real(host: &Host, path: &Path) -> Result<PathBuf> {
    let absolute = host.absolute(path);
    let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name()) else {
        return Err(Error::from(ErrorKind::InvalidInput));
    };
    Ok(host.canonical(parent)?.join(name))
}

/// What the file is called that allows this content of what really stands there.
pub fn name(real: &Path, bytes: &[u8]) -> String {
    storage::full_digest([real.as_os_str().as_bytes(), bytes])
}

/// Whether this very content of this very file was allowed.
pub fn is_allowed(host: &Host, path: &Path, bytes: &[u8]) -> bool {
    let allowed = || {
        let (directory, real) = (directory(host)?, real(host, path).ok()?);
        storage::read(host, &directory, &name(&real, bytes))
    };
    allowed().is_some()
}

/// What that depends on.
pub fn watched(host: &Host, path: &Path, bytes: &[u8]) -> Vec<PathBuf> {
    let (Some(directory), Ok(real)) = (directory(host), real(host, path)) else { return Vec::new() };
    vec![directory.join(name(&real, bytes)), directory]
}

pub fn allow(host: &Host, path: &Path, bytes: &[u8]) -> Result<()> {
    let directory = directory(host).ok_or_else(|| Error::from(ErrorKind::NotFound))?;
    let real = real(host, path)?;
    // What it said before is not what it says now.
    revoke(host, &real)?;
    storage::deliver(host, &directory, &name(&real, bytes), real.as_os_str().as_bytes())
}

/// Whether there was something to take back. The file itself may be gone.
pub fn revoke(host: &Host, path: &Path) -> Result<bool> {
    let real = real(host, path).unwrap_or_else(|_| host.absolute(path));
    let mut was_allowed = false;
    for (file, allowed) in entries(host) {
        if allowed == real {
            storage::remove(&file)?;
            was_allowed = true;
        }
    }
    Ok(was_allowed)
}

pub fn list(host: &Host) -> Vec<Allowed> {
    let is_current = |file: &Path, path: &Path| {
        let bytes = files::read(host, path).ok().flatten();
        bytes.is_some_and(|bytes| file.file_name().is_some_and(|it| *it == *name(path, &bytes)))
    };
    let allowed = |(file, path): (PathBuf, PathBuf)| Allowed { is_current: is_current(&file, &path), path };
    let mut list: Vec<Allowed> = entries(host).into_iter().map(allowed).collect();
    list.sort();
    list
}

/// Every file of ours, and the path that it allows.
fn entries(host: &Host) -> Vec<(PathBuf, PathBuf)> {
    let Some(directory) = directory(host) else { return Vec::new() };
    let names = host.list(&directory).unwrap_or_default().into_iter().map(|entry| entry.name);
    let entry = |name: std::ffi::OsString| {
        let bytes = storage::read(host, &directory, name.to_str()?)?;
        Some((directory.join(&name), PathBuf::from(std::ffi::OsString::from_vec(bytes))))
    };
    names.filter_map(entry).collect()
}
