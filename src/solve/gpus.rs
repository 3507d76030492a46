//! Judges if libraries have code for the GPUs: machine code, or PTX that the driver can compile.
//!
//! A GPU counts for the libraries if the framework has code for it: an old card for the screen refuses no start.
//! Without a record, every visible GPU counts. GPUs that a framework records as supported are a hard rule; what only
//! its fat binaries tell is reported at each start. With `CUDA_VISIBLE_DEVICES` empty or negative, only linked
//! libraries must fit.

use super::Reason;
use super::slot::Slot;
use super::world::World;
use crate::catalog::catalog;
use crate::inventory::{Code, Installation, Inventory};
use crate::version::{ComputeCapability, CudaVersion};

/// Every required file that has code at all must have some for every GPU. Families that are made for some GPUs only
/// are exempt: cuSPARSELt, which PyTorch is linked against, begins with Ampere.
pub(super) fn code(
    slot: &Slot<'_>,
    installation: &Installation,
    world: &World<'_>,
) -> Option<Reason> {
    let gpu = *without_code(installation, world)
        .first()
        .filter(|_| !slot.family.for_some_gpus)?;
    Some(Reason::NoCode {
        gpu,
        has: installation.serves.keys().copied().collect(),
    })
}

/// The GPUs for which an installation has no code, although it has some.
pub(super) fn without_code(
    installation: &Installation,
    world: &World<'_>,
) -> Vec<ComputeCapability> {
    let is_library = !installation.is_driver() && needs_code(installation);
    world
        .gpus
        .iter()
        .filter(|gpu| is_library && !installation.serves.contains_key(gpu))
        .copied()
        .collect()
}

/// A driver cannot compile PTX that is newer than itself.
pub(super) fn ptx(
    driver: &Installation,
    library: &Installation,
    world: &World<'_>,
) -> Option<Reason> {
    if !driver.is_driver() || library.is_driver() {
        return None;
    }
    let (needed, has) = (library.built_for?, cuda_of_driver(driver, world.inventory)?);
    let is_firm = !catalog().family(&library.family)?.for_some_gpus;
    let gpu = *only_ptx(library, world).first()?;
    (needed > has && is_firm).then_some(Reason::PtxTooNew { gpu, needed, has })
}

/// The GPUs for which an installation that needs code has only PTX.
pub(super) fn only_ptx(installation: &Installation, world: &World<'_>) -> Vec<ComputeCapability> {
    world
        .gpus
        .iter()
        .filter(|gpu| installation.serves.get(gpu) == Some(&Code::Ptx) && needs_code(installation))
        .copied()
        .collect()
}

/// The CUDA version of a driver's libraries, from their own note or from the kernel driver's branch.
pub(super) fn cuda_of_driver(driver: &Installation, inventory: &Inventory) -> Option<CudaVersion> {
    driver
        .forward_compatibility
        .as_ref()
        .and_then(|note| note.cuda)
        .or_else(|| inventory.driver.as_ref()?.cuda)
}

/// True if a required file has code: the library is of no use on a GPU that the code does not serve.
fn needs_code(installation: &Installation) -> bool {
    let Some(family) = catalog()
        .family(&installation.family)
        .filter(|family| !family.code_is_optional)
    else {
        return false;
    };
    let required = family.required(installation.soname.unwrap_or(0));
    installation
        .files
        .iter()
        .any(|member| required.contains(&member.stem.as_str()) && !member.code.is_empty())
}
