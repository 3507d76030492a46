//! Finds what could help against a conflict. `remedy` tries each.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::fitting::{fitting, of_symbol, reasons};
use super::hint::{Hint, Wanted};
use super::model::{Broken, Conflict, Contradiction, ContradictionSide, Rejection, Unmet};
use super::reason::Reason;
use super::remedy;
use super::world::{World, serves};
use crate::catalog::{Wheel, catalog, knowledge, soname_number};
use crate::inventory::{ChangedBy, Installation, Inventory, Origin, Problem};
use crate::program::{Before, Condition, Demand, Extra, Requirement, Want};
use crate::version::{ComputeCapability, CudaVersion, Version};

/// Returns what could help, the best first.
pub(super) fn hints(conflict: &Conflict, world: &World<'_>) -> Vec<Hint> {
    let (
        inventory,
        Conflict {
            unmet,
            broken,
            contradictions,
            ..
        },
    ) = (world.inventory, conflict);
    let ways: [&dyn Fn() -> Vec<Hint>; 13] = [
        &|| {
            broken
                .iter()
                .flat_map(|broken| for_machine(broken, world))
                .collect()
        },
        &|| {
            contradictions
                .iter()
                .filter_map(|one| change_wish(one, unmet))
                .collect()
        },
        &|| unmet.iter().filter_map(impossible_range).collect(),
        &|| newer_driver(unmet).into_iter().collect(),
        &|| vec![Hint::InstallDriver],
        &|| gpus_that_are_served(unmet, world).into_iter().collect(),
        &|| less_open(unmet, inventory).into_iter().collect(),
        &|| without_leftovers(unmet, world).into_iter().collect(),
        &|| wheels_to_install(unmet, world),
        &|| debian_packages(unmet, world).into_iter().collect(),
        &|| replaced(unmet, world),
        &|| {
            vec![Hint::Install {
                libraries: unmet.iter().map(|missing| wanted(missing, world)).collect(),
            }]
        },
        &|| {
            contradictions
                .iter()
                .filter_map(|one| change_wish(one, &[]))
                .collect()
        },
    ];
    ways.into_iter().flat_map(|way| way()).collect()
}

/// Returns the hints for a condition that the machine does not meet.
fn for_machine(broken: &Broken, world: &World<'_>) -> Vec<Hint> {
    let condition = &broken.condition;
    let mut hints: Vec<Hint> = match &condition.demand {
        Demand::Code(code) => {
            let others = other_gpus(world, |gpu| serves(code, gpu));
            others
                .into_iter()
                .chain(other_build(condition, world))
                .collect()
        }
        Demand::Gpu(range) => other_gpus(world, |gpu| range.allows(&gpu.version()))
            .into_iter()
            .collect(),
        demand => {
            // An update does not help where the driver is too new already.
            let has = broken.has.driver;
            let floor = driver_for(demand).filter(|floor| has.is_none_or(|has| has < *floor));
            let has_driver = has.is_some();
            floor
                .map(|floor| Hint::UpdateDriver { floor, has_driver })
                .into_iter()
                .collect()
        }
    };
    if !matches!(condition.demand, Demand::Code(_)) {
        hints.push(Hint::ChangeWish {
            families: BTreeSet::new(),
            by: condition.by.clone(),
        });
    }
    hints
}

/// Returns the oldest driver that meets a demand.
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

/// Returns the visible GPUs that fit, if there are any.
fn other_gpus(world: &World<'_>, fits: impl Fn(ComputeCapability) -> bool) -> Option<Hint> {
    let fitting = world
        .inventory
        .visible_gpus()
        .filter(|gpu| gpu.capability.is_some_and(&fits));
    let uuids: Vec<String> = fitting.filter_map(|gpu| gpu.uuid.clone()).collect();
    (!uuids.is_empty()).then_some(Hint::ChooseGpus { uuids })
}

