//! Directories from `LD_LIBRARY_PATH`, `LD_PRELOAD` and the program's own search paths.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::installation::Origin;
use super::location::{ScanContext, SearchLocation, real_directory};
use super::machine::{LibraryPathElement, Preload, Scope, SearchPath};
use super::owners::{self, ChangedBy, WritablePath};
use super::system;
use crate::catalog::{Family, catalog};
use crate::environment::{library_path_elements, preload_elements};
use crate::formats::elf::Elf;
use crate::formats::names;
use crate::host::{FileId, Host};
use crate::loader::search::{self, Tokens};
use crate::variables;

/// NVIDIA's libraries that are of no family: no program needs them from a directory of drivers or of stubs.
const WITHOUT_FAMILY: &[&str] = &["libcuinj64", "libaccinj64", "libcudla"];

pub(super) fn locations(scan: &mut ScanContext<'_>) -> Vec<SearchLocation> {
    let host = scan.host;
    let mut locations = Vec::new();
    for (text, path) in elements(host, scan.scope) {
        let Some(path) = path else { continue };
        // A missing directory may appear.
        if !text.is_empty() {
            scan.watch(host.absolute(&path));
        }
        let Some(directory) = directory(host, &path) else {
            continue;
        };
        let mut location = SearchLocation::new(directory, Origin::Loose);
        location.redirect = if path.is_relative() {
            Some(WritablePath {
                path: location.directory.clone(),
                who: ChangedBy::CurrentDirectory,
            })
        } else {
            owners::on_the_way(host, &path)
        };
        locations.push(location);
    }
    for file in preloaded_elements(host) {
        if let Some(directory) = Path::new(&file).parent()
            && directory.is_absolute()
        {
            locations.push(SearchLocation::new(directory, Origin::Loose));
        }
    }
    locations
}

fn preloaded_elements(host: &Host) -> Vec<OsString> {
    let value = host.env.non_empty(variables::PRELOAD);
    value.map(preload_elements).unwrap_or_default()
}

/// The directories in the search paths of the program's files. Most are known from a better source as well.
pub(super) fn own_directories(scan: &mut ScanContext<'_>) -> Vec<SearchLocation> {
    let mut locations = Vec::new();
    for directory in &scan.scope.own_directories {
        let mut sites = scan.scope.site_packages.iter();
        let origin = if sites.any(|site| directory.starts_with(site)) {
            Origin::Bundled
        } else {
            Origin::Loose
        };
        locations.push(SearchLocation::new(directory, origin));
    }
    locations
}

pub(super) fn search(host: &Host, scope: &Scope) -> SearchPath {
    let mut cache = BTreeMap::new();
    for (soname, path) in system::read_cache(host, scope.machine)
        .unwrap_or_default()
        .iter()
    {
        if catalog().family_of(soname).is_some()
            && let Ok(stat) = host.stat(path)
        {
            cache.insert(soname.to_owned(), stat.id);
        }
    }
    let mut defaults: Vec<PathBuf> = Vec::new();
    for directory in search::default_directories(host, scope.machine) {
        if let Ok(real) = host.canonical(&directory)
            && !defaults.contains(&real)
        {
            defaults.push(real);
        }
    }
    let mut library_path = Vec::new();
    for (text, path) in elements(host, scope) {
        let directory = path.and_then(|path| directory(host, &path));
        let others = directory
            .as_ref()
            .is_some_and(|directory| holds_others(host, directory));
        library_path.push(LibraryPathElement {
            text,
            directory,
            others,
        });
    }
    let preload = preloaded_elements(host)
        .into_iter()
        .map(|text| preloaded(host, scope, text))
        .collect();
    SearchPath {
        library_path,
        preload,
        cache,
        defaults,
    }
}

/// Returns the elements of `LD_LIBRARY_PATH` with the path of each, which may be relative; none if it depends on an
/// unknown executable.
fn elements(host: &Host, scope: &Scope) -> Vec<(OsString, Option<PathBuf>)> {
    let Some(value) = host.env.get(variables::LIBRARY_PATH) else {
        return Vec::new();
    };
    let executable = scope.executable.as_ref();
    let executable = executable.and_then(|executable| host.canonical(executable).ok());
    let origin = executable.as_deref().and_then(Path::parent);
    let tokens = Tokens::new(host, scope.machine);
    library_path_elements(value)
        .into_iter()
        .map(|text| {
            let path = tokens.expand(text.as_bytes(), origin);
            (text, path)
        })
        .collect()
}

/// The real path of a directory; none if there is none.
fn directory(host: &Host, path: &Path) -> Option<PathBuf> {
    real_directory(host, &host.absolute(path))
}

/// True if a directory holds shared libraries that are not NVIDIA's.
fn holds_others(host: &Host, directory: &Path) -> bool {
    let entries = host.list(directory).unwrap_or_default();
    entries.iter().any(|entry| {
        entry.name.to_str().is_some_and(|name| {
            names::split(name).is_some_and(|(stem, _)| {
                catalog().family_of(name).is_none()
                    && !WITHOUT_FAMILY.contains(&stem)
                    && !stem.contains("nvidia")
            })
        })
    })
}

/// The file that the loader takes for an element of `LD_PRELOAD`. It searches for a bare name, and does not look into the
/// current directory.
fn preloaded_file(host: &Host, scope: &Scope, element: &OsStr) -> Option<PathBuf> {
    if element.as_bytes().contains(&b'/') {
        return Some(host.absolute(Path::new(element)));
    }
    for (_, path) in elements(host, scope) {
        if let Some(path) = path {
            let file = host.absolute(&path).join(element);
            if host.is_file(&file) {
                return Some(file);
            }
        }
    }
    let cache = system::read_cache(host, scope.machine).unwrap_or_default();
    if let Some((_, path)) = cache.iter().find(|(soname, _)| element == *soname) {
        return Some(path.to_owned());
    }
    search::default_directories(host, scope.machine)
        .into_iter()
        .map(|directory| directory.join(element))
        .find(|path| host.is_file(path))
}

fn preloaded(host: &Host, scope: &Scope, text: OsString) -> Preload {
    if let Some((family, id)) = family_of_preloaded(host, scope, &text) {
        return Preload {
            text,
            file: Some(id),
            family: Some(family.name.clone()),
        };
    }
    // The family of a file that is not found is known by its name.
    let family = text.to_str().and_then(|name| catalog().family_of(name));
    Preload {
        file: None,
        family: family.map(|(family, _)| family.name.clone()),
        text,
    }
}

fn family_of_preloaded(
    host: &Host,
    scope: &Scope,
    element: &OsStr,
) -> Option<(&'static Family, FileId)> {
    let path = preloaded_file(host, scope, element)?;
    let file = host.map(&path).ok()?;
    let elf = Elf::parse(&file).ok()?;
    let name = match elf.soname() {
        Some(soname) => String::from_utf8_lossy(soname).into_owned(),
        None => path.file_name()?.to_str()?.to_owned(),
    };
    let (family, _) = catalog().family_of(&name)?;
    Some((family, host.stat(&path).ok()?.id))
}
