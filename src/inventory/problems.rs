//! What is wrong with installations as they stand on this machine: with its kernel's driver, and in its search paths.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::machine::{Element, Inventory, SearchPath};
use super::model::{Finder, Installation, Origin, Problem};
use crate::host::FileId;

/// Adds to each installation what only the whole inventory tells.
pub(super) fn tell(inventory: &mut Inventory) {
    let mut installations = std::mem::take(&mut inventory.installations);
    // Many installations have the same few names.
    let mut given = BTreeMap::new();
    let cached: BTreeSet<FileId> = inventory.search.cache.values().copied().collect();
    for installation in &mut installations {
        installation.loader_gives = is_given(inventory, installation, &mut given);
        installation.position = position(inventory, installation, &cached);
        let problems =
            [stub_on_search_path(inventory, installation), other_than_the_kernels(inventory, installation)];
        installation.problems.extend(problems.into_iter().flatten());
    }
    inventory.installations = installations;
}

/// Whether the loader gives it to a program that asks for its main file and has no search path of its own.
fn is_given(
    inventory: &Inventory,
    installation: &Installation,
    given: &mut BTreeMap<String, Option<FileId>>,
) -> bool {
    let main = crate::catalog::catalog().family(&installation.family).map(|family| family.main.as_str());
    let member = main.and_then(|main| installation.member(main)).or_else(|| installation.files.first());
    let Some(member) = member else { return false };
    if !given.contains_key(&member.soname) {
        given.insert(member.soname.clone(), inventory.file_given(&member.soname));
    }
    given[&member.soname] == Some(member.id)
}

/// How early the loader comes to it: by the elements of `LD_LIBRARY_PATH`, then by its cache and the default directories.
fn position(inventory: &Inventory, installation: &Installation, cached: &BTreeSet<FileId>) -> Option<usize> {
    let SearchPath { library_path, defaults, .. } = &inventory.search;
    let is_own =
        |directory: &Path| installation.directories().any(|own| own.as_os_str() == directory.as_os_str());
    let leads_there = |element: &Element| element.directory.as_deref().is_some_and(is_own);
    let by_default = || {
        let is_cached = installation.files.iter().any(|member| cached.contains(&member.id));
        (is_cached || defaults.iter().any(|default| is_own(default))).then_some(library_path.len())
    };
    library_path.iter().position(leads_there).or_else(by_default)
}

/// A stub does harm where the loader may look for the real one, whether or not it comes first today.
fn stub_on_search_path(inventory: &Inventory, installation: &Installation) -> Option<Problem> {
    if installation.origin != Origin::Stub {
        return None;
    }
    let mut elements =
        inventory.search.library_path.iter().filter_map(|element| element.directory.as_deref());
    let by = if elements.any(|directory| installation.directories().any(|own| own == directory)) {
        Finder::LibraryPath
    } else if inventory.search.cache.values().any(|id| installation.has_file(*id)) {
        Finder::Cache
    } else if installation
        .directories()
        .any(|own| inventory.search.defaults.iter().any(|default| default == own))
    {
        Finder::DefaultDirectory
    } else {
        return None;
    };
    Some(Problem::StubOnSearchPath { by })
}

fn other_than_the_kernels(inventory: &Inventory, installation: &Installation) -> Option<Problem> {
    let kernel = inventory.driver.as_ref()?.version;
    let version = installation.version.filter(|_| installation.family == "driver")?;
    match installation.origin {
        Origin::Compat => (version < kernel.version()).then_some(Problem::CompatOlderThanKernel { kernel }),
        Origin::Stub => None,
        _ => (!version.agrees_with(&kernel.version())).then_some(Problem::NotTheKernelsDriver { kernel }),
    }
}
