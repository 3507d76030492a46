//! Where installations may stand: what the sources say of directories, and how what several say of one comes together.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::machine::Scope;
use super::model::Origin;
use super::real::RealPaths;
use super::scan_cache::ScanCache;
use super::warning::{ReadFault, Warning};
use crate::host::Host;
use crate::version::Version;

/// A source of installations: it names directories, and what is in them is read alike for all.
pub(super) struct Source {
    /// As `--without` has it.
    pub name: &'static str,
    pub reach: Reach,
    pub find: fn(&mut ScanContext<'_>) -> Vec<SearchLocation>,
}

/// When a source is asked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Always.
    Here,
    /// When the whole machine is looked at, other people's environments and all: by `list`, never by a start.
    Elsewhere,
}

/// What a source works with.
pub(super) struct ScanContext<'a> {
    pub host: &'a Host,
    pub scope: &'a Scope,
    /// What an earlier look found out about files that have not changed since.
    pub known: &'a mut ScanCache,
    pub warnings: Vec<Warning>,
    /// What the answer depends on, there or not.
    pub watched: BTreeSet<PathBuf>,
}

/// A directory that may hold installations.
#[derive(Debug)]
pub(super) struct SearchLocation {
    pub directory: PathBuf,
    pub origin: Origin,
    /// What package records say of its files, by file name.
    pub packaged: BTreeMap<String, Packaged>,
    /// A person or an administrator has named it: by an option, a trusted file, a loaded module or a variable that names
    /// one installation.
    pub is_named: bool,
    /// Only an empty or relative element of `LD_LIBRARY_PATH` leads there.
    pub is_relative: bool,
}

/// SearchLocations by their directories, as lists of files fill them.
#[derive(Default)]
pub(super) struct SearchLocations(BTreeMap<PathBuf, SearchLocation>);

/// What a package's record says of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Packaged {
    /// `nvidia-cudnn-cu12 9.1.0.70`, as its package manager writes it.
    pub package: String,
    /// The version of the library, where the package's tells it.
    pub version: Option<Version>,
    pub size: Option<u64>,
}

impl SearchLocation {
    pub(super) fn new(directory: impl Into<PathBuf>, origin: Origin) -> SearchLocation {
        let packaged = BTreeMap::new();
        SearchLocation { directory: directory.into(), origin, packaged, is_named: false, is_relative: false }
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

    /// The place of a file, which is of this origin if it is new, and the file's name there.
    pub(super) fn of_file<'p>(
        &mut self,
        path: &'p Path,
        origin: Origin,
    ) -> Option<(&mut SearchLocation, &'p str)> {
        let (directory, file) = (path.parent()?, path.file_name()?.to_str()?);
        Some((
            self.0.entry(directory.to_owned()).or_insert_with(|| SearchLocation::new(directory, origin)),
            file,
        ))
    }

    pub(super) fn all(self) -> Vec<SearchLocation> {
        self.0.into_values().collect()
    }
}

impl ScanContext<'_> {
    pub(super) fn warn(&mut self, path: impl Into<PathBuf>, fault: ReadFault) {
        self.warnings.push(Warning { path: path.into(), fault });
    }

    pub(super) fn watch(&mut self, path: impl Into<PathBuf>) {
        self.watched.insert(path.into());
    }

    /// Where a variable leads, if it is set to something.
    pub(super) fn named(&self, variable: &str) -> Option<PathBuf> {
        self.host.env.non_empty(variable).map(|path| self.host.absolute(Path::new(path)))
    }

    /// The paths that lead to something, links resolved, each once and in order.
    pub(super) fn real(&self, paths: impl IntoIterator<Item = PathBuf>) -> Vec<PathBuf> {
        let real = paths.into_iter().filter_map(|path| self.host.canonical(&path).ok());
        real.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The names of the entries of a directory, which is watched.
    pub(super) fn children(&mut self, directory: &Path) -> Vec<String> {
        self.watch(directory);
        let entries = self.host.list(directory).unwrap_or_default();
        entries.into_iter().filter_map(|entry| entry.name.into_string().ok()).collect()
    }

    /// The same for a directory of the system that few machines have: where it is not there, what is watched is the
    /// directory in which it would begin. Others watch that as well, and each path is asked for at every start.
    pub(super) fn children_if_there(&mut self, directory: &Path) -> Vec<String> {
        let below_root = directory.ancestors().filter(|ancestor| ancestor.parent().is_some());
        let nearest = below_root.clone().find(|ancestor| self.host.stat(ancestor).is_ok());
        self.watched.extend(nearest.or(below_root.last()).map(Path::to_owned));
        let entries = self.host.list(directory).unwrap_or_default();
        entries.into_iter().filter_map(|entry| entry.name.into_string().ok()).collect()
    }
}

/// Directories in which something changes all the time: to watch them would be to keep nothing.
fn is_busy(directory: &Path) -> bool {
    ["/", "/dev", "/proc", "/run", "/sys", "/tmp", "/var/tmp"].iter().any(|busy| directory == Path::new(busy))
}

/// Whose records count before another's: the manifest of a toolkit knows versions, and a package manager knows too
/// which package owns a file.
fn tells_owners(origin: Origin) -> (bool, Origin) {
    (origin == Origin::Toolkit, origin)
}

/// The places by their real directories: of two origins the first counts in the order that `Origin` has, and
/// every package record is kept.
pub(super) fn merge(
    real: &mut RealPaths<'_>,
    watched: &mut BTreeSet<PathBuf>,
    places: Vec<SearchLocation>,
) -> BTreeMap<PathBuf, SearchLocation> {
    let mut merged: BTreeMap<PathBuf, SearchLocation> = BTreeMap::new();
    for place in places {
        let Some(directory) = real.of(&place.directory) else {
            // What is not there may come.
            let nearest = real.nearest(&place.directory).filter(|nearest| !is_busy(nearest));
            watched.extend(nearest.map(Path::to_owned));
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
                known.is_relative &= place.is_relative;
                let (better, mut packaged) = if tells_owners(known.origin) <= tells_owners(place.origin) {
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
