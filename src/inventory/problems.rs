//! What is wrong with copies as they stand on this machine: with its kernel's driver, and in its search paths.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{Copy, Element, Finder, Inventory, Origin, Problem, SearchPath};
use crate::host::FileId;

/// Adds to each copy what only the whole inventory tells.
pub(super) fn tell(inventory: &mut Inventory) {
    let mut copies = std::mem::take(&mut inventory.copies);
    // Many copies have the same few names.
    let mut given = BTreeMap::new();
    let cached: BTreeSet<FileId> = inventory.search.cache.values().copied().collect();
    for copy in &mut copies {
        copy.loader_gives = is_given(inventory, copy, &mut given);
        copy.position = position(inventory, copy, &cached);
        let problems = [stub_on_search_path(inventory, copy), other_than_the_kernels(inventory, copy)];
        copy.problems.extend(problems.into_iter().flatten());
    }
    inventory.copies = copies;
}

/// Whether the loader gives it to a program that asks for its main file and has no search path of its own.
fn is_given(inventory: &Inventory, copy: &Copy, given: &mut BTreeMap<String, Option<FileId>>) -> bool {
    let main = crate::catalog::catalog().family(&copy.family).map(|family| family.main.as_str());
    let member = main.and_then(|main| copy.member(main)).or_else(|| copy.files.first());
    let Some(member) = member else { return false };
    if !given.contains_key(&member.soname) {
        given.insert(member.soname.clone(), inventory.file_given(&member.soname));
    }
    given[&member.soname] == Some(member.id)
}

/// How early the loader comes to it: by the elements of `LD_LIBRARY_PATH`, then by its cache and the default directories.
fn position(inventory: &Inventory, copy: &Copy, cached: &BTreeSet<FileId>) -> Option<usize> {
    let SearchPath { library_path, defaults, .. } = &inventory.search;
    let is_own = |directory: &Path| copy.directories().any(|own| own.as_os_str() == directory.as_os_str());
    let leads_there = |element: &Element| element.directory.as_deref().is_some_and(is_own);
    let by_default = || {
        let is_cached = copy.files.iter().any(|member| cached.contains(&member.id));
        (is_cached || defaults.iter().any(|default| is_own(default))).then_some(library_path.len())
    };
    library_path.iter().position(leads_there).or_else(by_default)
}

/// A stub does harm where the loader may look for the real one, whether or not it comes first today.
fn stub_on_search_path(inventory: &Inventory, copy: &Copy) -> Option<Problem> {
    if copy.origin != Origin::Stub {
        return None;
    }
    let mut elements =
        inventory.search.library_path.iter().filter_map(|element| element.directory.as_deref());
    let by = if elements.any(|directory| copy.directories().any(|own| own == directory)) {
        Finder::LibraryPath
    } else if inventory.search.cache.values().any(|id| copy.has_file(*id)) {
        Finder::Cache
    } else if copy.directories().any(|own| inventory.search.defaults.iter().any(|default| default == own)) {
        Finder::DefaultDirectory
    } else {
        return None;
    };
    Some(Problem::StubOnSearchPath { by })
}

fn other_than_the_kernels(inventory: &Inventory, copy: &Copy) -> Option<Problem> {
    let kernel = inventory.driver.as_ref()?.version;
    let version = copy.version.filter(|_| copy.family == "driver")?;
    match copy.origin {
        Origin::Compat => (version < kernel.version()).then_some(Problem::CompatOlderThanKernel { kernel }),
        Origin::Stub => None,
        _ => (!version.agrees_with(&kernel.version())).then_some(Problem::NotTheKernelsDriver { kernel }),
    }
}
