//! Problems of installations with this machine's kernel driver and search paths.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::Path;

use super::installation::{Installation, Origin, Problem, SearchStage};
use super::machine::Inventory;
use crate::catalog::catalog;
use crate::host::FileId;

/// Adds to each installation its place in the loader's search, and the problems that only the whole inventory shows.
pub(super) fn add(inventory: &mut Inventory) {
    let mut installations = std::mem::take(&mut inventory.installations);
    // The names of main files repeat.
    let mut given = BTreeMap::new();
    let cached: BTreeSet<FileId> = inventory.search.cache.values().copied().collect();
    for installation in &mut installations {
        installation.loader_gives = is_given(inventory, installation, &mut given);
        let stage = search_stage(inventory, installation, &cached);
        installation.position = stage.map(|(position, _)| position);
        // A stub is a problem even if the real library comes first today.
        if let Some((_, by)) = stage
            && installation.origin == Origin::Stub
        {
            let problem = Problem::StubOnSearchPath { by };
            installation.problems.push(problem);
        }
        let problem = problem_with_kernel(inventory, installation);
        installation.problems.extend(problem);
    }
    inventory.installations = installations;
}

/// True if the loader gives it to a program that needs its main file and has no search path of its own.
fn is_given(
    inventory: &Inventory,
    installation: &Installation,
    given: &mut BTreeMap<String, Option<FileId>>,
) -> bool {
    let member = catalog()
        .family(&installation.family)
        .and_then(|family| installation.member(&family.main))
        .or_else(|| installation.files.first());
    let Some(member) = member else { return false };
    if !given.contains_key(&member.soname) {
        let elements = &inventory.search.library_path;
        given.insert(
            member.soname.clone(),
            inventory.file_given(&member.soname, elements),
        );
    }
    given[&member.soname] == Some(member.id)
}

/// Returns the position in the loader's search and the part of it that finds the installation: an element of
/// `LD_LIBRARY_PATH`, then, at one position, the cache and the default directories.
fn search_stage(
    inventory: &Inventory,
    installation: &Installation,
    cached: &BTreeSet<FileId>,
) -> Option<(usize, SearchStage)> {
    // As bytes: comparing paths by component is slow.
    let directories: Vec<&OsStr> = installation.directories().map(Path::as_os_str).collect();
    let search = &inventory.search;
    for (position, element) in search.library_path.iter().enumerate() {
        if let Some(directory) = &element.directory
            && directories.contains(&directory.as_os_str())
        {
            return Some((position, SearchStage::LibraryPath));
        }
    }
    let mut files = installation.files.iter();
    let mut defaults = search.defaults.iter();
    let stage = if files.any(|member| cached.contains(&member.id)) {
        SearchStage::Cache
    } else if defaults.any(|default| directories.contains(&default.as_os_str())) {
        SearchStage::DefaultDirectory
    } else {
        return None;
    };
    Some((search.library_path.len(), stage))
}

/// A driver's library that does not go with the kernel's module.
fn problem_with_kernel(inventory: &Inventory, installation: &Installation) -> Option<Problem> {
    if !installation.is_driver() {
        return None;
    }
    let kernel = inventory.driver.as_ref()?.version;
    let version = installation.version?;
    match installation.origin {
        Origin::Compat => (version < kernel).then_some(Problem::CompatOlderThanKernel { kernel }),
        Origin::Stub => None,
        _ => (!version.agrees_with(&kernel)).then_some(Problem::NotTheKernelsDriver { kernel }),
    }
}
