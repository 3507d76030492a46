//! What is wrong with copies as they stand on this machine: with its kernel's driver, and in its search paths.

use std::collections::BTreeMap;

use super::{Copy, Fault, Finder, Inventory, Origin, Problem, Warning};
use crate::host::FileId;

/// Adds to each copy what only the whole inventory tells.
pub(super) fn tell(inventory: &mut Inventory) {
    let mut copies = std::mem::take(&mut inventory.copies);
    // Many copies have the same few names.
    let mut given = BTreeMap::new();
    for copy in &mut copies {
        copy.loader_gives = is_given(inventory, copy, &mut given);
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
        given.insert(member.soname.clone(), self::given(inventory, &member.soname));
    }
    given[&member.soname] == Some(member.id)
}

/// The file that the loader takes for a name; none where it ends with an error at one that is no library.
fn given(inventory: &Inventory, name: &str) -> Option<FileId> {
    let elements = inventory.search.library_path.iter().filter_map(|element| element.directory.as_deref());
    for directory in elements {
        let path = directory.join(name);
        let ends_the_search = |warning: &Warning| {
            warning.path == path && matches!(warning.fault, Fault::NotElf | Fault::Malformed { .. })
        };
        if inventory.warnings.iter().any(ends_the_search) {
            return None;
        }
        if let Some(id) = inventory.file_in(directory, name) {
            return Some(id);
        }
    }
    inventory.file_by_default(name)
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
