//! The directories that the sources name, and the merging of several sources' facts of one directory.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::installation::Origin;
use super::machine::Scope;
use super::owners::WritablePath;
use super::scan_cache::ScanCache;
use super::warning::{ReadFault, Warning};
use crate::host::Host;
use crate::version::Version;

/// A source of installations that no row of `profiles/places.toml` can describe: it names directories.
pub(super) struct Source {
    /// Its name for `--without`.
    pub name: &'static str,
    /// True if only `list` asks it, which shows the environments of other programs too.
    pub elsewhere: bool,
    pub find: fn(&mut ScanContext<'_>) -> Vec<SearchLocation>,
}

/// The input and output of a source.
pub(super) struct ScanContext<'a> {
    pub host: &'a Host,
    pub scope: &'a Scope,
    /// Facts from an earlier scan, for files that have not changed since.
    pub cache: &'a mut ScanCache,
    pub warnings: Vec<Warning>,
    /// Paths that the result depends on, present or missing.
    pub watched: BTreeSet<PathBuf>,
}

/// A directory that may hold installations.
#[derive(Debug)]
pub(super) struct SearchLocation {
    pub directory: PathBuf,
    pub origin: Origin,
    /// The package records of its files, by file name.
    pub records: BTreeMap<String, PackageRecord>,
    /// The records of the files that several packages brought, and not the same, by file name.
    pub claims: BTreeMap<String, Vec<PackageRecord>>,
    /// A person or an administrator has named it: by an option, a trusted file, a loaded module or a variable that names
    /// one installation.
    pub is_named: bool,
    /// A path by which another user can make `LD_LIBRARY_PATH` lead there, if no other source names it.
    pub redirect: Option<WritablePath>,
}

/// Locations by directory.
#[derive(Default)]
pub(super) struct SearchLocations(BTreeMap<PathBuf, SearchLocation>);

/// The package record of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PackageRecord {
    /// Name and version: `nvidia-cudnn-cu12 9.1.0.70`.
    pub package: String,
    /// The version of the library, if the package's version contains it.
    pub version: Option<Version>,
    pub size: Option<u64>,
}

impl SearchLocation {
    pub(super) fn new(directory: impl Into<PathBuf>, origin: Origin) -> SearchLocation {
        SearchLocation {
            directory: directory.into(),
            origin,
            records: BTreeMap::new(),
            claims: BTreeMap::new(),
            is_named: false,
            redirect: None,
        }
    }
}

/// Marks locations that a person or an administrator has named.
pub(super) fn named(mut locations: Vec<SearchLocation>) -> Vec<SearchLocation> {
    for location in &mut locations {
        location.is_named = true;
    }
    locations
}

impl SearchLocations {
    pub(super) fn insert(&mut self, location: SearchLocation) {
        self.0.insert(location.directory.clone(), location);
    }

    /// Returns the location of a file, which gets this origin if it is new, and the file's name.
    pub(super) fn of_file<'p>(
        &mut self,
        path: &'p Path,
        origin: Origin,
    ) -> Option<(&mut SearchLocation, &'p str)> {
        let (directory, file) = (path.parent()?, path.file_name()?.to_str()?);
        let location = self
            .0
            .entry(directory.to_owned())
            .or_insert_with(|| SearchLocation::new(directory, origin));
        Some((location, file))
    }

    pub(super) fn all(self) -> Vec<SearchLocation> {
        self.0.into_values().collect()
    }
}

