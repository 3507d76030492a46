//! What the package managers of distributions say alike: which of their packages hold libraries, and where.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::location::{Packaged, ScanContext, SearchLocation, SearchLocations};
use super::{Origin, ReadFault, Scope};
use crate::catalog;
use crate::formats::names;
use crate::host::Host;
use crate::version::Version;

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

/// The packages with libraries that a database knows, which is read when it looks otherwise than before: whatever a
/// package manager does, it writes to its database.
pub(super) fn installed(
    look: &mut ScanContext<'_>,
    database: &Path,
    read: impl Fn(&Host, &[u8]) -> Result<Vec<Package>, ReadFault>,
) -> Vec<Package> {
    look.watch(database);
    let Ok(stat) = look.host.stat(database) else { return Vec::new() };
    if let Some(packages) = look.known.packages.get(&stat) {
        return packages;
    }
    let found = match look.host.map(database) {
        _ if !stat.is_file() => Err(ReadFault::NotRegular),
        Err(error) => Err(ReadFault::unreadable(&error)),
        Ok(data) => read(look.host, &data),
    };
    match found {
        Ok(mut packages) => {
            packages.retain(|package| !package.libraries.is_empty());
            if look.known.is_settled(&stat) {
                look.known.packages.insert(&stat, &packages);
            }
            packages
        }
        Err(fault) => {
            look.warn(database, fault);
            Vec::new()
        }
    }
}

/// The directories of the libraries, each file with the package that brought it.
pub(super) fn places(
    scope: &Scope,
    packages: Vec<Package>,
    origin: Origin,
    library_version: &dyn Fn(&Package) -> Option<Version>,
) -> Vec<SearchLocation> {
    let mut places = SearchLocations::default();
    for package in packages {
        let is_for_own_use = catalog::packages_of(&package.name).is_some_and(|packages| packages.own_use);
        if is_for_own_use && !scope.elsewhere {
            continue;
        }
        let origin = if is_for_own_use { Origin::Bundled } else { origin };
        let version = library_version(&package);
        let title = format!("{} {}", package.name, package.version);
        for path in package.libraries.iter().map(Path::new) {
            let Some((place, file)) = places.of_file(path, origin) else { continue };
            let packaged = Packaged { package: title.clone(), version, size: None };
            place.packaged.insert(file.to_owned(), packaged);
        }
    }
    let mut places = places.all();
    places.iter_mut().for_each(leave_out_links_for_compilers);
    places
}

/// `libcudnn.so` comes with the headers, in another package than the library that it leads to.
fn leave_out_links_for_compilers(place: &mut SearchLocation) {
    let stem = |name: &String| names::split(name).map(|(stem, number)| (stem.to_owned(), number.is_empty()));
    let numbered: Vec<String> = place
        .packaged
        .keys()
        .filter_map(stem)
        .filter(|(_, is_bare)| !is_bare)
        .map(|(stem, _)| stem)
        .collect();
    place
        .packaged
        .retain(|name, _| stem(name).is_none_or(|(stem, is_bare)| !is_bare || !numbered.contains(&stem)));
}

pub fn is_wanted(package: &str) -> bool {
    catalog::packages_of(package).is_some()
}

/// Whether the first part of its version is that of the libraries in it.
pub(super) fn has_upstream_version(package: &Package) -> bool {
    catalog::packages_of(&package.name).is_some_and(|packages| packages.upstream)
}
