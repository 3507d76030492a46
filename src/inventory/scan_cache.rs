//! Facts of files and directories from earlier scans, which hold until size or times of the file change. Callers store
//! the cache between runs.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::evidence::LibraryFile;
use super::installation::Extension;
use crate::host::{FileId, Stat};
use crate::version::Version;

/// A file that changed this recently may change again and keep its times: file systems count in ticks of up to two
/// seconds.
const GRACE: Duration = Duration::from_secs(2);
/// More entries than any machine needs. A larger table drops those that the last scan did not use.
const LIMIT: usize = 100_000;

#[derive(Default, Serialize, Deserialize)]
pub struct ScanCache {
    pub(super) files: Table<(String, LibraryFile)>,
    /// The names in a directory that may be libraries, in order.
    pub(super) directories: Table<Vec<Name>>,
    /// The libraries in a package's list of files, with their sizes.
    pub(super) records: Table<Vec<(String, Option<u64>)>>,
    /// The packages with libraries in a package manager's database.
    pub(super) packages: Table<Vec<PackagedLibraries>>,
    /// The releases of compilers.
    pub(super) releases: Table<Option<Version>>,
    /// By directory of a framework: the identity of all that was compared, and the result.
    pub(super) extensions: Table<(u64, Vec<Extension>)>,
    /// Seconds since the epoch; younger files are not kept.
    #[serde(skip)]
    began: i64,
}

/// An installed package that holds libraries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PackagedLibraries {
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
    pub is_link: bool,
}

/// Facts as bytes, which are decoded on demand: most scans need some of them, once.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub(super) struct Table<T> {
    entries: BTreeMap<FileId, CachedFacts>,
    #[serde(skip)]
    has_changed: bool,
    #[serde(skip)]
    facts: PhantomData<fn() -> T>,
}

#[derive(Serialize, Deserialize)]
struct CachedFacts {
    stamp: Stamp,
    // As one value: serde would handle each byte as an element of a list, which is slow.
    #[serde(with = "serde_bytes")]
    value: Vec<u8>,
    #[serde(skip)]
    is_used: AtomicBool,
}

/// Size and times of a file: one of them changes with each write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl ScanCache {
    /// Called before each scan, with its time.
    pub(super) fn begin(&mut self, now: SystemTime) {
        let before = now
            .checked_sub(GRACE)
            .and_then(|then| then.duration_since(UNIX_EPOCH).ok());
        self.began = before.map_or(0, |since| {
            i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
        });
    }

    /// True if a later change of this file would change its stamp. False for a file that has just changed, and on file
    /// systems of images: those give all of their files one time, and another image may have equal inode numbers.
    pub(super) fn is_settled(&self, stat: &Stat) -> bool {
        let is_of_image = stat.changed == stat.modified && stat.changed.1 == 0;
        stat.modified.0.max(stat.changed.0) < self.began && !is_of_image
    }

    /// True if a scan added an entry.
    pub fn has_changed(&self) -> bool {
        self.files.has_changed
            || self.directories.has_changed
            || self.records.has_changed
            || self.packages.has_changed
            || self.extensions.has_changed
            || self.releases.has_changed
    }

    /// Removes unused entries from tables that are too large.
    pub fn tidy(&mut self) {
        self.files.tidy();
        self.directories.tidy();
        self.records.tidy();
        self.packages.tidy();
        self.extensions.tidy();
        self.releases.tidy();
    }
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table {
            entries: BTreeMap::new(),
            has_changed: false,
            facts: PhantomData,
        }
    }
}

impl<T: Serialize + DeserializeOwned> Table<T> {
    /// Returns the facts of a file with this id and stamp.
    pub(super) fn get(&self, stat: &Stat) -> Option<T> {
        let entry = self.entries.get(&stat.id)?;
        entry.is_used.store(true, Ordering::Relaxed);
        if entry.stamp != Stamp::of(stat) {
            return None;
        }
        postcard::from_bytes(&entry.value).ok()
    }

    pub(super) fn insert(&mut self, stat: &Stat, value: &T) {
        let Ok(value) = postcard::to_stdvec(value) else {
            return;
        };
        self.entries.insert(
            stat.id,
            CachedFacts {
                stamp: Stamp::of(stat),
                value,
                is_used: AtomicBool::new(true),
            },
        );
        self.has_changed = true;
    }

    fn tidy(&mut self) {
        if self.entries.len() > LIMIT {
            self.entries.retain(|_, entry| *entry.is_used.get_mut());
        }
    }
}

impl Stamp {
    fn of(stat: &Stat) -> Stamp {
        Stamp {
            size: stat.size,
            modified: stat.modified,
            changed: stat.changed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::FileKind;

    fn stat(seconds: i64) -> Stat {
        let id = FileId {
            device: 1,
            inode: 2,
        };
        Stat {
            kind: FileKind::File,
            id,
            size: 5,
            mode: 0o644,
            uid: 0,
            gid: 0,
            modified: (seconds, 0),
            changed: (seconds, 5),
        }
    }

    #[test]
    fn a_file_that_has_just_changed_is_not_cached() {
        let mut cache = ScanCache::default();
        cache.begin(UNIX_EPOCH + Duration::from_secs(1000));
        assert!(cache.is_settled(&stat(990)) && !cache.is_settled(&stat(999)));
        assert!(!cache.is_settled(&stat(2000)), "a clock that was set back");
        let image_stat = Stat {
            changed: (990, 0),
            ..stat(990)
        };
        assert!(!cache.is_settled(&image_stat));
    }
}
