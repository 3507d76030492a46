//! Debian's and Ubuntu's package manager: the directories with libraries of its packages, and the package of each file.

use std::path::Path;

use super::installation::Origin;
use super::location::{Packaged, ScanContext, SearchLocation, SearchLocations};
use super::records;
use super::scan_cache::PackagedLibraries;
use super::warning::ReadFault;
use crate::catalog;
use crate::formats::{dpkg, elf, names};
use crate::host::Host;
use crate::version::Version;

pub(super) const STATUS: &str = "/var/lib/dpkg/status";
const LISTS: &str = "/var/lib/dpkg/info";

pub(super) fn places(look: &mut ScanContext<'_>) -> Vec<SearchLocation> {
    let architecture = match look.scope.machine {
        elf::AARCH64 => "arm64",
        _ => "amd64",
    };
    let mut places = SearchLocations::default();
    for package in installed(look) {
        let is_for_own_use =
            catalog::packages_of(&package.name).is_some_and(|packages| packages.own_use);
        let is_for_here = [architecture, "all"].contains(&package.architecture.as_str());
        if !is_for_here || is_for_own_use && !look.scope.elsewhere {
            continue;
        }
        let origin = if is_for_own_use {
            Origin::Bundled
        } else {
            Origin::Debian
        };
        let version = library_version(&package);
        let title = format!("{} {}", package.name, package.version);
        for path in package.libraries.iter().map(Path::new) {
            let Some((place, file)) = places.of_file(path, origin) else {
                continue;
            };
            let packaged = Packaged {
                package: title.clone(),
                version,
                size: None,
            };
            place.packaged.insert(file.to_owned(), packaged);
        }
    }
    let mut places = places.all();
    places.iter_mut().for_each(remove_links_for_compilers);
    places
}

/// The packages with libraries. The database is read again only after it changed: every change of the packages is
/// written to it.
fn installed(look: &mut ScanContext<'_>) -> Vec<PackagedLibraries> {
    let database = Path::new(STATUS);
    look.watch(database);
    let Ok(stat) = look.host.stat(database) else {
        return Vec::new();
    };
    if let Some(packages) = look.known.packages.get(&stat) {
        return packages;
    }
    let status = match look.host.map(database) {
        _ if !stat.is_file() => Err(ReadFault::NotRegular),
        status => status.map_err(|error| ReadFault::unreadable(&error)),
    };
    let status = match status {
        Ok(status) => status,
        Err(fault) => {
            look.warn(database, fault);
            return Vec::new();
        }
    };
    let mut installed = dpkg::installed(&status, &is_wanted);
    // A damaged database may name a package twice; its list is read once.
    installed.sort_by(|a, b| (&a.name, &a.architecture).cmp(&(&b.name, &b.architecture)));
    installed.dedup_by(|a, b| (&a.name, &a.architecture) == (&b.name, &b.architecture));
    let packages = installed
        .into_iter()
        .map(|package| with_libraries(look.host, package));
    let packages: Vec<PackagedLibraries> = packages
        .filter(|package| !package.libraries.is_empty())
        .collect();
    if look.known.is_settled(&stat) {
        look.known.packages.insert(&stat, &packages);
    }
    packages
}

fn with_libraries(host: &Host, package: dpkg::DebianPackage) -> PackagedLibraries {
    let dpkg::DebianPackage {
        name,
        version,
        architecture,
        is_coinstallable,
    } = package;
    let qualifier = if is_coinstallable {
        format!(":{architecture}")
    } else {
        String::new()
    };
    let list = format!("{name}{qualifier}.list");
    let list = host.read(&Path::new(LISTS).join(list)).unwrap_or_default();
    PackagedLibraries {
        name,
        version,
        architecture,
        libraries: dpkg::list(&list, &records::is_library),
    }
}

/// Removes `libcudnn.so`, a link for compilers: the package of the headers brings it, and not that of the library.
fn remove_links_for_compilers(place: &mut SearchLocation) {
    let stem = |name: &String| {
        names::split(name).map(|(stem, number)| (stem.to_owned(), number.is_empty()))
    };
    let stems = place.packaged.keys().filter_map(stem);
    let numbered: Vec<String> = stems
        .filter(|(_, is_bare)| !is_bare)
        .map(|(stem, _)| stem)
        .collect();
    place.packaged.retain(|name, _| {
        stem(name).is_none_or(|(stem, is_bare)| !is_bare || !numbered.contains(&stem))
    });
}

pub fn is_wanted(package: &str) -> bool {
    catalog::packages_of(package).is_some()
}

/// Returns the version of the libraries, if the version of the package contains it.
fn library_version(package: &PackagedLibraries) -> Option<Version> {
    let is_upstream = catalog::packages_of(&package.name).is_some_and(|packages| packages.upstream);
    let upstream = || dpkg::upstream(&package.version).filter(|_| is_upstream);
    dpkg::before_toolkit(&package.version).or_else(upstream)
}
