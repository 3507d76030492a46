//! The wheels that a program lacks: those with which there is a complete set.

use std::collections::{BTreeSet, VecDeque};
use std::path::Path;

use super::fitting::{Offered, fitting};
use super::machine;
use super::newer;
use super::outcome::{MissingWheel, Outcome};
use super::policy::Policy;
use super::remedy::all_families;
use super::world::World;
use crate::catalog::{
    Framework, Platform, Wheel, WheelFile, catalog, soname_number, toolkits, wheels,
};
use crate::inventory::Inventory;
use crate::program::Program;
use crate::range::Range;
use crate::requirements::{ImportCertainty, LibraryRequirement, Need, Want};
use crate::version::{CudaVersion, Version};

/// The place of wheels that are not here.
const STORE: &str = "/STORE";
/// The directory of toolkits in wheels, relative to site-packages.
const TOOLKIT_DIRECTORY: &str = "nvidia/cu13";

/// The wheels to get before a program can start with all that it needs.
#[derive(Clone, Debug)]
pub enum Lack {
    Nothing,
    Wheels(Vec<MissingWheel>),
    /// No wheels lead to a set here. These families are lacking.
    NoOffer(BTreeSet<String>),
}

/// Finds the wheels that a program lacks beside what is installed: as few as possible, and only those that this machine can
/// load. A GPU need not be here: the libraries that the program uses on one count. If those at hand are not enough, all
/// wheels count.
pub fn lack(outcome: &Outcome, inventory: &Inventory, program: &Program, policy: &Policy) -> Lack {
    lack_with(outcome, inventory, program, policy, &BTreeSet::new())
}

/// Finds what [`lack`] does, the wheels of each absent library that is wanted, as far as it fits the others, and those that
/// reach what metadata asks for where the picks do not.
pub fn lack_and_wanted(
    outcome: &Outcome,
    inventory: &Inventory,
    program: &Program,
    policy: &Policy,
) -> Lack {
    let mut lack = lack(outcome, inventory, program, policy);
    if matches!(lack, Lack::NoOffer(_)) {
        return lack;
    }
    let mut possible = BTreeSet::new();
    let absent = outcome.wanted().map(|absent| absent.family.clone());
    for family in absent.chain(too_old(outcome, &World::new(inventory, program, policy))) {
        if !has_wheels(&family) || !possible.insert(family.clone()) {
            continue;
        }
        let more = lack_with(outcome, inventory, program, policy, &possible);
        if matches!(more, Lack::Wheels(_)) {
            lack = more;
        } else {
            possible.remove(&family);
        }
    }
    lack
}

/// `possible` are families that the program may load.
fn lack_with(
    outcome: &Outcome,
    inventory: &Inventory,
    program: &Program,
    policy: &Policy,
    possible: &BTreeSet<String>,
) -> Lack {
    let lack = lack_at_hand(outcome, inventory, program, policy, possible);
    if policy.at_hand.is_none() || !matches!(lack, Lack::NoOffer(_)) {
        return lack;
    }
    let policy = Policy {
        at_hand: None,
        ..policy.clone()
    };
    lack_at_hand(outcome, inventory, program, &policy, possible)
}

/// As [`lack_with`], without the wheels that are not at hand.
fn lack_at_hand(
    outcome: &Outcome,
    inventory: &Inventory,
    program: &Program,
    policy: &Policy,
    possible: &BTreeSet<String>,
) -> Lack {
    let unmet = if let Outcome::Conflict(conflict) = outcome {
        conflict.unmet.as_slice()
    } else {
        &[]
    };
    let mut lacking: BTreeSet<String> =
        unmet.iter().map(|missing| missing.family.clone()).collect();
    let families: BTreeSet<&String> = program
        .library_requirements()
        .map(|requirement| &requirement.family)
        .collect();
    for family in families {
        let is_picked = match outcome {
            Outcome::Plan(plan) => plan.pick_of(family).is_some(),
            Outcome::Nothing { .. } => false,
            // Only what is in the way is known.
            Outcome::Conflict(_) => true,
        };
        if possible.contains(family) || !is_picked && is_used(family, program) {
            lacking.insert(family.clone());
        }
    }
    if lacking.is_empty() && !matches!(outcome, Outcome::Conflict(_)) {
        return Lack::Nothing;
    }
    let mut policy = policy.clone();
    let at_hand = policy.at_hand.clone();
    let platform = platform(program.machine, inventory, at_hand.as_ref());
    let program = &with_all(&World::new(inventory, program, &policy), &lacking);
    let place = |wheel: &Wheel, version: Version| {
        platform.file(wheel, version)?;
        Some(Path::new(STORE).join(&wheel.directory))
    };
    let mut ignored = vec![policy.ignore_rpath_of.clone()];
    ignored.extend(policy.can_force.then(all_families));
    for families in ignored {
        policy.ignore_rpath_of = families;
        let world = World::new(inventory, program, &policy);
        if machine::broken(&world).is_empty()
            && let Some(offered) = fitting(unmet, lacking.clone(), &world, &place)
            && !offered.is_empty()
        {
            return Lack::Wheels(
                offered
                    .into_iter()
                    .filter_map(|one| missing(one, platform))
                    .collect(),
            );
        }
    }
    Lack::NoOffer(lacking)
}

