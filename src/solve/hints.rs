//! Finds what could help against a conflict. `remedy` tries each.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::fitting::{fitting, of_symbol, reasons};
use super::hint::{Hint, Wanted};
use super::machine::Broken;
use super::outcome::{Conflict, Contradiction, Unmet};
use super::reason::Reason;
use super::remedy;
use super::world::{World, serves};
use crate::catalog::{Wheel, catalog, is_released_for, knowledge, soname_number};
use crate::inventory::{ChangedBy, Installation, Inventory, Origin, Problem};
use crate::requirements::{Asker, Before, Demand, LibraryRequirement, Want};
use crate::version::{ComputeCapability, CudaVersion, Version};

type Way = fn(&Conflict, &World<'_>) -> Vec<Hint>;

/// What could help, the best first.
const WAYS: [Way; 13] = [
    for_machine,
    |conflict, _| change_requirements(conflict, &conflict.unmet),
    |conflict, _| conflict.unmet.iter().filter_map(impossible_range).collect(),
    |conflict, _| Vec::from_iter(newer_driver(&conflict.unmet)),
    |_, _| vec![Hint::InstallDriver],
    |conflict, world| Vec::from_iter(gpus_that_are_served(&conflict.unmet, world)),
    |conflict, world| Vec::from_iter(less_open(&conflict.unmet, world.inventory)),
    |conflict, world| Vec::from_iter(without_leftovers(&conflict.unmet, world)),
    wheels_to_install,
    |conflict, world| Vec::from_iter(debian_packages(&conflict.unmet, world)),
    replaced,
    to_install,
    |conflict, _| change_requirements(conflict, &[]),
];

/// What could help, the best first. Each is found when it is asked for: some cost a solution.
pub(super) fn hints(conflict: &Conflict, world: &World<'_>) -> impl Iterator<Item = Hint> {
    WAYS.iter().flat_map(move |way| way(conflict, world))
}

/// The hints for conditions that the machine does not meet.
fn for_machine(conflict: &Conflict, world: &World<'_>) -> Vec<Hint> {
    let mut hints = Vec::new();
    for Broken {
        condition,
        has,
        unfit,
        cpu_builds,
    } in &conflict.broken
    {
        match &condition.demand {
            Demand::Code(code) => {
                hints.extend(other_gpus(world, |gpu| serves(code, gpu)));
                hints.extend(other_build(&condition.by, world));
                continue;
            }
            Demand::AnyGpu if !cpu_builds.is_empty() => {
                let packages = cpu_builds.iter().map(|(package, _)| package.clone());
                hints.push(Hint::BuildsWithCuda {
                    packages: packages.collect(),
                });
            }
            Demand::Gpu(range) => {
                hints.extend(other_gpus(world, |gpu| range.allows(&gpu.version())));
            }
            Demand::Extensions => {
                hints.push(Hint::FittingBuilds {
                    pip: world.program.pip.clone(),
                    unfit: unfit.clone(),
                });
            }
            Demand::Driver(_) | Demand::DriverCuda(_) | Demand::Any(_) => {
                // An update does not help where the driver is too new already.
                if let Some(floor) = driver_for(&condition.demand)
                    && has.driver.is_none_or(|has| has < floor)
                {
                    hints.push(Hint::UpdateDriver {
                        floor,
                        has_driver: has.driver.is_some(),
                    });
                }
            }
            Demand::AnyGpu | Demand::Cuda(_) | Demand::Brand { .. } => {}
        }
        hints.push(Hint::ChangeRequirement {
            families: BTreeSet::new(),
            by: condition.by.clone(),
        });
    }
    hints
}

/// The oldest driver that meets a demand.
fn driver_for(demand: &Demand) -> Option<Version> {
    match demand {
        Demand::Driver(range) => range.lowest(),
        Demand::DriverCuda(range) => {
            let least = range.lowest()?;
            let cuda = CudaVersion::of(least);
            knowledge().driver_of_cuda(cuda)
        }
        // The first alternative is the one that an image was made with.
        Demand::Any(alternatives) => alternatives.iter().flatten().find_map(driver_for),
        _ => None,
    }
}

/// The visible GPUs that fit, if there are any.
fn other_gpus(world: &World<'_>, fits: impl Fn(ComputeCapability) -> bool) -> Option<Hint> {
    let uuids: Vec<String> = world
        .inventory
        .visible_gpus()
        .filter(|gpu| gpu.capability.is_some_and(&fits))
        .filter_map(|gpu| gpu.uuid.clone())
        .collect();
    (!uuids.is_empty()).then_some(Hint::ChooseGpus { uuids })
}

/// Hides GPUs without code if all would fit then: an old one for the screen beside the others.
fn gpus_that_are_served(unmet: &[Unmet], world: &World<'_>) -> Option<Hint> {
    let mut served = Vec::new();
    for missing in unmet {
        served.push(reasons(missing).find_map(|reason| match reason {
            Reason::NoCode { has, .. } => Some(has),
            _ => None,
        })?);
    }
    other_gpus(world, |gpu| {
        served.iter().all(|served| served.contains(&gpu))
    })
}

/// Builds of a framework that have code for the newest visible GPU.
fn other_build(asker: &Asker, world: &World<'_>) -> Option<Hint> {
    let (framework, version) = asker.name.split_once(' ').unwrap_or((&asker.name, ""));
    let numbers = version
        .split(|c: char| c != '.' && !c.is_ascii_digit())
        .next();
    let build = knowledge().build_for(
        framework,
        world.inventory.capabilities().max()?,
        numbers.and_then(|numbers| numbers.parse().ok()),
    )?;
    let requirement = format!("{}{}", build.distribution, build.versions.to_pip());
    Some(Hint::OtherBuild {
        pip: world.program.pip.clone()?,
        requirement,
        by: asker.clone(),
    })
}

/// Suggests changing the user's own settings where they exclude a solution. A range that is the only side of its
/// contradiction does not count, since installing a version within it helps; nor does a range that an installation for
/// another CUDA would meet.
fn change_requirements(conflict: &Conflict, unmet: &[Unmet]) -> Vec<Hint> {
    conflict
        .contradictions
        .iter()
        .filter_map(|one| change_requirement(one, unmet))
        .collect()
}

fn change_requirement(contradiction: &Contradiction, unmet: &[Unmet]) -> Option<Hint> {
    let several = contradiction.members.len() > 1
        && !unmet
            .iter()
            .flat_map(reasons)
            .any(|reason| matches!(reason, Reason::OtherCuda { .. }));
    let mut first = None;
    let mut families = BTreeSet::new();
    for member in &contradiction.members {
        let excludes = match &member.demand {
            Some(demand) => !matches!(demand, Demand::Code(_)),
            None => member
                .wants
                .iter()
                .any(|want| want.is_exact() || several && matches!(want, Want::Within(_))),
        };
        if excludes {
            first.get_or_insert(&member.by);
            families.extend(member.family.clone());
        }
    }
    let by = first?.clone();
    Some(Hint::ChangeRequirement { families, by })
}

/// Names a range of the user's that allows no version that serves the program: no installation could meet both.
fn impossible_range(missing: &Unmet) -> Option<Hint> {
    let floor = floor(missing)?.truncated(2);
    let impossible = missing.requirements.iter().find(
        |one| matches!(&one.want, Want::Within(range) if range.oldest_from(floor).is_none()),
    )?;
    Some(Hint::ChangeRequirement {
        families: BTreeSet::from([missing.family.clone()]),
        by: impossible.by.clone(),
    })
}

/// The oldest driver with which all would fit.
fn newer_driver(unmet: &[Unmet]) -> Option<Hint> {
    let mut newest = None;
    for missing in unmet {
        let floor = reasons(missing).find_map(|reason| match reason {
            Reason::DriverTooOld { floor, .. } => Some(*floor),
            Reason::PtxTooNew { needed, .. } => knowledge().driver_of_cuda(*needed),
            _ => None,
        });
        newest = newest.max(Some(floor?));
    }
    Some(Hint::UpdateDriver {
        floor: newest?,
        has_driver: true,
    })
}

/// Names all files and directories to make private if all would fit then; or the directories to trust, if a change of
/// mode is not enough.
fn less_open(unmet: &[Unmet], inventory: &Inventory) -> Option<Hint> {
    let (mut open, mut directories) = (Vec::new(), BTreeSet::new());
    for missing in unmet {
        let candidate = missing
            .candidates
            .iter()
            .find(|candidate| matches!(candidate.reason.deepest(), Reason::Writable { .. }))?;
        let directory = &candidate.installation.directory;
        open.extend(&installed_in(inventory, missing, directory)?.open);
        directories.insert(directory.clone());
    }
    if open.is_empty() {
        return None;
    }
    if open.iter().any(|open| open.who != ChangedBy::Everybody) {
        return Some(Hint::Trust { directories });
    }
    let paths = open.into_iter().map(|open| open.path.clone()).collect();
    Some(Hint::MakePrivate { paths })
}

/// Removes leftover wheels that packages open by their path although the right wheels are installed.
fn without_leftovers(unmet: &[Unmet], world: &World<'_>) -> Option<Hint> {
    let pip = world.program.pip.clone()?;
    let packages = unmet
        .iter()
        .map(|one| leftover(one, world))
        .collect::<Option<_>>()?;
    Some(Hint::PipUninstall { pip, packages })
}

/// The leftover wheel: wheels of CUDA 13 have their own directory, and do not replace those of CUDA 12.
fn leftover(missing: &Unmet, world: &World<'_>) -> Option<String> {
    let inventory = world.inventory;
    let opened = missing
        .forced
        .iter()
        .find(|forced| forced.rules.contains(&Before::AbsolutePath))?;
    let wanted = catalog()
        .family(&missing.family)?
        .wheel(cuda_major(missing, world)?)?;
    inventory
        .installations
        .iter()
        .find(|one| one.family == missing.family && remedy::is_of(one, &wanted))?;
    let opened = &opened.installation;
    let taken = installed_in(inventory, missing, &opened.directory)?;
    let name = taken.package.as_ref()?.split(' ').next()?;
    (opened.origin == Origin::Wheel && name != wanted).then(|| name.to_owned())
}

/// The installations of wheels after which there is a solution.
fn wheels_to_install(conflict: &Conflict, world: &World<'_>) -> Vec<Hint> {
    let (unmet, program) = (&conflict.unmet, world.program);
    let Some((pip, site)) = program.pip.clone().zip(program.site_packages.first()) else {
        return Vec::new();
    };
    if world.inventory.is_l4t() {
        return Vec::new();
    }
    let mut policy = world.policy.clone();
    let mut hints = Vec::new();
    for families in [policy.ignore_rpath_of.clone(), remedy::all_families()] {
        policy.ignore_rpath_of = families;
        let world = World::new(world.inventory, program, &policy);
        let lacking = unmet.iter().map(|missing| missing.family.clone()).collect();
        let Some(wheels) = fitting(unmet, lacking, &world, &|wheel: &Wheel, version| {
            is_released_for(wheel, version, program.machine).then(|| site.join(&wheel.directory))
        }) else {
            continue;
        };
        let (mut requirements, mut reinstall) = (Vec::new(), false);
        for wheel in &wheels {
            reinstall |= world
                .inventory
                .installations
                .iter()
                .any(|one| brings(one, &wheel.package));
            requirements.push(wheel.package.replace(' ', "=="));
        }
        hints.push(Hint::Pip {
            pip: pip.clone(),
            requirements,
            reinstall,
        });
    }
    hints
}

/// True if pip takes a package for installed. It does so if another one has overwritten it.
fn brings(installation: &Installation, package: &String) -> bool {
    installation.package.as_ref() == Some(package)
        || installation.problems.iter().any(|problem| {
            matches!(problem, Problem::ClaimedTwice { packages, .. } if packages.contains(package))
        })
}

/// Installs packages of NVIDIA's own repository, if the package manager knows it: no other has them.
fn debian_packages(unmet: &[Unmet], world: &World<'_>) -> Option<Hint> {
    if !world.inventory.has_cuda_apt {
        return None;
    }
    let packages = unmet
        .iter()
        .map(|missing| {
            catalog().family(&missing.family)?.apt(
                cuda_major(missing, world).unwrap_or(12),
                soname(missing).unwrap_or(9),
            )
        })
        .collect::<Option<_>>()?;
    Some(Hint::Apt { packages })
}

fn wanted(missing: &Unmet, world: &World<'_>) -> Wanted {
    let is_version = catalog()
        .family(&missing.family)
        .is_some_and(|family| family.soname_is_version);
    Wanted {
        family: missing.family.clone(),
        major: soname(missing).filter(|_| is_version),
        cuda: cuda_major(missing, world),
        at_least: floor(missing)
            .map(|floor| floor.truncated(2))
            .max(of_symbol(missing)),
    }
}

fn to_install(conflict: &Conflict, world: &World<'_>) -> Vec<Hint> {
    let libraries = conflict
        .unmet
        .iter()
        .map(|one| wanted(one, world))
        .collect();
    vec![Hint::Install { libraries }]
}

/// Replaces what search paths lead to.
fn replaced(conflict: &Conflict, world: &World<'_>) -> Vec<Hint> {
    let mut places: BTreeMap<&Path, Vec<Wanted>> = BTreeMap::new();
    for missing in &conflict.unmet {
        let directories: BTreeSet<&Path> = missing
            .forced
            .iter()
            .map(|forced| forced.installation.directory.as_path())
            .collect();
        for directory in directories {
            let libraries = places.entry(directory).or_default();
            libraries.push(wanted(missing, world));
        }
    }
    let mut hints = Vec::new();
    for (directory, libraries) in places {
        hints.push(Hint::Replace {
            libraries,
            directory: directory.to_owned(),
        });
    }
    hints
}

fn installed_in<'i>(
    inventory: &'i Inventory,
    missing: &Unmet,
    directory: &Path,
) -> Option<&'i Installation> {
    inventory
        .installations
        .iter()
        .find(|one| one.family == missing.family && one.directory == directory)
}