/// Hides GPUs without code if all would fit then: an old one for the screen beside the others.
fn gpus_that_are_served(unmet: &[Unmet], world: &World<'_>) -> Option<Hint> {
    let served = |missing| {
        reasons(missing).find_map(|reason| match reason {
            Reason::NoCode { has, .. } => Some(has),
            _ => None,
        })
    };
    let served: Vec<&Vec<ComputeCapability>> = unmet.iter().map(served).collect::<Option<_>>()?;
    other_gpus(world, |gpu| {
        served.iter().all(|served| served.contains(&gpu))
    })
}

/// Returns builds of a framework that have code for the newest visible GPU.
fn other_build(condition: &Condition, world: &World<'_>) -> Option<Hint> {
    let (framework, version) = condition
        .by
        .name
        .split_once(' ')
        .unwrap_or((&condition.by.name, ""));
    let numbers = version
        .split(|c: char| c != '.' && !c.is_ascii_digit())
        .next();
    let gpu = world.inventory.capabilities().max()?;
    let build = knowledge().build_for(
        framework,
        gpu,
        numbers.and_then(|numbers| numbers.parse().ok()),
    )?;
    let requirement = format!("{}{}", build.distribution, build.versions.to_pip());
    Some(Hint::OtherBuild {
        pip: world.program.pip.clone()?,
        requirement,
        by: condition.by.clone(),
    })
}

/// Suggests changing a person's own settings if they exclude a solution. A range that is the only side of its
/// contradiction does not count, since installing a version within it helps; nor does a range that an installation for
/// another CUDA would meet.
fn change_wish(contradiction: &Contradiction, unmet: &[Unmet]) -> Option<Hint> {
    let is_of_other_cuda = |reason: &Reason| matches!(reason, Reason::OtherCuda { .. });
    let several =
        contradiction.members.len() > 1 && !unmet.iter().flat_map(reasons).any(is_of_other_cuda);
    let is_of_person = |want: &Want| match want {
        Want::Pinned(_) | Want::BuildIds(_) => true,
        Want::Within(_) => several,
        _ => false,
    };
    let can_change = |member: &&ContradictionSide| {
        member.wants.iter().any(is_of_person)
            || member
                .demand
                .as_ref()
                .is_some_and(|demand| !matches!(demand, Demand::Code(_)))
    };
    let members: Vec<&ContradictionSide> =
        contradiction.members.iter().filter(can_change).collect();
    let by = members.first()?.by.clone();
    let families = members
        .iter()
        .filter_map(|member| member.family.clone())
        .collect();
    Some(Hint::ChangeWish { families, by })
}

/// Names a person's range if it allows no version that serves the program: no installation could meet both.
fn impossible_range(missing: &Unmet) -> Option<Hint> {
    let floor = floor(missing)?;
    let too_low = missing.requirements.iter().find(|requirement| {
        matches!(&requirement.want, Want::Within(range) if range.oldest_from(floor.truncated(2)).is_none())
    })?;
    Some(Hint::ChangeWish {
        families: BTreeSet::from([missing.family.clone()]),
        by: too_low.by.clone(),
    })
}

/// Returns the oldest driver with which all would fit.
fn newer_driver(unmet: &[Unmet]) -> Option<Hint> {
    let floor = |reason: &Reason| match reason {
        Reason::DriverTooOld { floor, .. } => Some(*floor),
        Reason::PtxTooNew { needed, .. } => knowledge().driver_of_cuda(*needed),
        _ => None,
    };
    let floors: Option<Vec<_>> = unmet
        .iter()
        .map(|missing| reasons(missing).find_map(floor))
        .collect();
    Some(Hint::UpdateDriver {
        floor: floors?.into_iter().max()?,
        has_driver: true,
    })
}

