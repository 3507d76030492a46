//! Directories that the loader searches without any search path: those in `/etc/ld.so.cache` and the defaults.

use std::path::Path;

use super::debian;
use super::location::{ScanContext, SearchLocation};
use super::model::Origin;
use super::warning::{ReadFault, Warning};
use crate::catalog::catalog;
use crate::formats::elf::Elf;
use crate::formats::ldcache::LdCache;
use crate::host::Host;
use crate::loader::{rules, search};
use crate::version::Version;

/// The loaders, as the ABI of each kind of machine names them.
const LOADERS: &[&str] = &["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"];
pub(super) const CACHE: &str = "/etc/ld.so.cache";

pub(super) fn places(look: &mut ScanContext<'_>) -> Vec<SearchLocation> {
    let (host, scope) = (look.host, look.scope);
    look.watch(CACHE);
    let mut directories = search::default_directories(host, scope.machine);
    match read_cache(host, scope.machine) {
        Ok(cache) => {
            let known = cache.iter().filter(|(soname, _)| catalog().family_of(soname).is_some());
            directories.extend(known.filter_map(|(_, path)| path.parent().map(Path::to_owned)));
        }
        Err(why) => look.warnings.extend(why),
    }
    directories.into_iter().map(|directory| SearchLocation::new(directory, Origin::Loose)).collect()
}

/// True if Debian's package manager knows a repository of NVIDIA's.
pub(super) fn has_cuda_apt(host: &Host) -> bool {
    let sources = Path::new("/etc/apt/sources.list.d");
    let is_nvidias = |name: &std::ffi::OsStr| {
        let name = name.to_string_lossy();
        name.contains("nvidia") || name.contains("cuda")
    };
    let has_dpkg = host.is_file(Path::new(debian::STATUS));
    has_dpkg && host.list(sources).unwrap_or_default().iter().any(|entry| is_nvidias(&entry.name))
}

/// Returns the loader's cache. Fails with a warning if it is damaged, and without one if it is missing.
pub(super) fn read_cache(host: &Host, machine: u16) -> Result<LdCache, Option<Warning>> {
    let Ok(bytes) = host.read(Path::new(CACHE)) else { return Err(None) };
    LdCache::parse(&bytes, machine).map_err(|error| {
        Some(Warning { path: CACHE.into(), fault: ReadFault::BadRecord { what: error.to_string() } })
    })
}

/// Returns the ELF machine of the first loader that exists.
pub(super) fn machine(host: &Host) -> Option<u16> {
    LOADERS.iter().find_map(|loader| {
        let file = host.map(Path::new(loader)).ok()?;
        Some(Elf::parse(&file).ok()?.machine())
    })
}

/// The newest `GLIBC_` version that the C library of the default directories defines.
pub(super) fn glibc(host: &Host, machine: u16) -> Option<Version> {
    let (major, minor) = rules::release(host, machine)?;
    format!("{major}.{minor}").parse().ok()
}