/// The CUDA major that would fit: that of an asker, else that of the program's other needs, else that of the candidates.
fn cuda_major(missing: &Unmet, world: &World<'_>) -> Option<u32> {
    let of_asker = missing
        .requirements
        .iter()
        .find_map(|requirement| requirement.by.cuda);
    let of_name = missing
        .requirements
        .iter()
        .find_map(LibraryRequirement::cuda_of_name);
    let of_reason = reasons(missing).find_map(|reason| match reason {
        Reason::OtherCuda { needed, .. } => Some(*needed),
        _ => None,
    });
    let of_copy = missing
        .candidates
        .iter()
        .find_map(|candidate| candidate.installation.cuda);
    of_asker
        .or(of_name)
        .or_else(|| world.agreed_cuda().map(|(cuda, _)| cuda))
        .or(of_reason)
        .or(of_copy)
}

/// The number in the requested SONAME, or the major of the version that a requirement insists on.
fn soname(missing: &Unmet) -> Option<u32> {
    let of_name = missing
        .requirements
        .iter()
        .find_map(|requirement| soname_number(requirement.named()?));
    let of_version = missing.requirements.iter().find_map(|one| match one.want {
        Want::AtLeast(version) | Want::Exactly(version) | Want::Rest(version) => {
            Some(version.major())
        }
        _ => None,
    });
    of_name.or(of_version)
}

/// The newest of the compiled floors.
fn floor(missing: &Unmet) -> Option<Version> {
    missing
        .requirements
        .iter()
        .filter_map(LibraryRequirement::floor)
        .max()
}
