//! The files with settings and their bytes: the nearest of a project, the user's, and the one for all users. Only regular
//! files are opened.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::setting::{FaultKind, LOCK, PROJECT, SettingFault};
use crate::host::{FileId, Host, Stat, Unsafe, UnsafeFault, judge_file};

/// Larger files are not read, in bytes: no person writes more by hand.
const LIMIT: u64 = 1 << 20;
pub(super) const ALL_USERS: &str = "/etc/cudarun/config.toml";

/// The choice of the project's file.
#[derive(Clone, Debug)]
pub enum Choice {
    Nearest,
    Named(PathBuf),
    /// No file counts, not even the user's and the one for all users.
    Nothing,
}

#[derive(Clone, Debug)]
pub struct SettingsSource {
    pub path: PathBuf,
    pub bytes: Vec<u8>,
    /// It came with a project of unknown origin: some of its settings must be allowed first.
    pub is_project: bool,
}

/// The files with settings, in order of precedence.
#[derive(Clone, Debug, Default)]
pub struct SettingsFiles {
    pub sources: Vec<SettingsSource>,
    /// Files that cannot be used.
    pub faults: Vec<SettingFault>,
    /// All paths that this depends on, existing or not.
    pub watched: BTreeSet<PathBuf>,
}

pub fn find(host: &Host, choice: &Choice) -> SettingsFiles {
    let mut found = SettingsFiles::default();
    let project = match choice {
        Choice::Nothing => return found,
        Choice::Nearest => nearest(host),
        Choice::Named(path) => Some(host.absolute(path)),
    };
    if let Some(path) = project {
        let bytes = match (read(host, &path), choice) {
            (_, Choice::Nearest) if let Err(fault) = must_be_of_user(host, &path) => Err(fault),
            (Ok(None), Choice::Named(path)) => Err(missing(host, path)),
            // No bytes: the file was removed since `nearest` found it.
            (read, _) => read,
        };
        found.add(path, bytes, true);
    }
    for path in unapproved(host) {
        found.watched.insert(path.clone());
        // Another user may become able to write to it.
        found.watched.extend(path.parent().map(Path::to_owned));
        let bytes = read_closed(host, &path);
        found.add(path, bytes, false);
    }
    found
}

/// The files that count without approval: the user's, and the one for all users.
fn unapproved(host: &Host) -> impl Iterator<Item = PathBuf> {
    let user = directory(host).map(|directory| directory.join("config.toml"));
    user.into_iter().chain([ALL_USERS.into()])
}

/// True if a file with settings may count.
pub fn exist(host: &Host) -> bool {
    nearest(host).is_some() || unapproved(host).any(|file| host.lstat(&file).is_ok())
}

impl SettingsFiles {
    fn add(
        &mut self,
        path: PathBuf,
        bytes: Result<Option<Vec<u8>>, SettingFault>,
        is_project: bool,
    ) {
        match bytes {
            Ok(Some(bytes)) => {
                self.watched.insert(path.clone());
                self.sources.push(SettingsSource {
                    path,
                    bytes,
                    is_project,
                });
            }
            Ok(None) => {}
            Err(fault) => self.faults.push(fault),
        }
    }

    pub fn project(&self) -> Option<&SettingsSource> {
        self.sources.iter().find(|source| source.is_project)
    }
}

/// Returns the file of the current project: the nearest one upward. The search ends at the home directory, by whatever
/// name, and at the root of a file system. A warm start calls it too, so it costs one `stat` for each directory, and more
/// only where it finds a file.
pub fn nearest(host: &Host) -> Option<PathBuf> {
    let home = host
        .env
        .non_empty("HOME")
        .map(Path::new)
        .filter(|home| home.is_absolute());
    if !host.cwd.is_absolute() {
        return None;
    }
    let mut passed = Vec::new();
    for directory in host.cwd.ancestors() {
        passed.push(directory);
        let path = directory.join(PROJECT);
        // A circle of links counts as a file, so that reading it reports the error.
        let is_there = |kind| !matches!(kind, ErrorKind::NotFound | ErrorKind::PermissionDenied);
        if host
            .stat(&path)
            .map_or_else(|error| is_there(error.kind()), |_| true)
        {
            let id = |directory: &Path| host.stat(directory).map(|stat| stat.id).ok();
            let ids: Vec<Option<FileId>> = passed.into_iter().map(id).collect();
            let mut devices = ids.iter().map(|id| id.map(|id| id.device));
            let first = devices.next();
            // `HOME` may be a link, while the current directory is a real path.
            let home = home.and_then(id);
            let is_above_home = home.is_some() && ids[..ids.len() - 1].contains(&home);
            return (devices.all(|device| Some(device) == first) && !is_above_home).then_some(path);
        }
        if Some(directory) == home {
            break;
        }
    }
    None
}

