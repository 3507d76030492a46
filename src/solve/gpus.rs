//! Whether the libraries have code for the GPUs: machine code, or PTX that the driver can compile.

use std::collections::BTreeSet;

use super::Reason;
use super::slots::Slot;
use super::world::World;
use crate::catalog::catalog;
use crate::formats::fatbin::Architecture;
use crate::inventory::{Code, Installation, Inventory};
use crate::program::{Condition, Demand, Program};
use crate::version::{ComputeCapability, CudaVersion};

/// The compute capabilities for which every library must have code: those of the visible GPUs, but not of one that
/// the program's own code leaves out anyway.
pub(super) fn that_count(inventory: &Inventory, program: &Program) -> Vec<ComputeCapability> {
    let own: Vec<&BTreeSet<Architecture>> = program.conditions.iter().filter_map(own_code).collect();
    let is_served = |gpu: &ComputeCapability| own.is_empty() || own.iter().any(|code| serves(code, *gpu));
    let capabilities: BTreeSet<ComputeCapability> = inventory.capabilities().collect();
    capabilities.into_iter().filter(is_served).collect()
}

/// What the files of whoever asks have code for.
pub(super) fn own_code(condition: &Condition) -> Option<&BTreeSet<Architecture>> {
    match &condition.demand {
        Demand::Code(code) => Some(code),
        _ => None,
    }
}

pub(super) fn serves(code: &BTreeSet<Architecture>, gpu: ComputeCapability) -> bool {
    code.iter().any(|architecture| architecture.serves(gpu))
}

/// Every file that must come with it, and has code at all, has some for every GPU. Of what is made for some GPUs only
/// that is no rule: cuSPARSELt, which PyTorch is linked against, begins with Ampere.
pub(super) fn code(slot: &Slot<'_>, installation: &Installation, world: &World<'_>) -> Option<Reason> {
    let gpu = *without_code(installation, world).first().filter(|_| !slot.family.for_some_gpus)?;
    Some(Reason::NoCode { gpu, has: installation.serves.keys().copied().collect() })
}

/// The GPUs for which an installation has no code, although it has some.
pub(super) fn without_code(installation: &Installation, world: &World<'_>) -> Vec<ComputeCapability> {
    let is_library = installation.family != "driver" && needs_code(installation);
    let without = world.gpus.iter().filter(|gpu| is_library && !installation.serves.contains_key(gpu));
    without.copied().collect()
}

/// PTX that is newer than the driver is compiled by none.
pub(super) fn ptx(driver: &Installation, library: &Installation, world: &World<'_>) -> Option<Reason> {
    if driver.family != "driver" || library.family == "driver" {
        return None;
    }
    let (needed, has) = (library.built_for?, of_driver(driver, world.inventory)?);
    let is_firm = !catalog().family(&library.family)?.for_some_gpus;
    let gpu = *only_ptx(library, world).first()?;
    (needed > has && is_firm).then_some(Reason::PtxTooNew { gpu, needed, has })
}

/// The GPUs for which an installation has nothing but PTX, where that matters.
pub(super) fn only_ptx(installation: &Installation, world: &World<'_>) -> Vec<ComputeCapability> {
    let is_ptx = |gpu: &&ComputeCapability| {
        installation.serves.get(gpu) == Some(&Code::Ptx) && needs_code(installation)
    };
    world.gpus.iter().filter(is_ptx).copied().collect()
}

/// The CUDA version that a driver's libraries bring: their own note says it, or the kernel driver's branch.
pub(super) fn of_driver(driver: &Installation, inventory: &Inventory) -> Option<CudaVersion> {
    let noted = driver.forward_compatibility.as_ref().and_then(|note| note.cuda);
    noted.or_else(|| inventory.driver.as_ref()?.cuda)
}

/// Whether one of the files that must come with it has code, without which it is of no use on a GPU.
fn needs_code(installation: &Installation) -> bool {
    let Some(family) = catalog().family(&installation.family).filter(|family| !family.code_is_optional)
    else {
        return false;
    };
    let required = family.required(installation.soname.unwrap_or(0));
    installation
        .files
        .iter()
        .any(|member| required.contains(&member.stem.as_str()) && !member.code.is_empty())
}
