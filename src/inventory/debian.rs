//! Debian's package manager, and Ubuntu's: the directories that its packages put libraries in, wherever they are, and
//! which package each file is from.

use std::path::Path;

use super::location::{ScanContext, SearchLocation};
use super::packages::{self, Package};
use super::{Origin, records};
use crate::formats::{dpkg, elf};
use crate::host::Host;
use crate::version::Version;

pub(super) const STATUS: &str = "/var/lib/dpkg/status";
const LISTS: &str = "/var/lib/dpkg/info";

pub(super) fn places(look: &mut ScanContext<'_>) -> Vec<SearchLocation> {
    let mut packages = packages::installed(look, Path::new(STATUS), |host, status| {
        let mut installed = dpkg::installed(status, &packages::is_wanted);
        // A package stands there once; its list is not read twice whatever is written.
        installed.sort_by(|a, b| (&a.name, &a.architecture).cmp(&(&b.name, &b.architecture)));
        installed.dedup_by(|a, b| (&a.name, &a.architecture) == (&b.name, &b.architecture));
        Ok(installed.into_iter().map(|package| with_libraries(host, package)).collect())
    });
    let architecture = match look.scope.machine {
        elf::AARCH64 => "arm64",
        _ => "amd64",
    };
    packages.retain(|package| [architecture, "all"].contains(&package.architecture.as_str()));
    packages::places(look.scope, packages, Origin::Debian, &library_version)
}

fn with_libraries(host: &Host, package: dpkg::Package) -> Package {
    let dpkg::Package { name, version, architecture, is_coinstallable } = package;
    let qualifier = if is_coinstallable { format!(":{architecture}") } else { String::new() };
    let list = format!("{name}{qualifier}.list");
    let list = host.read(&Path::new(LISTS).join(list)).unwrap_or_default();
    Package { name, version, architecture, libraries: dpkg::list(&list, &records::is_library) }
}

fn library_version(package: &Package) -> Option<Version> {
    let version = package.version.as_str();
    let upstream = || dpkg::upstream(version).filter(|_| packages::has_upstream_version(package));
    dpkg::before_toolkit(version).or_else(upstream)
}