/// Names all files and directories to make private if all would fit then; or the directories to trust, if a change of
/// mode is not enough.
fn less_open(unmet: &[Unmet], inventory: &Inventory) -> Option<Hint> {
    let (mut open, mut directories) = (Vec::new(), BTreeSet::new());
    for missing in unmet {
        let is_open =
            |candidate: &&Rejection| matches!(candidate.reason.deepest(), Reason::Writable { .. });
        let candidate = missing.candidates.iter().find(is_open)?;
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
    Some(Hint::MakePrivate {
        paths: open.into_iter().map(|open| open.path.clone()).collect(),
    })
}

/// Removes leftover wheels that packages open by their path although the right wheels are installed.
fn without_leftovers(unmet: &[Unmet], world: &World<'_>) -> Option<Hint> {
    let pip = world.program.pip.clone()?;
    let packages: Option<_> = unmet
        .iter()
        .map(|missing| leftover(missing, world))
        .collect();
    Some(Hint::PipUninstall {
        pip,
        packages: packages?,
    })
}

/// Returns the leftover wheel: wheels of CUDA 13 have their own directory, and do not replace those of CUDA 12.
fn leftover(missing: &Unmet, world: &World<'_>) -> Option<String> {
    let inventory = world.inventory;
    let opened = missing
        .forced
        .iter()
        .find(|forced| forced.rules.contains(&Before::AbsolutePath))?;
    let package = |installation: &Installation| {
        Some(installation.package.as_ref()?.split(' ').next()?.to_owned())
    };
    let wanted = Some(
        catalog()
            .family(&missing.family)?
            .wheel(cuda_major(missing, world)?)?,
    );
    let is_right = |one: &&Installation| one.family == missing.family && package(one) == wanted;
    inventory.installations.iter().find(is_right)?;
    let taken = package(installed_in(
        inventory,
        missing,
        &opened.installation.directory,
    )?)?;
    (opened.installation.origin == Origin::Wheel && Some(&taken) != wanted.as_ref())
        .then_some(taken)
}

/// Returns the installations of wheels after which there is a solution: by an extra that a package of the program offers for
/// that, or by their names.
fn wheels_to_install(unmet: &[Unmet], world: &World<'_>) -> Vec<Hint> {
    let program = world.program;
    let Some((pip, site)) = program.pip.clone().zip(program.site_packages.first()) else {
        return Vec::new();
    };
    let mut policy = world.policy.clone();
    let mut hints = Vec::new();
    for families in [policy.ignore_rpath_of.clone(), remedy::all_families()] {
        policy.ignore_rpath_of = families;
        let world = World::new(world.inventory, program, &policy);
        let place = |wheel: &Wheel, _| Some(site.join(&wheel.directory));
        let lacking = unmet.iter().map(|missing| missing.family.clone()).collect();
        let Some(wheels) = fitting(unmet, lacking, &world, &place) else {
            continue;
        };
        let wheels: Vec<String> = wheels.into_iter().map(|wheel| wheel.package).collect();
        // pip takes a package that another one has overwritten for installed.
        let brings = |one: &Installation, wheel: &String| {
            let claims = |problem: &Problem| matches!(problem, Problem::ClaimedTwice { packages, .. } if packages.contains(wheel));
            one.package.as_ref() == Some(wheel) || one.problems.iter().any(claims)
        };
        let reinstall = world
            .inventory
            .installations
            .iter()
            .any(|one| wheels.iter().any(|wheel| brings(one, wheel)));
        let requirements: Vec<String> = wheels
            .iter()
            .map(|wheel| wheel.replace(' ', "=="))
            .collect();
        let known = program
            .packages
            .iter()
            .flat_map(|package| &package.extras)
            .filter(|_| !reinstall);
        let by_extras = extras(&requirements, known);
        let pip = |requirements| Hint::Pip {
            pip: pip.clone(),
            requirements,
            reinstall,
        };
        hints.extend(by_extras.into_iter().chain([requirements]).map(pip));
    }
    hints
}

/// Returns the fewest extras of one distribution that bring all these wheels.
fn extras<'e>(
    requirements: &[String],
    known: impl Iterator<Item = &'e Extra>,
) -> Option<Vec<String>> {
    let known: Vec<&Extra> = known.collect();
    let brings = |extra: &Extra, requirement: &String| {
        let name = requirement.split("==").next();
        extra
            .wheels
            .iter()
            .any(|(wheel, _)| Some(wheel.as_str()) == name)
    };
    let covers = |extras: &[&Extra]| {
        requirements
            .iter()
            .all(|requirement| extras.iter().any(|extra| brings(extra, requirement)))
    };
    known.iter().find_map(|first| {
        let is_of_it = |extra: &&&Extra| extra.distribution == first.distribution;
        let mut chosen: Vec<&Extra> = known.iter().filter(is_of_it).copied().collect();
        if !covers(&chosen) {
            return None;
        }
        let mut index = 0;
        while index < chosen.len() {
            let extra = chosen.remove(index);
            if !covers(&chosen) {
                chosen.insert(index, extra);
                index += 1;
            }
        }
        let names: Vec<&str> = chosen.iter().map(|extra| extra.name.as_str()).collect();
        Some(vec![format!(
            "{}[{}]=={}",
            first.distribution,
            names.join(","),
            first.version
        )])
    })
}

