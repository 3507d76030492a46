//! Files of projects that a person has allowed, by their real place and their content: a change of either asks again.
//! Each is one small file in a directory that only its owner can write to.
//!
//! An approval is for one path and one content. A link is a path of its own. `search.without` of a project and files
//! named by `--config` need approval as well: the person who types a name may not have read the file.

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
    /// The content is still the one that was allowed.
    pub is_current: bool,
}

pub fn directory(host: &Host) -> Option<PathBuf> {
    files::directory(host).map(|directory| directory.join("allowed"))
}

/// Returns the real path of a file. A link keeps its own place: the directories that the file names are relative to it.
fn real(host: &Host, path: &Path) -> Result<PathBuf> {
    let absolute = host.absolute(path);
    let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name()) else {
        return Err(Error::from(ErrorKind::InvalidInput));
    };
    Ok(host.canonical(parent)?.join(name))
}

/// Returns the name of the file that allows this content at this real path.
fn name(real: &Path, bytes: &[u8]) -> String {
    storage::full_digest([real.as_os_str().as_bytes(), bytes])
}

pub fn is_allowed(host: &Host, path: &Path, bytes: &[u8]) -> bool {
    let (Some(directory), Ok(real)) = (directory(host), real(host, path)) else {
        return false;
    };
    // Only a content that an approval has: another user may have linked the name to another file of ours.
    let approval = storage::read(host, &directory, &name(&real, bytes));
    approval.is_some_and(|path| path == real.as_os_str().as_bytes())
}

/// Returns the paths that `is_allowed` depends on.
pub fn watched(host: &Host, path: &Path, bytes: &[u8]) -> Vec<PathBuf> {
    let (Some(directory), Ok(real)) = (directory(host), real(host, path)) else {
        return Vec::new();
    };
    vec![directory.join(name(&real, bytes)), directory]
}

pub fn allow(host: &Host, path: &Path, bytes: &[u8]) -> Result<()> {
    let directory = directory(host).ok_or_else(|| Error::from(ErrorKind::NotFound))?;
    let real = real(host, path)?;
    // Earlier content of the file is no longer allowed.
    revoke(host, &real)?;
    storage::deliver(
        host,
        &directory,
        &name(&real, bytes),
        real.as_os_str().as_bytes(),
    )
}

/// Returns true if the file was allowed. The file itself may be gone.
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
        bytes.is_some_and(|bytes| {
            file.file_name()
                .is_some_and(|allowed| *allowed == *name(path, &bytes))
        })
    };
    let allowed = |(file, path): (PathBuf, PathBuf)| Allowed {
        is_current: is_current(&file, &path),
        path,
    };
    let mut list: Vec<Allowed> = entries(host).into_iter().map(allowed).collect();
    list.sort();
    list
}

/// Returns every stored approval, and the path that it allows.
fn entries(host: &Host) -> Vec<(PathBuf, PathBuf)> {
    let Some(directory) = directory(host) else {
        return Vec::new();
    };
    let names = host
        .list(&directory)
        .unwrap_or_default()
        .into_iter()
        .map(|entry| entry.name);
    let entry = |name: std::ffi::OsString| {
        let bytes = storage::read(host, &directory, name.to_str()?)?;
        Some((
            directory.join(&name),
            PathBuf::from(std::ffi::OsString::from_vec(bytes)),
        ))
    };
    names.filter_map(entry).collect()
}