/// Returns the user's own directory for settings; none without a home.
pub fn directory(host: &Host) -> Option<PathBuf> {
    host.user_config().map(|config| config.join("cudarun"))
}

/// Returns the path of the lock: beside the project's file, or else in the current directory.
pub fn lock(host: &Host, project: Option<&Path>) -> PathBuf {
    project
        .and_then(Path::parent)
        .unwrap_or(&host.cwd)
        .join(LOCK)
}

/// Returns the content of the lock, which may be given.
pub fn read_lock(host: &Host, path: &Path, given: Option<&str>) -> Result<Vec<u8>, SettingFault> {
    match given {
        Some(text) => Ok(text.into()),
        None => read(host, path)?.ok_or_else(|| FaultKind::NoLock.of_file(path)),
    }
}

/// Returns the fault of a named file that `read` has found absent.
pub fn missing(host: &Host, path: &Path) -> SettingFault {
    let wrong = match host.stat(path) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => FaultKind::unreadable(&error),
        _ => FaultKind::NoFile,
    };
    wrong.of_file(path)
}

/// Returns the bytes of a file, or none if there is no file.
pub fn read(host: &Host, path: &Path) -> Result<Option<Vec<u8>>, SettingFault> {
    let unreadable = |error| FaultKind::unreadable(&error).of_file(path);
    let stat = match host.stat(path) {
        Ok(stat) => stat,
        Err(error) if is_absent(error.kind()) => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    if !stat.is_file() {
        return Err(FaultKind::NotRegular.of_file(path));
    }
    let bytes = host.read_start(path, LIMIT + 1).map_err(unreadable)?;
    if bytes.len() as u64 > LIMIT {
        return Err(FaultKind::TooLarge { limit: LIMIT }.of_file(path));
    }
    Ok(Some(bytes))
}

/// A file in a directory without permission may not exist.
fn is_absent(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PermissionDenied
    )
}

/// Fails for another user's file in a directory like `/tmp`, where every user can put one: it could disable pins and
/// proofs of all programs that start below.
fn must_be_of_user(host: &Host, path: &Path) -> Result<(), SettingFault> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    let is_shared = host
        .stat(directory)
        .is_ok_and(|stat| stat.mode & 0o002 != 0);
    let is_theirs = |stat: Stat| stat.uid != 0 && stat.uid != host.uid;
    if host.is_rerooted() || !is_shared || !host.lstat(path).is_ok_and(is_theirs) {
        return Ok(());
    }
    let directory = directory.to_owned();
    Err(FaultKind::OfAStranger { directory }.of_file(path))
}

/// Reads a file that counts without approval: the user's own settings, or those for all users. Fails if another user could
/// change it or lead to another file.
fn read_closed(host: &Host, path: &Path) -> Result<Option<Vec<u8>>, SettingFault> {
    // A missing file is harmless in any directory.
    if host.stat(path).is_err_and(|error| is_absent(error.kind())) {
        return Ok(None);
    }
    // This comes before reading: on a safe way, no other user can change anything in between.
    match judge_file(host, path) {
        Err(Unsafe {
            fault: UnsafeFault::NotDirectory | UnsafeFault::Unreadable { .. },
            ..
        })
        | Ok(_) => read(host, path),
        Err(_) if host.is_rerooted() => read(host, path),
        Err(why) => Err(FaultKind::Unsafe(why).of_file(path)),
    }
}