/// The wheels that count here. None does without a known C library, nor on a Jetson that takes none for Arm servers.
fn platform<'n>(
    machine: u16,
    inventory: &Inventory,
    at_hand: Option<&'n BTreeSet<String>>,
) -> Platform<'n> {
    let glibc = inventory.glibc.filter(|_| !inventory.is_l4t());
    Platform {
        machine,
        glibc: glibc.unwrap_or_default(),
        at_hand,
    }
}

/// The families whose pick is older than the program's packages ask for.
fn too_old(outcome: &Outcome, world: &World<'_>) -> Vec<String> {
    let picks = outcome.plan().map_or(&[][..], |plan| &plan.picks);
    picks
        .iter()
        .map(|pick| &pick.installation)
        .filter(|installation| newer::is_too_old(installation, world))
        .map(|installation| installation.family.clone())
        .collect()
}

/// True if the program uses a family that wheels bring: it links against it, or a framework opens it by its name and does not
/// work without it.
fn is_used(family: &str, program: &Program) -> bool {
    has_wheels(family)
        && program.library_requirements().any(|requirement| {
            requirement.family == family
                && requirement.asks_for_family()
                && match framework_of(requirement) {
                    Some(framework) => !framework
                        .works_without
                        .iter()
                        .flatten()
                        .any(|without| without == family),
                    None => requirement.need < Need::Named,
                }
        })
}

fn has_wheels(family: &str) -> bool {
    wheels().iter().any(|wheel| wheel.family == family)
}

fn framework_of(requirement: &LibraryRequirement) -> Option<&'static Framework> {
    catalog().framework(requirement.by.name.split(' ').next()?)
}

/// The program as if it could not start without these families. If it tries several SONAMEs, those for the CUDA of its
/// other needs count, or else the newest.
fn with_all(world: &World<'_>, families: &BTreeSet<String>) -> Program {
    let cuda = world.agreed_cuda().map(|(cuda, _)| cuda);
    let mut program = world.program.clone();
    for family in families {
        let (mut is_tried, mut of_cuda, mut newest) = (true, None, None);
        for one in world.program.library_requirements() {
            if one.family != *family || !one.asks_for_family() {
                continue;
            }
            is_tried &= one.need == Need::Named;
            if of_cuda.is_none() && cuda.is_some() && one.cuda_of_name() == cuda {
                of_cuda = Some(number(one));
            }
            newest = newest.max(number(one));
        }
        let best = of_cuda.unwrap_or(newest);
        program.requirements.retain(|one| {
            one.library().is_none_or(|one| {
                one.family != *family || !is_tried || number(one) == best || number(one).is_none()
            })
        });
        for one in program.library_requirements_mut() {
            if one.family != *family {
                continue;
            }
            if one.asks_for_family() && (is_tried || one.need < Need::Named) {
                one.need = Need::Linked;
            }
            if one.is_lazy() {
                one.need = Need::Used;
            }
            if one.by.certainty == ImportCertainty::Imported
                && let Some(version) = one.declared().and_then(Range::lowest)
            {
                one.want = Want::AtLeast(version);
            }
        }
    }
    program
}

fn number(requirement: &LibraryRequirement) -> Option<u32> {
    requirement.named().and_then(soname_number)
}

fn of_row(wheel: &Wheel, file: &WheelFile) -> MissingWheel {
    MissingWheel::new(&wheel.name, &wheel.directory, file)
}

