//! Where files with settings stand, and their bytes: the nearest of a project, the user's, and the one for everybody.
//! What is no regular file is never opened.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::{Fault, LOCK, PROJECT, Place, Wrong};
use crate::host::{FileId, Host, Stat};

/// No person writes more than that by hand.
const LIMIT: u64 = 1 << 20;
pub(super) const EVERYBODY: &str = "/etc/cudarun/config.toml";

/// Which file stands for the project's.
#[derive(Clone, Debug)]
pub enum Choice {
    Nearest,
    Named(PathBuf),
    /// No file counts, and neither do the user's and the one for everybody.
    Nothing,
}

#[derive(Clone, Debug)]
pub struct Source {
    pub path: PathBuf,
    pub bytes: Vec<u8>,
    /// It came with a project, which may be anybody's: some of what it says must be allowed first.
    pub is_project: bool,
}

/// What there is, in the order in which it counts.
#[derive(Clone, Debug, Default)]
pub struct Found {
    pub sources: Vec<Source>,
    /// What all this depends on, there or not.
    pub watched: BTreeSet<PathBuf>,
}

pub fn find(host: &Host, choice: &Choice) -> Result<Found, Fault> {
    let mut found = Found::default();
    let project = match choice {
        Choice::Nothing => return Ok(found),
        Choice::Nearest => nearest(host),
        Choice::Named(path) => Some(host.absolute(path)),
    };
    if let Some(path) = project {
        if matches!(choice, Choice::Nearest) {
            is_of_a_stranger(host, &path)?;
        }
        match (read(host, &path)?, choice) {
            (Some(bytes), _) => found.take(path, bytes, true),
            (None, Choice::Named(path)) => return Err(missing(host, path)),
            // It has gone in this moment.
            (None, _) => {}
        }
    }
    let user = directory(host).map(|directory| directory.join("config.toml"));
    for path in user.into_iter().chain([EVERYBODY.into()]) {
        found.watched.insert(path.clone());
        if let Some(bytes) = read(host, &path)? {
            is_safe(host, &path)?;
            found.take(path, bytes, false);
        }
    }
    Ok(found)
}

impl Found {
    fn take(&mut self, path: PathBuf, bytes: Vec<u8>, is_project: bool) {
        self.watched.insert(path.clone());
        self.sources.push(Source { path, bytes, is_project });
    }

    pub fn project(&self) -> Option<&Source> {
        self.sources.iter().find(|source| source.is_project)
    }
}

/// The file of the project that the current directory is in: the nearest one upward. The search ends at the home
/// directory, by whatever name, and at the root of a file system. What is warm asks the same, so it costs one question
/// a directory, and a second one only where there is something.
pub fn nearest(host: &Host) -> Option<PathBuf> {
    let home = host.env.non_empty("HOME").map(Path::new).filter(|home| home.is_absolute());
    if !host.cwd.is_absolute() {
        return None;
    }
    let mut passed = Vec::new();
    for directory in host.cwd.ancestors() {
        passed.push(directory);
        let path = directory.join(PROJECT);
        // A circle of links is there, and will be complained of.
        let is_there = |kind| !matches!(kind, ErrorKind::NotFound | ErrorKind::PermissionDenied);
        if host.stat(&path).map_or_else(|error| is_there(error.kind()), |_| true) {
            let id = |it: &Path| host.stat(it).map(|stat| stat.id).ok();
            let ids: Vec<Option<FileId>> = passed.iter().map(|it| id(it)).collect();
            let is_of_first = |it: &Option<FileId>| it.map(|it| it.device) == ids[0].map(|it| it.device);
            // `HOME` may lead there by a link, and the current directory is known by its real name.
            let home = home.and_then(id);
            let is_above_home = home.is_some() && ids[..ids.len() - 1].contains(&home);
            return (ids.iter().all(is_of_first) && !is_above_home).then_some(path);
        }
        if Some(directory) == home {
            break;
        }
    }
    None
}

