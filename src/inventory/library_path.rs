//! Directories from `LD_LIBRARY_PATH`, `LD_PRELOAD` and the program's own search paths.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::installation::Origin;
use super::location::{ScanContext, SearchLocation};
use super::machine::{LibraryPathElement, Preload, Scope, SearchPath};
use super::owners::{self, ChangedBy, WritablePath};
use super::system;
use crate::catalog::catalog;
use crate::environment::{library_path_elements, preload_elements};
use crate::formats::elf::Elf;
use crate::formats::names;
use crate::host::Host;
use crate::loader::search::{self, Tokens};
use crate::variables;

/// NVIDIA's libraries that are of no family: no program needs them from a directory of drivers or of stubs.
const WITHOUT_FAMILY: &[&str] = &["libcuinj64", "libaccinj64", "libcudla"];

pub(super) fn places(look: &mut ScanContext<'_>) -> Vec<SearchLocation> {
    let (host, scope) = (look.host, look.scope);
    let elements = elements(host, scope);
    // A missing directory may appear.
    let named = elements.iter().filter(|(text, _)| !text.is_empty());
    look.watched
        .extend(named.filter_map(|(_, path)| Some(host.absolute(path.as_deref()?))));
    let preloaded = host
        .env
        .non_empty(variables::PRELOAD)
        .map(preload_elements)
        .unwrap_or_default();
    let preloaded = preloaded
        .iter()
        .filter_map(|element| Path::new(element).parent())
        .filter(|p| p.is_absolute());
    let searched = elements.iter().filter_map(|(_, path)| {
        let path = path.as_deref()?;
        let place = SearchLocation::new(directory(host, path)?, Origin::Loose);
        let led_by = if path.is_relative() {
            Some(WritablePath {
                path: place.directory.clone(),
                who: ChangedBy::CurrentDirectory,
            })
        } else {
            owners::on_the_way(host, path)
        };
        Some(SearchLocation { led_by, ..place })
    });
    searched
        .chain(preloaded.map(|directory| SearchLocation::new(directory, Origin::Loose)))
        .collect()
}

/// The directories in the search paths of the program's files. Most are known from a better source as well.
pub(super) fn own_directories(look: &mut ScanContext<'_>) -> Vec<SearchLocation> {
    let scope = look.scope;
    let in_site = |directory: &PathBuf| {
        scope
            .site_packages
            .iter()
            .any(|site| directory.starts_with(site))
    };
    let origin = |directory: &PathBuf| {
        if in_site(directory) {
            Origin::Bundled
        } else {
            Origin::Loose
        }
    };
    scope
        .own_directories
        .iter()
        .map(|directory| SearchLocation::new(directory, origin(directory)))
        .collect()
}

pub(super) fn search(host: &Host, scope: &Scope) -> SearchPath {
    let cache = system::read_cache(host, scope.machine).unwrap_or_default();
    let known = cache
        .iter()
        .filter(|(soname, _)| catalog().family_of(soname).is_some());
    let preload = host
        .env
        .non_empty(variables::PRELOAD)
        .map(preload_elements)
        .unwrap_or_default();
    let mut defaults: Vec<PathBuf> = Vec::new();
    for directory in search::default_directories(host, scope.machine) {
        let real = host
            .canonical(&directory)
            .ok()
            .filter(|real| !defaults.contains(real));
        defaults.extend(real);
    }
    let element = |(text, path): (OsString, Option<PathBuf>)| {
        let directory = path.and_then(|path| directory(host, &path));
        let others = directory
            .as_ref()
            .is_some_and(|directory| holds_others(host, directory));
        LibraryPathElement {
            text,
            directory,
            others,
        }
    };
    SearchPath {
        library_path: elements(host, scope).into_iter().map(element).collect(),
        preload: preload
            .into_iter()
            .map(|text| preloaded(host, scope, text))
            .collect(),
        cache: known
            .filter_map(|(soname, path)| Some((soname.to_owned(), host.stat(path).ok()?.id)))
            .collect(),
        defaults,
    }
}

/// Returns the elements of `LD_LIBRARY_PATH` with the path of each, which may be relative; none if it depends on an
/// unknown executable.
fn elements(host: &Host, scope: &Scope) -> Vec<(OsString, Option<PathBuf>)> {
    let Some(given) = host.env.get(variables::LIBRARY_PATH) else {
        return Vec::new();
    };
    let executable = scope
        .executable
        .as_ref()
        .and_then(|executable| host.canonical(executable).ok());
    let origin = executable
        .as_ref()
        .and_then(|executable| executable.parent());
    let tokens = Tokens::new(host, scope.machine);
    let element = |text: OsString| {
        let path = tokens.expand(text.as_bytes(), origin);
        (text, path)
    };
    library_path_elements(given)
        .into_iter()
        .map(element)
        .collect()
}

/// Returns the real path of a directory; none if there is none.
fn directory(host: &Host, path: &Path) -> Option<PathBuf> {
    let path = host.canonical(&host.absolute(path)).ok()?;
    host.is_directory(&path).then_some(path)
}

/// True if a directory holds shared libraries that are not NVIDIA's.
fn holds_others(host: &Host, directory: &Path) -> bool {
    let is_other = |name: &str| {
        let Some((stem, _)) = names::split(name) else {
            return false;
        };
        let is_known = catalog().family_of(name).is_some() || WITHOUT_FAMILY.contains(&stem);
        !is_known && !stem.contains("nvidia")
    };
    let entries = host.list(directory).unwrap_or_default();
    entries
        .iter()
        .filter_map(|entry| entry.name.to_str())
        .any(is_other)
}

/// Returns the file that the loader takes for an element of `LD_PRELOAD`. It searches for a bare name, and does not look into the
/// current directory.
fn preloaded_file(host: &Host, scope: &Scope, element: &OsStr) -> Option<PathBuf> {
    if element.as_bytes().contains(&b'/') {
        return Some(host.absolute(Path::new(element)));
    }
    let in_path = elements(host, scope)
        .into_iter()
        .filter_map(|(_, path)| Some(host.absolute(&path?)));
    let found = in_path
        .map(|directory| directory.join(element))
        .find(|path| host.is_file(path));
    found.or_else(|| {
        let cache = system::read_cache(host, scope.machine).unwrap_or_default();
        let cached = cache.iter().find(|(soname, _)| element == *soname);
        cached.map(|(_, path)| path.to_owned()).or_else(|| {
            search::default_directories(host, scope.machine)
                .into_iter()
                .map(|directory| directory.join(element))
                .find(|path| host.is_file(path))
        })
    })
}

fn preloaded(host: &Host, scope: &Scope, text: OsString) -> Preload {
    let facts = || {
        let path = preloaded_file(host, scope, &text)?;
        let file = host.map(&path).ok()?;
        let elf = Elf::parse(&file).ok()?;
        let soname = elf
            .soname()
            .map(|soname| String::from_utf8_lossy(soname).into_owned());
        let name = soname.or_else(|| Some(path.file_name()?.to_str()?.to_owned()))?;
        let (family, _) = catalog().family_of(&name)?;
        Some((family.name.clone(), host.stat(&path).ok()?.id))
    };
    // The family of a file that is not found is known by its name.
    let by_name = || Some(catalog().family_of(text.to_str()?)?.0.name.clone());
    match facts() {
        Some((family, id)) => Preload {
            text,
            file: Some(id),
            family: Some(family),
        },
        None => Preload {
            file: None,
            family: by_name(),
            text,
        },
    }
}
