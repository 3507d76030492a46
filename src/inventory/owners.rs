//! Other users who can change an installation or add files to it, by owners and modes.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::host::{
    Host, LISTS, Stat, UID_MAP, UNMAPPED, Unsafe, UnsafeFault, is_own_group, judge, maps_everybody,
};
use crate::text::{self, show};

/// A file or a directory that others can change, or choose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WritablePath {
    #[serde(serialize_with = "text::path")]
    pub path: PathBuf,
    #[serde(flatten)]
    pub who: ChangedBy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "who", rename_all = "kebab-case")]
pub enum ChangedBy {
    Everybody,
    /// A sticky directory, as `/tmp` is: everybody can add files, and change none of others.
    EverybodyAdds,
    User {
        uid: u32,
    },
    Group {
        gid: u32,
    },
    /// Only an empty or relative element of `LD_LIBRARY_PATH` leads there, from wherever the program is started.
    CurrentDirectory,
}

impl Display for WritablePath {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        let path = show(&self.path);
        match self.who {
            ChangedBy::Everybody => write!(f, "all users can write to {path}"),
            ChangedBy::EverybodyAdds => write!(f, "all users can add files to {path}"),
            ChangedBy::User { uid } => write!(f, "{path} belongs to another user (uid {uid})"),
            ChangedBy::Group { gid } => write!(f, "a group can write to {path} (gid {gid})"),
            ChangedBy::CurrentDirectory => {
                write!(f, "a relative element of LD_LIBRARY_PATH leads to {path}")
            }
        }
    }
}

impl ChangedBy {
    pub fn is_everybody(self) -> bool {
        matches!(self, ChangedBy::Everybody | ChangedBy::EverybodyAdds)
    }
}

pub(super) struct Owners<'h> {
    host: &'h Host,
    /// The groups that were asked for, each with true if it is the user's own.
    groups: BTreeMap<u32, bool>,
    /// The directories that were asked for, with the first one above by which another user can replace them.
    replaceable: HashMap<OsString, Option<WritablePath>>,
    maps_everybody: Option<bool>,
}

impl<'h> Owners<'h> {
    pub(super) fn new(host: &'h Host) -> Owners<'h> {
        Owners {
            host,
            groups: BTreeMap::new(),
            replaceable: HashMap::new(),
            maps_everybody: None,
        }
    }

    /// The files that the answers depend on besides the judged ones. A start that was kept in one user namespace does not
    /// hold in another.
    pub(super) fn sources(&self) -> impl Iterator<Item = PathBuf> {
        let lists = LISTS.into_iter().filter(|_| !self.groups.is_empty());
        let map = self.maps_everybody.map(|_| UID_MAP);
        lists.chain(map).map(PathBuf::from)
    }

    /// The users besides root and this one who can change a file or a directory. Owners on another machine are not
    /// compared with the user here.
    pub(super) fn writable(&mut self, path: &Path, stat: &Stat) -> Vec<WritablePath> {
        let mut who = Vec::new();
        if stat.mode & 0o002 != 0 {
            who.push(if stat.is_world_writable() {
                ChangedBy::Everybody
            } else {
                ChangedBy::EverybodyAdds
            });
        }
        if !self.host.is_rerooted() && !self.is_roots(path, stat) {
            if stat.uid != 0 && stat.uid != self.host.uid {
                who.push(ChangedBy::User { uid: stat.uid });
            }
            // With an access control list, the bits of the group are only the most that the list can grant.
            if stat.mode & 0o020 != 0 && (self.host.has_acl(path) || !self.is_harmless(stat.gid)) {
                who.push(ChangedBy::Group { gid: stat.gid });
            }
        }
        who.into_iter()
            .map(|who| WritablePath {
                path: path.to_owned(),
                who,
            })
            .collect()
    }

    /// A directory above a real path in which another user can replace the next one; a sticky one protects it.
    pub(super) fn replaceable(&mut self, directory: &Path) -> Option<WritablePath> {
        let above = directory.parent()?;
        if let Some(known) = self.replaceable.get(above.as_os_str()) {
            return known.clone();
        }
        let found = self.replaceable(above).or_else(|| {
            let stat = self.host.stat(above).ok()?;
            let is_sticky = stat.mode & 0o1000 != 0;
            let mut writable = self.writable(above, &stat).into_iter();
            writable.find(|path| !is_sticky || matches!(path.who, ChangedBy::User { .. }))
        });
        self.replaceable
            .insert(above.as_os_str().to_owned(), found.clone());
        found
    }

    /// True if its owner is outside this user namespace. A rootless container shows files of its host's root so. If it
    /// maps that number as well, a file that its root cannot write is the host's.
    fn is_roots(&mut self, path: &Path, stat: &Stat) -> bool {
        stat.uid == UNMAPPED
            && !*self
                .maps_everybody
                .get_or_insert_with(|| maps_everybody(self.host))
            && !self.host.may_write(path)
    }

    fn is_harmless(&mut self, gid: u32) -> bool {
        gid == 0
            || *self
                .groups
                .entry(gid)
                .or_insert_with(|| is_own_group(self.host, gid))
    }
}

/// A directory or a link on a path, as a person wrote it, by which another user can make it lead elsewhere.
pub(super) fn on_the_way(host: &Host, path: &Path) -> Option<WritablePath> {
    let Unsafe { path, fault } = judge(host, path).err()?;
    let who = match fault {
        UnsafeFault::Owner { uid, .. } => ChangedBy::User { uid },
        UnsafeFault::Group { gid, .. } => ChangedBy::Group { gid },
        UnsafeFault::Others { .. } => ChangedBy::Everybody,
        UnsafeFault::NotDirectory | UnsafeFault::Unreadable { .. } => return None,
    };
    Some(WritablePath { path, who })
}