fn missing(offered: Offered, platform: Platform<'_>) -> Option<MissingWheel> {
    let (wheel, file) = platform.wheel(&offered.package)?;
    Some(MissingWheel {
        names: offered.names,
        asked_by: offered.asked_by,
        ..of_row(wheel, file)
    })
}

/// A family that the user wants, whatever is installed.
#[derive(Clone, Debug)]
pub struct FamilyRange {
    pub family: &'static str,
    pub range: Range,
}

/// The newest wheels of these families, and of those that they are linked against, for one CUDA major: the given
/// one, or the newest that the driver runs. If those at hand are not enough, all wheels count. Fails with the first family that has no wheel.
pub fn wheels_of(
    wanted: &[FamilyRange],
    cuda: Option<u32>,
    machine: u16,
    inventory: &Inventory,
    at_hand: Option<&BTreeSet<String>>,
) -> Result<Vec<MissingWheel>, FamilyRange> {
    let platform = platform(machine, inventory, at_hand);
    let most = inventory
        .driver
        .as_ref()
        .and_then(|driver| driver.cuda)
        .map_or(u32::MAX, |cuda| cuda.major);
    let majors: BTreeSet<u32> = wheels().iter().map(|wheel| wheel.cuda).collect();
    let fitting = majors
        .into_iter()
        .rev()
        .filter(|major| cuda.map_or(*major <= most, |cuda| cuda == *major));
    let mut lacking = None;
    for major in fitting {
        match of_major(wanted, major, platform) {
            Ok(wheels) => return Ok(wheels),
            Err(one) => lacking = lacking.or(Some(one)),
        }
    }
    match at_hand {
        Some(_) => wheels_of(wanted, cuda, machine, inventory, None),
        None => lacking
            .or(wanted.first().cloned())
            .map_or(Ok(Vec::new()), Err),
    }
}

/// The wheels of a toolkit in a range: of the newest whose code the driver runs, or else of the newest. If those at hand
/// are not enough, all wheels count. Fails if there are none.
pub fn wheels_of_toolkit(
    wanted: &FamilyRange,
    machine: u16,
    inventory: &Inventory,
    at_hand: Option<&BTreeSet<String>>,
) -> Result<Vec<MissingWheel>, FamilyRange> {
    let driver = inventory.driver.as_ref().and_then(|driver| driver.cuda);
    let mut rows: Vec<_> = toolkits()
        .iter()
        .rev()
        .filter(|row| wanted.range.allows(&row.version))
        .collect();
    rows.sort_by_key(|row| driver.is_some_and(|driver| CudaVersion::of(row.version) > driver));
    for at_hand in [at_hand, None] {
        let platform = platform(machine, inventory, at_hand);
        let Some(files) = rows.iter().find_map(|row| platform.toolkit(row)) else {
            continue;
        };
        let entry = files
            .first()
            .map(|nvcc| nvcc.sha256.clone())
            .unwrap_or_default();
        let mut wheels = Vec::new();
        for part in &files {
            wheels.push(MissingWheel {
                entry: entry.clone(),
                ..MissingWheel::new(&part.name, TOOLKIT_DIRECTORY, part)
            });
        }
        return Ok(wheels);
    }
    Err(wanted.clone())
}

fn of_major(
    wanted: &[FamilyRange],
    major: u32,
    platform: Platform<'_>,
) -> Result<Vec<MissingWheel>, FamilyRange> {
    let mut pending: VecDeque<FamilyRange> = wanted.iter().cloned().collect();
    let mut done = BTreeSet::new();
    let mut found = Vec::new();
    while let Some(one) = pending.pop_front() {
        if !done.insert(one.family) {
            continue;
        }
        let newest = wheels()
            .iter()
            .filter(|wheel| wheel.family == one.family && wheel.cuda == major)
            .flat_map(|wheel| {
                wheel
                    .releases()
                    .filter_map(|version| platform.file(wheel, version))
                    .map(move |file| (wheel, file))
            })
            .filter(|(_, file)| one.range.allows(&file.version))
            .max_by_key(|(_, file)| file.version);
        let Some((wheel, file)) = newest else {
            return Err(one);
        };
        found.push(of_row(wheel, file));
        let families = wheel
            .needs
            .iter()
            .filter_map(|name| catalog().family_of(name));
        pending.extend(families.map(|(family, _)| FamilyRange {
            family: &family.name,
            range: Range::any(),
        }));
    }
    Ok(found)
}
