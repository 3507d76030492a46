//! Directories that the loader searches without any search path: those in `/etc/ld.so.cache` and the defaults.

use std::path::Path;

use super::debian;
use super::installation::Origin;
use super::location::{ScanContext, SearchLocation};
use super::warning::{ReadFault, Warning};
use crate::catalog::catalog;
use crate::formats::elf::{AARCH64, Elf, X86_64};
use crate::formats::ldcache::LdCache;
use crate::host::Host;
use crate::loader::{rules, search};
use crate::version::Version;

pub(super) const CACHE: &str = "/etc/ld.so.cache";

pub(super) fn locations(scan: &mut ScanContext<'_>) -> Vec<SearchLocation> {
    let (host, scope) = (scan.host, scan.scope);
    scan.watch(CACHE);
    let mut directories = search::default_directories(host, scope.machine);
    match read_cache(host, scope.machine) {
        Ok(cache) => {
            for (soname, path) in cache.iter() {
                if catalog().family_of(soname).is_some() {
                    directories.extend(path.parent().map(Path::to_owned));
                }
            }
        }
        Err(warning) => scan.warnings.extend(warning),
    }
    directories
        .into_iter()
        .map(|directory| SearchLocation::new(directory, Origin::Loose))
        .collect()
}

/// True if Debian's package manager knows a repository of NVIDIA's.
pub(super) fn has_cuda_apt(host: &Host) -> bool {
    if !host.is_file(Path::new(debian::STATUS)) {
        return false;
    }
    let sources = host.list(Path::new("/etc/apt/sources.list.d"));
    sources.unwrap_or_default().iter().any(|entry| {
        let name = entry.name.to_string_lossy();
        name.contains("nvidia") || name.contains("cuda")
    })
}

/// Returns the loader's cache. Fails with a warning if it is damaged, and without one if it is missing.
pub(super) fn read_cache(host: &Host, machine: u16) -> Result<LdCache, Option<Warning>> {
    let Ok(bytes) = host.read(Path::new(CACHE)) else {
        return Err(None);
    };
    LdCache::parse(&bytes, machine).map_err(|part| {
        Some(Warning {
            path: CACHE.into(),
            fault: ReadFault::BadRecord {
                what: format!("not a cache of ld.so ({part})"),
            },
        })
    })
}

/// Returns the ELF machine of the first loader that exists: the root may be an image of another kind of machine.
pub fn machine(host: &Host) -> Option<u16> {
    [X86_64, AARCH64].into_iter().find_map(|machine| {
        let file = host.map(rules::standard_loader(machine)).ok()?;
        Some(Elf::parse(&file).ok()?.machine())
    })
}

/// The newest `GLIBC_` version that the C library of the default directories defines.
pub(super) fn glibc(host: &Host, machine: u16) -> Option<Version> {
    let (major, minor) = rules::release(host, machine)?;
    format!("{major}.{minor}").parse().ok()
}