/// Installs packages of NVIDIA's own repository, if the package manager knows it: no other has them.
fn debian_packages(unmet: &[Unmet], world: &World<'_>) -> Option<Hint> {
    if !world.inventory.has_cuda_apt {
        return None;
    }
    let package = |missing: &Unmet| {
        let family = catalog().family(&missing.family)?;
        family.apt(
            cuda_major(missing, world).unwrap_or(12),
            soname(missing).unwrap_or(9),
        )
    };
    Some(Hint::Apt {
        packages: unmet.iter().map(package).collect::<Option<_>>()?,
    })
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

/// Replaces what search paths lead to.
fn replaced(unmet: &[Unmet], world: &World<'_>) -> Vec<Hint> {
    let mut places: BTreeMap<PathBuf, Vec<Wanted>> = BTreeMap::new();
    for missing in unmet {
        let directories = missing
            .forced
            .iter()
            .map(|forced| forced.installation.directory.clone());
        for directory in directories.collect::<BTreeSet<_>>() {
            places
                .entry(directory)
                .or_default()
                .push(wanted(missing, world));
        }
    }
    let replace = |(directory, libraries)| Hint::Replace {
        libraries,
        directory,
    };
    places.into_iter().map(replace).collect()
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

/// Returns the CUDA major that would fit: that of an asker, else that of the program's other needs, else that of the candidates.
fn cuda_major(missing: &Unmet, world: &World<'_>) -> Option<u32> {
    let of_asker = missing
        .requirements
        .iter()
        .find_map(|requirement| requirement.by.cuda);
    let of_name = missing
        .requirements
        .iter()
        .find_map(Requirement::cuda_of_name);
    let of_reason = reasons(missing).find_map(|reason| match reason {
        Reason::OtherCuda { needed, .. } => Some(*needed),
        _ => None,
    });
    let of_copy = missing
        .candidates
        .iter()
        .find_map(|candidate| candidate.installation.cuda);
    let of_program = || world.agreed_cuda().map(|(cuda, _)| cuda);
    of_asker
        .or(of_name)
        .or_else(of_program)
        .or(of_reason)
        .or(of_copy)
}

/// Returns the number in the requested SONAME, or the major of the version that a requirement insists on.
fn soname(missing: &Unmet) -> Option<u32> {
    let of_name = missing
        .requirements
        .iter()
        .find_map(|requirement| soname_number(requirement.named()?));
    let of_version = missing
        .requirements
        .iter()
        .find_map(|requirement| match requirement.want {
            Want::AtLeast(version) | Want::Exactly(version) | Want::Rest(version) => {
                Some(version.major())
            }
            _ => None,
        });
    of_name.or(of_version)
}

/// Returns the newest of the compiled floors.
fn floor(missing: &Unmet) -> Option<Version> {
    let floors = missing
        .requirements
        .iter()
        .filter_map(|requirement| match requirement.want {
            Want::AtLeast(version) => Some(version),
            _ => None,
        });
    floors.max()
}
