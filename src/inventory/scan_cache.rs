//! What was read of files and directories before, and holds as long as they look the same: a second look at a
//! machine only asks how things look. Where it is kept between runs is no concern of this file.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::evidence::File;
use crate::host::{FileId, Stat};

/// What changed this short a time ago may change again without its time showing it: file systems count in
/// ticks, the coarsest in two seconds.
const GRACE: Duration = Duration::from_secs(2);
/// More than any machine has; beyond it, what was not seen this time goes.
const LIMIT: usize = 100_000;

#[derive(Default, Serialize, Deserialize)]
pub struct ScanCache {
    pub(super) files: Table<(String, File)>,
    /// Of a directory, the names that are of interest, in order.
    pub(super) directories: Table<Vec<Name>>,
    /// Of a package's list of files, those that are libraries, with their sizes.
    pub(super) records: Table<Vec<(String, Option<u64>)>>,
    /// Of a package manager's database, the packages with libraries.
    pub(super) packages: Table<Vec<Package>>,
    /// When this look began, in seconds; what is younger is not kept.
    #[serde(skip)]
    began: i64,
}

/// An installed package that holds libraries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Package {
    pub name: String,
    /// As the package manager writes it.
    pub version: String,
    pub architecture: String,
    /// The paths of its libraries.
    pub libraries: Vec<String>,
}

/// A name in a directory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Name {
    pub name: String,
    pub link: Link,
}

/// Whether a name is one of a link: what a link says cannot change without its directory changing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Link {
    No,
    /// To another name in its directory.
    Beside(String),
    Elsewhere,
}

/// Facts as bytes, which are understood when they are asked for: most looks ask for some of them, once.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub(super) struct Table<T> {
    entries: BTreeMap<FileId, Remembered>,
    #[serde(skip)]
    has_changed: bool,
    #[serde(skip)]
    of: PhantomData<fn() -> T>,
}

#[derive(Serialize, Deserialize)]
struct Remembered {
    stamp: Stamp,
    #[serde(with = "bytes")]
    value: Vec<u8>,
    #[serde(skip)]
    is_used: AtomicBool,
}

/// Bytes as one value: without this, serde takes each of them for an element of a list.
mod bytes {
    use std::fmt;

    use serde::de::{Deserializer, Error, Visitor};
    use serde::ser::Serializer;

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytes)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Vec<u8>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
                Ok(bytes.to_owned())
            }
        }
        deserializer.deserialize_bytes(Bytes)
    }
}

/// How a file looks: nothing can be written to it without one of these showing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl ScanCache {
    /// To be called before a look: nothing that is younger than it will be kept.
    pub(super) fn begin(&mut self, now: SystemTime) {
        let before = now.checked_sub(GRACE).and_then(|then| then.duration_since(UNIX_EPOCH).ok());
        self.began = before.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX));
    }

    /// Whether a later change of what looks like this would show. It would not where it has just changed, nor on the
    /// file systems of images: those give all of their files one time, and another image may have the same numbers.
    pub(super) fn is_settled(&self, stat: &Stat) -> bool {
        let is_of_image = stat.changed == stat.modified && stat.changed.1 == 0;
        stat.modified.0.max(stat.changed.0) < self.began && !is_of_image
    }

    /// Whether there is something in it that it was not read with.
    pub fn has_changed(&self) -> bool {
        let (files, directories) = (self.files.has_changed, self.directories.has_changed);
        files || directories || self.records.has_changed || self.packages.has_changed
    }

    /// Forgets what was not asked for, when there is too much of it.
    pub fn tidy(&mut self) {
        self.files.tidy();
        self.directories.tidy();
        self.records.tidy();
        self.packages.tidy();
    }
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table { entries: BTreeMap::new(), has_changed: false, of: PhantomData }
    }
}

impl<T: Serialize + DeserializeOwned> Table<T> {
    /// What is known of a file that looks like this.
    pub(super) fn get(&self, stat: &Stat) -> Option<T> {
        let remembered = self.entries.get(&stat.id)?;
        remembered.is_used.store(true, Ordering::Relaxed);
        let is_same = remembered.stamp == Stamp::of(stat);
        is_same.then(|| postcard::from_bytes(&remembered.value).ok()).flatten()
    }

    pub(super) fn insert(&mut self, stat: &Stat, value: &T) {
        let Ok(value) = postcard::to_stdvec(value) else { return };
        let is_used = AtomicBool::new(true);
        self.entries.insert(stat.id, Remembered { stamp: Stamp::of(stat), value, is_used });
        self.has_changed = true;
    }

    fn tidy(&mut self) {
        if self.entries.len() > LIMIT {
            self.entries.retain(|_, remembered| *remembered.is_used.get_mut());
        }
    }
}

impl Stamp {
    fn of(stat: &Stat) -> Stamp {
        Stamp { size: stat.size, modified: stat.modified, changed: stat.changed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Kind;

    fn stat(size: u64, seconds: i64) -> Stat {
        let id = FileId { device: 1, inode: 2 };
        let (modified, changed) = ((seconds, 0), (seconds, 5));
        Stat { kind: Kind::File, id, size, mode: 0o644, uid: 0, gid: 0, modified, changed }
    }

    #[test]
    fn a_changed_file_is_not_in_the_scan_cache() {
        let mut table = Table::default();
        table.insert(&stat(5, 100), &"facts".to_owned());
        assert_eq!(table.get(&stat(5, 100)), Some("facts".to_owned()));
        assert_eq!(table.get(&stat(6, 100)), None);
        assert_eq!(table.get(&stat(5, 101)), None);
    }

    #[test]
    fn a_file_that_has_just_changed_is_not_cached() {
        let mut known = ScanCache::default();
        known.begin(UNIX_EPOCH + Duration::from_secs(1000));
        assert!(known.is_settled(&stat(5, 990)) && !known.is_settled(&stat(5, 999)));
        assert!(!known.is_settled(&stat(5, 2000)), "a clock that was set back");
        let of_image = Stat { changed: (990, 0), ..stat(5, 990) };
        assert!(!known.is_settled(&of_image));
    }
}
