//! Newer versions that packages ask for, without which they start: lower bounds in metadata, functions that they look up when they
//! call them.

use super::constraints::lacks;
use super::reason::Reason;
use super::world::World;
use crate::inventory::Installation;
use crate::requirements::{ImportCertainty, LibraryRequirement, Want};
use crate::version::{CudaVersion, Version};

/// The family that compiles for the GPU at run time, and fails for one that it does not know.
pub(super) const COMPILER: &str = "nvrtc";

/// True if it has a version that metadata of each imported package allows. A newer NVRTC than the driver makes code that the
/// driver does not load.
pub(super) fn is_declared(installation: &Installation, world: &World<'_>) -> bool {
    let Some(version) = installation.version else {
        return true;
    };
    let driver = world
        .inventory
        .driver
        .as_ref()
        .and_then(|driver| driver.cuda);
    let is_too_new = installation.family == COMPILER
        && driver.is_some_and(|driver| CudaVersion::of(version) > driver);
    let mut declared = world
        .requirements_of(&installation.family)
        .filter(|one| one.by.certainty == ImportCertainty::Imported)
        .filter_map(LibraryRequirement::declared)
        .peekable();
    declared.peek().is_none() || !is_too_new && declared.all(|range| range.allows(&version))
}

/// The newest of the oldest versions that imported packages name and that it does not reach, and who names it.
pub(super) fn below<'w>(
    installation: &Installation,
    world: &World<'w>,
    oldest: impl Fn(&LibraryRequirement) -> Option<Version>,
) -> Option<(Version, &'w str)> {
    let version = installation.version?;
    world
        .requirements_of(&installation.family)
        .filter(|one| one.by.certainty == ImportCertainty::Imported)
        .filter_map(|one| Some((oldest(one)?, one.by.name.as_str())))
        .filter(|(needed, _)| {
            version.major() == needed.major() && !version.serves_builds_of(needed)
        })
        .max()
}

pub(super) fn below_declared<'w>(
    installation: &Installation,
    world: &World<'w>,
) -> Option<(Version, &'w str)> {
    below(installation, world, |one| one.declared()?.lowest())
}

/// The functions that a package looks up when it calls them and that it does not have.
pub(super) fn lazy_lack(installation: &Installation, world: &World<'_>) -> Option<Reason> {
    world
        .requirements_of(&installation.family)
        .filter(|one| one.is_lazy())
        .find_map(|one| match &one.want {
            Want::Symbols(symbols) => lacks(installation, symbols.iter(), || one.by.name.clone()),
            _ => None,
        })
}

/// True if packages of the program ask for a newer one.
pub(super) fn is_too_old(installation: &Installation, world: &World<'_>) -> bool {
    below_declared(installation, world).is_some() || lazy_lack(installation, world).is_some()
}
