//! Problems of installations with this machine's kernel driver and search paths.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::installation::{Installation, Origin, Problem, SearchStage};
use super::machine::{Inventory, LibraryPathElement, SearchPath};
use crate::host::FileId;

/// Adds to each installation its place in the loader's search, and the problems that only the whole inventory shows.
pub(super) fn add(inventory: &mut Inventory) {
    let mut installations = std::mem::take(&mut inventory.installations);
    // The names of main files repeat.
    let mut given = BTreeMap::new();
    let cached: BTreeSet<FileId> = inventory.search.cache.values().copied().collect();
    for installation in &mut installations {
        installation.loader_gives = is_given(inventory, installation, &mut given);
        let found = search(inventory, installation, &cached);
        installation.position = found.map(|(position, _)| position);
        // A stub is a problem even if the real library comes first today.
        let stub = found.filter(|_| installation.origin == Origin::Stub);
        installation
            .problems
            .extend(stub.map(|(_, by)| Problem::StubOnSearchPath { by }));
        installation
            .problems
            .extend(other_than_the_kernels(inventory, installation));
    }
    inventory.installations = installations;
}

/// True if the loader gives it to a program that needs its main file and has no search path of its own.
fn is_given(
    inventory: &Inventory,
    installation: &Installation,
    given: &mut BTreeMap<String, Option<FileId>>,
) -> bool {
    let main = crate::catalog::catalog()
        .family(&installation.family)
        .map(|family| family.main.as_str());
    let member = main
        .and_then(|main| installation.member(main))
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
fn search(
    inventory: &Inventory,
    installation: &Installation,
    cached: &BTreeSet<FileId>,
) -> Option<(usize, SearchStage)> {
    let SearchPath {
        library_path,
        defaults,
        ..
    } = &inventory.search;
    // As bytes: comparing paths by component is slow.
    let is_own = |directory: &Path| {
        installation
            .directories()
            .any(|own| own.as_os_str() == directory.as_os_str())
    };
    let leads_there =
        |element: &LibraryPathElement| element.directory.as_deref().is_some_and(is_own);
    if let Some(position) = library_path.iter().position(leads_there) {
        Some((position, SearchStage::LibraryPath))
    } else if installation
        .files
        .iter()
        .any(|member| cached.contains(&member.id))
    {
        Some((library_path.len(), SearchStage::Cache))
    } else if defaults.iter().any(|default| is_own(default)) {
        Some((library_path.len(), SearchStage::DefaultDirectory))
    } else {
        None
    }
}

fn other_than_the_kernels(inventory: &Inventory, installation: &Installation) -> Option<Problem> {
    let kernel = inventory.driver.as_ref()?.version;
    let version = installation
        .version
        .filter(|_| installation.family == "driver")?;
    match installation.origin {
        Origin::Compat => (version < kernel).then_some(Problem::CompatOlderThanKernel { kernel }),
        Origin::Stub => None,
        _ => (!version.agrees_with(&kernel)).then_some(Problem::NotTheKernelsDriver { kernel }),
    }
}