impl ScanContext<'_> {
    pub(super) fn warn(&mut self, path: impl Into<PathBuf>, fault: ReadFault) {
        self.warnings.push(Warning {
            path: path.into(),
            fault,
        });
    }

    pub(super) fn watch(&mut self, path: impl Into<PathBuf>) {
        self.watched.insert(path.into());
    }

    /// True if it is a file; watches the path in both cases.
    pub(super) fn is_file(&mut self, path: &Path) -> bool {
        self.watch(path);
        self.host.is_file(path)
    }

    /// The absolute path in a variable that is set and not empty.
    pub(super) fn named(&self, variable: &str) -> Option<PathBuf> {
        let path = self.host.env.non_empty(variable)?;
        Some(self.host.absolute(Path::new(path)))
    }

    /// The absolute paths in a variable with a list of paths.
    pub(super) fn named_list(&self, variable: &str) -> Vec<PathBuf> {
        let list = self.host.env.non_empty(variable).unwrap_or_default();
        std::env::split_paths(list)
            .filter(|path| path.is_absolute())
            .collect()
    }

    /// The paths that exist, links resolved, each once and in order.
    pub(super) fn real(&self, paths: Vec<PathBuf>) -> BTreeSet<PathBuf> {
        let paths = paths.into_iter();
        paths
            .filter_map(|path| self.host.canonical(&path).ok())
            .collect()
    }

    /// Watches a directory and returns the names in it.
    pub(super) fn children(&mut self, directory: &Path) -> Vec<String> {
        self.watch(directory);
        let entries = self.host.list(directory).unwrap_or_default();
        entries
            .into_iter()
            .filter_map(|entry| entry.name.into_string().ok())
            .collect()
    }

    /// [`Self::children`] of a directory of the system that few machines have.
    pub(super) fn children_if_there(&mut self, directory: &Path) -> Vec<String> {
        if self.host.is_directory(directory) {
            return self.children(directory);
        }
        self.watch_above(directory);
        Vec::new()
    }

    /// Watches the nearest directory above a missing path. It is often watched for other reasons as well, and each start
    /// asks for every watched path.
    pub(super) fn watch_above(&mut self, path: &Path) {
        let mut nearest = path;
        for directory in path.ancestors().skip(1) {
            if directory.parent().is_none() {
                break;
            }
            nearest = directory;
            // The kernel refuses longer paths, and a record may hold one of twenty thousand parts.
            let is_short = directory.as_os_str().len() < 4096;
            if is_short && self.host.stat(directory).is_ok() {
                break;
            }
        }
        if !is_busy(nearest) {
            self.watch(nearest);
        }
    }
}

/// True for directories that change all the time: no result that depends on one could be kept.
fn is_busy(directory: &Path) -> bool {
    ["/", "/dev", "/proc", "/run", "/sys", "/tmp", "/var/tmp"]
        .iter()
        .any(|busy| directory == Path::new(busy))
}

/// The order in which package records count: a package manager's before the manifest of a toolkit, which has versions
/// and no owners.
fn record_rank(origin: Origin) -> (bool, Origin) {
    (origin == Origin::Toolkit, origin)
}

/// The real path of a directory; none if there is none.
pub(super) fn real_directory(host: &Host, directory: &Path) -> Option<PathBuf> {
    let real = host.canonical(directory).ok()?;
    host.is_directory(&real).then_some(real)
}

/// Returns the locations by real directory. The lesser of two origins counts, and every package record is kept.
pub(super) fn merge(
    scan: &mut ScanContext<'_>,
    locations: Vec<SearchLocation>,
) -> BTreeMap<PathBuf, SearchLocation> {
    let mut merged: BTreeMap<PathBuf, SearchLocation> = BTreeMap::new();
    for location in locations {
        let Some(directory) = real_directory(scan.host, &location.directory) else {
            // A missing directory may appear.
            scan.watch_above(&location.directory);
            continue;
        };
        match merged.entry(directory) {
            Entry::Vacant(entry) => {
                let directory = entry.key().clone();
                entry.insert(SearchLocation {
                    directory,
                    ..location
                });
            }
            Entry::Occupied(mut entry) => {
                let known = entry.get_mut();
                known.is_named |= location.is_named;
                known.redirect = known.redirect.take().and(location.redirect);
                known.claims.extend(location.claims);
                if record_rank(known.origin) <= record_rank(location.origin) {
                    for (file, record) in location.records {
                        known.records.entry(file).or_insert(record);
                    }
                } else {
                    known.records.extend(location.records);
                }
                known.origin = known.origin.min(location.origin);
            }
        }
    }
    merged
}