/// The user's own directory for settings of ours; none without a home.
pub fn directory(host: &Host) -> Option<PathBuf> {
    let given = host.env.non_empty("XDG_CONFIG_HOME").map(PathBuf::from);
    let given = given.filter(|path| path.is_absolute());
    let base = given.or_else(|| host.home().map(|home| home.join(".config")))?;
    Some(base.join("cudarun"))
}

/// The lock that belongs to a start: beside the project's file, or else in the current directory.
pub fn lock(host: &Host, project: Option<&Path>) -> PathBuf {
    project.and_then(Path::parent).unwrap_or(&host.cwd).join(LOCK)
}

/// A file that is meant and cannot be had, with what the system says of it.
pub fn missing(host: &Host, path: &Path) -> Fault {
    let wrong = match host.stat(path) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            Wrong::Unreadable { why: error.to_string() }
        }
        _ => Wrong::NoFile,
    };
    Fault { place: Place::File { path: path.to_owned(), line: None }, wrong }
}

/// The bytes of a file, or none where there is none.
pub fn read(host: &Host, path: &Path) -> Result<Option<Vec<u8>>, Fault> {
    let place = Place::File { path: path.to_owned(), line: None };
    let fault = |wrong| Fault { place: place.clone(), wrong };
    let unreadable = |error: &std::io::Error| fault(Wrong::Unreadable { why: error.to_string() });
    // Of what stands in a directory that is closed to us, nobody can say that it is there.
    let is_absent =
        |kind| matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PermissionDenied);
    let stat = match host.stat(path) {
        Ok(stat) => stat,
        Err(error) if is_absent(error.kind()) => return Ok(None),
        Err(error) => return Err(unreadable(&error)),
    };
    if !stat.is_file() {
        return Err(fault(Wrong::NotRegular));
    }
    let bytes = host.read_start(path, LIMIT + 1).map_err(|error| unreadable(&error))?;
    if bytes.len() as u64 > LIMIT {
        return Err(fault(Wrong::TooLarge { limit: LIMIT }));
    }
    Ok(Some(bytes))
}

/// In a place like `/tmp`, where everybody can put a file, one that another person has put there is of no project: it
/// could take pins and proofs away from all that is started below.
fn is_of_a_stranger(host: &Host, path: &Path) -> Result<(), Fault> {
    const FOR_EVERYBODY: u32 = 0o1002;
    let directory = path.parent().unwrap_or(Path::new("/"));
    let is_shared = host.stat(directory).is_ok_and(|stat| stat.mode & FOR_EVERYBODY == FOR_EVERYBODY);
    let is_theirs = |stat: Stat| stat.uid != 0 && stat.uid != host.uid;
    if host.is_rerooted() || !is_shared || !host.lstat(path).is_ok_and(is_theirs) {
        return Ok(());
    }
    let place = Place::File { path: path.to_owned(), line: None };
    Err(Fault { place, wrong: Wrong::OfAStranger { directory: directory.to_owned() } })
}

/// What the user's own settings and those for everybody say counts without a question, so nobody else may be able to
/// write there. A file may be a link; then the place counts that it leads to as well.
fn is_safe(host: &Host, path: &Path) -> Result<(), Fault> {
    if host.is_rerooted() {
        return Ok(());
    }
    let is_closed = |stat: Stat| (stat.uid == 0 || stat.uid == host.uid) && stat.mode & 0o022 == 0;
    let real = host.canonical(path).unwrap_or_else(|_| path.to_owned());
    let places = [Some(real.as_path()), real.parent(), path.parent()];
    for open in places.into_iter().flatten() {
        if !host.stat(open).is_ok_and(is_closed) {
            let place = Place::File { path: path.to_owned(), line: None };
            return Err(Fault { place, wrong: Wrong::OpenToOthers { path: open.to_owned() } });
        }
    }
    Ok(())
}
