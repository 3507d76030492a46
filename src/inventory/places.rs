//! The places that `profiles/places.toml` lists.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::installation::Origin;
use super::location::{ScanContext, SearchLocation, named};
use super::{conda, python, toolkit, wheel};
use crate::catalog::{Holds, Place, catalog};
use crate::formats::{elf, names};

/// The directories that a row leads to.
pub(super) fn find(scan: &mut ScanContext<'_>, row: &Place) -> Vec<SearchLocation> {
    let mut locations = Vec::new();
    for (root, is_named) in roots(scan, row) {
        let found = below(scan, &root, row.holds);
        locations.extend(if is_named { named(found) } else { found });
    }
    locations
}

/// The paths of a row that exist, links resolved, each with true if the user has named it.
fn roots(scan: &mut ScanContext<'_>, row: &Place) -> BTreeMap<PathBuf, bool> {
    let mut roots = BTreeMap::new();
    for pattern in &row.paths {
        let is_named = pattern.starts_with('$') && !row.elsewhere;
        for path in expand(scan, pattern) {
            match scan.host.canonical(&path) {
                Ok(real) => {
                    if real != path {
                        scan.watch(path);
                    }
                    *roots.entry(real).or_default() |= is_named;
                }
                // It may appear: by itself where the user names it, with directories above it where we look.
                Err(_) if is_named => scan.watch(path),
                // No result of `list` is kept.
                Err(_) if row.elsewhere => {}
                Err(_) => scan.watch_above(&path),
            }
        }
    }
    roots
}

/// The toolkits of the one row that lists them, as `roots` returns them.
pub(super) fn toolkits(scan: &mut ScanContext<'_>) -> BTreeMap<PathBuf, bool> {
    let mut rows = catalog().places.place.iter();
    let row = rows.find(|row| row.holds == Holds::ToolkitRoot);
    row.map(|row| roots(scan, row)).unwrap_or_default()
}

/// The directories of libraries below a root of this kind.
pub(super) fn below(scan: &mut ScanContext<'_>, root: &Path, holds: Holds) -> Vec<SearchLocation> {
    let origin = match holds {
        Holds::Driver => Origin::Driver,
        Holds::Compat => Origin::Compat,
        Holds::Toolkit => Origin::Toolkit,
        Holds::Bundled => Origin::Bundled,
        Holds::Loose => Origin::Loose,
        Holds::ToolkitRoot => return toolkit::locations_in(scan, root),
        Holds::CondaRoot => return conda::with_packages(scan, root),
        Holds::CondaList => return conda::listed(scan, root),
        Holds::PythonRoot => return python::in_environment(scan, root),
        Holds::SitePackages => return wheel::in_site_packages(scan, root),
        Holds::Package => return toolkit::package(scan, root),
        Holds::CompatRoot
        | Holds::HpcSdkRoot
        | Holds::CondaBase
        | Holds::PackageStore
        | Holds::SpackRoot => {
            let mut locations = Vec::new();
            let rows = catalog().places.layout.iter();
            for row in rows.filter(|row| row.root == holds) {
                for pattern in &row.paths {
                    for path in expand_from(scan, vec![root.to_owned()], pattern) {
                        locations.extend(below(scan, &path, row.holds));
                    }
                }
            }
            return locations;
        }
    };
    vec![SearchLocation::new(root, origin)]
}

/// The paths that a pattern leads to, present or missing.
fn expand(scan: &mut ScanContext<'_>, pattern: &str) -> Vec<PathBuf> {
    let host = scan.host;
    let (first, rest) = pattern.split_once('/').unwrap_or((pattern, ""));
    let from = if let Some(variable) = first.strip_prefix('$') {
        match variable.strip_suffix(':') {
            Some(list) => scan.named_list(list),
            None => scan.named(variable).into_iter().collect(),
        }
    } else {
        match first {
            "~" => host.home().into_iter().collect(),
            "." => python::project_directories(host),
            _ => vec![PathBuf::from("/")],
        }
    };
    expand_from(scan, from, rest)
}

fn expand_from(scan: &mut ScanContext<'_>, from: Vec<PathBuf>, pattern: &str) -> Vec<PathBuf> {
    let pattern = pattern.replace("{machine}", elf::machine_name(scan.scope.machine));
    names::expand(from, &pattern, |directory| {
        scan.children_if_there(directory)
    })
}
