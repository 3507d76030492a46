//! RPM's database, as Fedora since 33, RHEL since 9 and their kin have it: the directories that packages put libraries
//! in, and which package each file is from. RHEL 8 keeps it in Berkeley DB and SUSE in ndb: there, libraries are found
//! where the loader looks, and have no owner.
//!
//! RPM rebuilds the database beside the one in use and never makes that shorter, so that it can be mapped. What stands
//! in a write-ahead log while RPM works is not seen, and is written back before RPM ends.

use std::path::Path;

use super::location::{ScanContext, SearchLocation};
use super::packages::{self, Package};
use super::{Origin, ReadFault, records};
use crate::formats::{elf, rpm};
use crate::version::Version;

/// Where it stands, and where it stood before; one is often a link to the other.
const DATABASES: [&str; 2] = ["/usr/lib/sysimage/rpm/rpmdb.sqlite", "/var/lib/rpm/rpmdb.sqlite"];

pub(super) fn places(look: &mut ScanContext<'_>) -> Vec<SearchLocation> {
    let database = DATABASES.map(Path::new).into_iter().find(|database| look.host.is_file(database));
    look.watched.extend(DATABASES.map(Into::into));
    let Some(database) = database else { return Vec::new() };
    let mut packages = packages::installed(look, database, |_, data| {
        let bad = |error: rpm::DatabaseError| ReadFault::BadRecord { what: error.to_string() };
        let installed = rpm::installed(data, &packages::is_wanted, &records::is_library).map_err(bad)?;
        Ok(installed.into_iter().map(package).collect())
    });
    let architecture = match look.scope.machine {
        elf::AARCH64 => "aarch64",
        _ => "x86_64",
    };
    packages.retain(|package| [architecture, "noarch"].contains(&package.architecture.as_str()));
    packages::places(look.scope, packages, Origin::Rpm, &library_version)
}

fn package(package: rpm::Package) -> Package {
    let rpm::Package { name, version, release, architecture, files } = package;
    Package { name, version: format!("{version}-{release}"), architecture, libraries: files }
}

fn library_version(package: &Package) -> Option<Version> {
    let (version, _) = package.version.rsplit_once('-')?;
    version
        .parse()
        .ok()
        .filter(|version: &Version| version.numbers().len() >= 3 && packages::has_upstream_version(package))
}
