//! Debian's and Ubuntu's package manager: the directories with libraries of its packages, and the package of each file.

use std::collections::BTreeSet;
use std::path::Path;

use super::installation::Origin;
use super::location::{PackageRecord, ScanContext, SearchLocation, SearchLocations};
use super::records;
use super::scan_cache::PackagedLibraries;
use super::warning::ReadFault;
use crate::catalog;
use crate::formats::{dpkg, elf, names};
use crate::host::Host;
use crate::version::Version;

pub(super) const STATUS: &str = "/var/lib/dpkg/status";
const LISTS: &str = "/var/lib/dpkg/info";

pub(super) fn locations(scan: &mut ScanContext<'_>) -> Vec<SearchLocation> {
    let architecture = match scan.scope.machine {
        elf::AARCH64 => "arm64",
        _ => "amd64",
    };
    let mut locations = SearchLocations::default();
    for package in installed(scan) {
        let is_for_own_use =
            catalog::packages_of(&package.name).is_some_and(|packages| packages.own_use);
        let is_for_here = [architecture, "all"].contains(&package.architecture.as_str());
        if !is_for_here || is_for_own_use && !scan.scope.elsewhere {
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
            let Some((location, file)) = locations.of_file(path, origin) else {
                continue;
            };
            let record = PackageRecord {
                package: title.clone(),
                version,
                size: None,
            };
            location.records.insert(file.to_owned(), record);
        }
    }
    let mut locations = locations.all();
    for location in &mut locations {
        remove_links_for_compilers(location);
    }
    locations
}

/// The packages with libraries. The database is read again only after it changed: every change of the packages is
/// written to it.
fn installed(scan: &mut ScanContext<'_>) -> Vec<PackagedLibraries> {
    let database = Path::new(STATUS);
    scan.watch(database);
    let Ok(stat) = scan.host.stat(database) else {
        return Vec::new();
    };
    if let Some(packages) = scan.cache.packages.get(&stat) {
        return packages;
    }
    let status = match scan.host.map(database) {
        _ if !stat.is_file() => Err(ReadFault::NotRegular),
        status => status.map_err(|error| ReadFault::unreadable(&error)),
    };
    let status = match status {
        Ok(status) => status,
        Err(fault) => {
            scan.warn(database, fault);
            return Vec::new();
        }
    };
    let mut installed = dpkg::installed(&status, &is_wanted);
    // A damaged database may name a package twice; its list is read once.
    installed.sort_by(|a, b| (&a.name, &a.architecture).cmp(&(&b.name, &b.architecture)));
    installed.dedup_by(|a, b| (&a.name, &a.architecture) == (&b.name, &b.architecture));
    let mut packages = Vec::new();
    for package in installed {
        let package = with_libraries(scan.host, package);
        if !package.libraries.is_empty() {
            packages.push(package);
        }
    }
    if scan.cache.is_settled(&stat) {
        scan.cache.packages.insert(&stat, &packages);
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
fn remove_links_for_compilers(location: &mut SearchLocation) {
    let mut numbered = BTreeSet::new();
    for name in location.records.keys() {
        if let Some((stem, number)) = names::split(name)
            && !number.is_empty()
        {
            numbered.insert(stem.to_owned());
        }
    }
    location.records.retain(|name, _| {
        names::split(name)
            .is_none_or(|(stem, number)| !number.is_empty() || !numbered.contains(stem))
    });
}

pub fn is_wanted(package: &str) -> bool {
    catalog::packages_of(package).is_some()
}

/// The version of the libraries, if the version of the package contains it.
fn library_version(package: &PackagedLibraries) -> Option<Version> {
    if let Some(version) = dpkg::before_toolkit(&package.version) {
        return Some(version);
    }
    let is_upstream = catalog::packages_of(&package.name)?.upstream;
    dpkg::upstream(&package.version).filter(|_| is_upstream)
}
