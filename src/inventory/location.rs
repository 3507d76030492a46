//! The directories that the sources name, and the merging of several sources' facts of one directory.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::machine::Scope;
use super::model::Origin;
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
    pub known: &'a mut ScanCache,
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
    pub packaged: BTreeMap<String, Packaged>,
    /// The records of the files that several packages brought, and not the same, by file name.
    pub claimed: BTreeMap<String, Vec<Packaged>>,
    /// A person or an administrator has named it: by an option, a trusted file, a loaded module or a variable that names
    /// one installation.
    pub is_named: bool,
    /// Another user can decide that `LD_LIBRARY_PATH` leads there, and no other source names it.
    pub led_by: Option<WritablePath>,
}

/// Places by directory.
#[derive(Default)]
pub(super) struct SearchLocations(BTreeMap<PathBuf, SearchLocation>);

/// The package record of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Packaged {
    /// Name and version: `nvidia-cudnn-cu12 9.1.0.70`.
    pub package: String,
    /// The version of the library, if the package's version contains it.
    pub version: Option<Version>,
    pub size: Option<u64>,
}

impl SearchLocation {
    pub(super) fn new(directory: impl Into<PathBuf>, origin: Origin) -> SearchLocation {
        let (packaged, claimed) = (BTreeMap::new(), BTreeMap::new());
        let directory = directory.into();
        SearchLocation {
            directory,
            origin,
            packaged,
            claimed,
            is_named: false,
            led_by: None,
        }
    }
}

/// Marks places that a person or an administrator has named.
pub(super) fn named(mut places: Vec<SearchLocation>) -> Vec<SearchLocation> {
    for place in &mut places {
        place.is_named = true;
    }
    places
}

impl SearchLocations {
    pub(super) fn insert(&mut self, place: SearchLocation) {
        self.0.insert(place.directory.clone(), place);
    }

    /// Returns the place of a file, which gets this origin if it is new, and the file's name.
    pub(super) fn of_file<'p>(
        &mut self,
        path: &'p Path,
        origin: Origin,
    ) -> Option<(&mut SearchLocation, &'p str)> {
        let (directory, file) = (path.parent()?, path.file_name()?.to_str()?);
        Some((
            self.0
                .entry(directory.to_owned())
                .or_insert_with(|| SearchLocation::new(directory, origin)),
            file,
        ))
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

    /// Returns the absolute path in a variable that is set and not empty.
    pub(super) fn named(&self, variable: &str) -> Option<PathBuf> {
        self.host
            .env
            .non_empty(variable)
            .map(|path| self.host.absolute(Path::new(path)))
    }

    /// Returns the paths that exist, links resolved, each once and in order.
    pub(super) fn real(&self, paths: impl IntoIterator<Item = PathBuf>) -> Vec<PathBuf> {
        let real = paths
            .into_iter()
            .filter_map(|path| self.host.canonical(&path).ok());
        real.collect::<BTreeSet<_>>().into_iter().collect()
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
        let below_root = path.ancestors().filter(|above| above.parent().is_some());
        // The kernel refuses longer paths, and a record may hold one of twenty thousand parts.
        let is_short = |above: &&Path| above.as_os_str().len() < 4096;
        let mut above = below_root.clone().skip(1).filter(is_short);
        let nearest = above.find(|above| self.host.stat(above).is_ok());
        let nearest = nearest.or(below_root.last());
        self.watched
            .extend(nearest.filter(|above| !is_busy(above)).map(Path::to_owned));
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

/// Returns the real path of a directory; none if there is none.
pub(super) fn real_directory(host: &Host, directory: &Path) -> Option<PathBuf> {
    let real = host.canonical(directory).ok()?;
    host.is_directory(&real).then_some(real)
}

/// Returns the places by real directory. The lesser of two origins counts, and every package record is kept.
pub(super) fn merge(
    scan: &mut ScanContext<'_>,
    places: Vec<SearchLocation>,
) -> BTreeMap<PathBuf, SearchLocation> {
    let mut merged: BTreeMap<PathBuf, SearchLocation> = BTreeMap::new();
    for place in places {
        let Some(directory) = real_directory(scan.host, &place.directory) else {
            // A missing directory may appear.
            scan.watch_above(&place.directory);
            continue;
        };
        match merged.entry(directory) {
            Entry::Vacant(entry) => {
                let directory = entry.key().clone();
                entry.insert(SearchLocation { directory, ..place });
            }
            Entry::Occupied(mut entry) => {
                let known = entry.get_mut();
                known.is_named |= place.is_named;
                known.led_by = known.led_by.take().and(place.led_by);
                known.claimed.extend(place.claimed);
                let (better, mut packaged) =
                    if record_rank(known.origin) <= record_rank(place.origin) {
                        (std::mem::take(&mut known.packaged), place.packaged)
                    } else {
                        (place.packaged, std::mem::take(&mut known.packaged))
                    };
                packaged.extend(better);
                known.packaged = packaged;
                known.origin = known.origin.min(place.origin);
            }
        }
    }
    merged
}
