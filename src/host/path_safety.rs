//! Judges if users other than root and this user can replace a directory or a file: as its owner, in its group, or by
//! renaming a directory above it or a link on the way.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::directory::{LINK_LIMIT, components};
use super::{FileKind, Host, Stat, UNMAPPED, is_own_group, maps_everybody};
use crate::text::show;

/// A file on the way to a directory by which another user could replace all that is below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsafe {
    pub path: PathBuf,
    pub fault: UnsafeFault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnsafeFault {
    /// It belongs neither to root nor to this user.
    Owner { uid: u32, mode: u32 },
    /// Its group can write to it, and may have other members.
    Group { uid: u32, gid: u32, mode: u32 },
    /// All users can write to it, and no sticky bit protects its content.
    Others { uid: u32, mode: u32 },
    /// It is no directory.
    NotDirectory,
    /// Its metadata cannot be read.
    Unreadable { kind: ErrorKind },
}

impl Unsafe {
    /// Says how another user could replace what is at `path`.
    pub fn at(&self, path: &Path) -> String {
        let subject = if self.path == path {
            "it".to_owned()
        } else {
            show(&self.path)
        };
        match self.fault {
            UnsafeFault::Owner { uid, mode } => {
                let mode = mode & 0o7777;
                format!("{subject} belongs to user {uid} (mode {mode:04o})")
            }
            UnsafeFault::Group { uid, gid, mode } => {
                let mode = mode & 0o7777;
                format!("group {gid} can write to {subject} (user {uid}, mode {mode:04o})")
            }
            UnsafeFault::Others { uid, mode } => {
                let mode = mode & 0o7777;
                format!("others can write to {subject} (user {uid}, mode {mode:04o})")
            }
            UnsafeFault::NotDirectory => format!("{subject} is not a directory"),
            UnsafeFault::Unreadable { kind } => format!("{subject} cannot be read: {kind}"),
        }
    }

    fn unreadable(path: &Path, kind: ErrorKind) -> Unsafe {
        Unsafe {
            path: path.to_owned(),
            fault: UnsafeFault::Unreadable { kind },
        }
    }
}

/// Judges a directory and every directory and link on the way to it, as the kernel resolves the path. Returns the
/// directory's metadata, or `None` if it is missing and its nearest existing ancestor is safe. It costs one `lstat` for
/// each component.
pub fn judge(host: &Host, directory: &Path) -> Result<Option<Stat>, Unsafe> {
    walk(host, directory, Last::Directory)
}

/// Judges a regular file and the way to it, as [`judge`] does for a directory.
pub fn judge_file(host: &Host, file: &Path) -> Result<Option<Stat>, Unsafe> {
    walk(host, file, Last::File)
}

/// The kind of file at the end of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Directory,
    File,
}

fn walk(host: &Host, path: &Path, last: Last) -> Result<Option<Stat>, Unsafe> {
    let path = host.absolute(path);
    if !path.is_absolute() {
        return Err(Unsafe::unreadable(&path, ErrorKind::NotFound));
    }
    let mut rest = components(&path);
    let mut resolved = PathBuf::from("/");
    let root = examine(host, &resolved, Last::Directory)?;
    let mut resolved_stat = root;
    let mut links = 0;
    while let Some(name) = rest.pop_front() {
        if name == ".." {
            resolved.pop();
        } else {
            resolved.push(&name);
        }
        let expected = if rest.is_empty() {
            last
        } else {
            Last::Directory
        };
        let Some(stat) = examine(host, &resolved, expected)? else {
            return Ok(None);
        };
        if stat.kind != FileKind::Link {
            resolved_stat = Some(stat);
            continue;
        }
        links += 1;
        if links > LINK_LIMIT {
            return Err(Unsafe::unreadable(&path, ErrorKind::TooManyLinks));
        }
        let target = host
            .read_link(&resolved)
            .map_err(|error| Unsafe::unreadable(&resolved, error.kind()))?;
        resolved.pop();
        if target.is_absolute() {
            resolved = PathBuf::from("/");
            resolved_stat = root;
        }
        for name in components(&target).into_iter().rev() {
            rest.push_front(name);
        }
    }
    Ok(resolved_stat)
}

/// Judges a directory in which only this user may write. A missing one is safe if it can be made safely.
pub fn judge_own(host: &Host, directory: &Path) -> Result<(), Unsafe> {
    let Some(Stat { uid, gid, mode, .. }) = judge(host, directory)? else {
        return Ok(());
    };
    let fault = if uid != host.uid && !host.is_rerooted() {
        UnsafeFault::Owner { uid, mode }
    } else if mode & 0o002 != 0 {
        UnsafeFault::Others { uid, mode }
    } else if mode & 0o020 != 0 {
        UnsafeFault::Group { uid, gid, mode }
    } else {
        return Ok(());
    };
    Err(Unsafe {
        path: directory.to_owned(),
        fault,
    })
}

fn examine(host: &Host, path: &Path, last: Last) -> Result<Option<Stat>, Unsafe> {
    let stat = match host.lstat(path) {
        Ok(stat) => stat,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Unsafe::unreadable(path, error.kind())),
    };
    match fault(host, path, &stat, last) {
        None => Ok(Some(stat)),
        Some(fault) => Err(Unsafe {
            path: path.to_owned(),
            fault,
        }),
    }
}

fn fault(host: &Host, path: &Path, stat: &Stat, last: Last) -> Option<UnsafeFault> {
    let Stat { uid, gid, mode, .. } = *stat;
    let is_link = stat.kind == FileKind::Link;
    // In a sticky directory, only the owner of an entry can replace it.
    let is_sticky = stat.is_directory() && mode & 0o1000 != 0;
    let is_closed = is_link || is_sticky || mode & 0o022 == 0;
    let is_file = last == Last::File && stat.is_file();
    if !(is_link || is_file || stat.is_directory()) {
        return Some(UnsafeFault::NotDirectory);
    }
    if !is_trusted(host, uid) {
        // In a container without root, files of the real root show an unmapped owner. If the namespace maps that number
        // too, a file that the container's root cannot write to belongs to the real root.
        let is_of_root = is_closed
            && uid == UNMAPPED
            && !maps_everybody(host)
            && (is_sticky || !host.may_write(path));
        if !is_of_root {
            return Some(UnsafeFault::Owner { uid, mode });
        }
    }
    if is_closed {
        return None;
    }
    if mode & 0o002 != 0 {
        return Some(UnsafeFault::Others { uid, mode });
    }
    let is_harmless =
        host.is_rerooted() || !host.has_acl(path) && is_group_harmless(host, uid, gid);
    (!is_harmless).then_some(UnsafeFault::Group { uid, gid, mode })
}

/// True for root and this user. On another machine the user is unknown, and every owner is trusted.
fn is_trusted(host: &Host, uid: u32) -> bool {
    uid == 0 || uid == host.uid || host.is_rerooted()
}

/// Distributions give root's files to root's group.
fn is_group_harmless(host: &Host, uid: u32, gid: u32) -> bool {
    (uid, gid) == (0, 0) || is_own_group(host, gid)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "arranges what is looked at")]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// A directory below which only its maker can write.
    fn workshop() -> tempfile::TempDir {
        let workshop = tempfile::tempdir().unwrap();
        fs::set_permissions(workshop.path(), fs::Permissions::from_mode(0o755)).unwrap();
        workshop
    }

    fn make(path: PathBuf, mode: u32) -> PathBuf {
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn links_are_followed_as_the_kernel_does() {
        let host = Host::here();
        let workshop = workshop();
        let directory = workshop.path().canonicalize().unwrap();
        let open = make(directory.join("open"), 0o777);
        let closed = make(directory.join("closed"), 0o755);
        make(open.join("own"), 0o755);
        make(closed.join("own"), 0o755);
        for (link, target) in [
            ("absolute", open.join("own")),
            ("relative", "open/own".into()),
            ("through", "closed/../open".into()),
            ("again", "relative".into()),
            ("harmless", "closed/own".into()),
            ("dangling", "closed/missing".into()),
            ("loop", "loop".into()),
        ] {
            symlink(target, directory.join(link)).unwrap();
        }
        for (path, is_open) in [
            ("open/own", true),
            ("absolute", true),
            ("relative/x", true),
            ("through/own", true),
            ("again", true),
            ("closed/../open/own/x", true),
            ("closed/own", false),
            ("harmless/x", false),
            ("dangling", false),
            ("open/../closed", true),
            ("missing/../open", false),
        ] {
            match judge(&host, &directory.join(path)) {
                Ok(_) => assert!(!is_open, "{path}"),
                Err(found) => {
                    let is_others = matches!(found.fault, UnsafeFault::Others { .. });
                    assert!(is_others, "{path}: {found:?}");
                    assert_eq!(found.path == open, is_open, "{path}");
                }
            }
        }
        let stat = judge(&host, &directory.join("harmless")).unwrap().unwrap();
        assert_eq!(stat.id, host.stat(&closed.join("own")).unwrap().id);
        assert!(judge(&host, &directory.join("dangling")).unwrap().is_none());
        let looped = judge(&host, &directory.join("loop")).unwrap_err();
        assert!(matches!(looped.fault, UnsafeFault::Unreadable { .. }));
        fs::write(directory.join("file"), "").unwrap();
        let below_file = judge(&host, &directory.join("file/x")).unwrap_err();
        assert_eq!(below_file.fault, UnsafeFault::NotDirectory);
    }
}
