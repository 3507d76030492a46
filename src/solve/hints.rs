//! Finds the one remedy of a conflict that would most likely help.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::hint::{Hint, Wanted};
use super::model::{Broken, Contradiction, ContradictionSide, ForcedCopy, Rejection, Unmet};
use super::reason::Reason;
use super::world::{World, serves};
use crate::catalog::{Family, catalog, knowledge, soname_number};
use crate::formats::names;
use crate::inventory::{ChangedBy, Installation, Inventory, Origin, Problem};
use crate::program::{Before, Condition, Demand, Program, Requirement, Want};
use crate::range::Range;
use crate::version::{ComputeCapability, CudaVersion, Version};

pub(super) fn hint(
    unmet: &[Unmet],
    broken: &[Broken],
    contradictions: &[Contradiction],
    world: &World<'_>,
) -> Option<Hint> {
    let World { inventory, program, .. } = *world;
    // No library helps where the machine itself does not fit.
    let machine = broken.iter().find_map(|broken| for_machine(broken, world));
    if unmet.is_empty() || machine.is_some() {
        return machine;
    }
    let changed_wish = contradictions.iter().find_map(change_wish);
    changed_wish
        .or_else(|| unmet.iter().find_map(impossible_range))
        .or_else(|| newer_driver(unmet))
        .or_else(|| unmet.iter().any(|missing| missing.family == "driver").then_some(Hint::InstallDriver))
        .or_else(|| gpus_that_are_served(unmet, world))
        .or_else(|| less_open(unmet, inventory))
        .or_else(|| without_leftovers(unmet, inventory, program))
        .or_else(|| wheels(unmet, inventory, program))
        .or_else(|| other_files(unmet))
        .or_else(|| debian_packages(unmet, inventory))
        .or_else(|| Some(libraries(unmet)))
}

/// Returns the hint for a condition that the machine does not meet.
fn for_machine(broken: &Broken, world: &World<'_>) -> Option<Hint> {
    let condition = &broken.condition;
    let change_wish = || Hint::ChangeWish { families: BTreeSet::new(), by: condition.by.clone() };
    match &condition.demand {
        Demand::Code(code) => {
            other_gpus(world, |gpu| serves(code, gpu)).or_else(|| other_build(condition, world))
        }
        Demand::Gpu(range) => {
            other_gpus(world, |gpu| range.allows(&gpu.version())).or_else(|| Some(change_wish()))
        }
        demand => {
            // An update does not help where the driver is too new already.
            let has = broken.has.driver.map(|driver| driver.version());
            let floor = driver_for(demand).filter(|floor| has.is_none_or(|has| has < *floor));
            let has_driver = has.is_some();
            Some(floor.map_or_else(change_wish, |floor| Hint::UpdateDriver { floor, has_driver }))
        }
    }
}

/// Returns the oldest driver that meets a demand.
fn driver_for(demand: &Demand) -> Option<Version> {
    match demand {
        Demand::Driver(range) => range.lowest(),
        Demand::DriverCuda(range) => {
            let least = range.lowest()?;
            let cuda = CudaVersion { major: least.major(), minor: least.minor() };
            Some(knowledge().driver_of_cuda(cuda)?.version())
        }
        // The first alternative is the one that an image was made with.
        Demand::Any(alternatives) => alternatives.iter().flatten().find_map(driver_for),
        _ => None,
    }
}

/// Returns the visible GPUs that fit, if there are any.
fn other_gpus(world: &World<'_>, fits: impl Fn(ComputeCapability) -> bool) -> Option<Hint> {
    let fitting = world.inventory.visible_gpus().filter(|gpu| gpu.capability.is_some_and(&fits));
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
    other_gpus(world, |gpu| served.iter().all(|served| served.contains(&gpu)))
}

/// Returns builds of a framework that have code for the newest visible GPU.
fn other_build(condition: &Condition, world: &World<'_>) -> Option<Hint> {
    let (framework, version) = condition.by.name.split_once(' ').unwrap_or((&condition.by.name, ""));
    let numbers = version.split(|c: char| c != '.' && !c.is_ascii_digit()).next();
    let gpu = world.inventory.capabilities().max()?;
    let build = knowledge().build_for(framework, gpu, numbers.and_then(|numbers| numbers.parse().ok()))?;
    let requirement = format!("{}{}", build.distribution, build.versions.to_pip());
    Some(Hint::OtherBuild { pip: world.program.pip.clone()?, requirement })
}

/// Names a person's own settings if they exclude a solution. A range that is alone in its contradiction does not count:
/// an installation within the range helps.
fn change_wish(contradiction: &Contradiction) -> Option<Hint> {
    let several = contradiction.members.len() > 1;
    let is_of_person = |want: &Want| match want {
        Want::Pinned(_) | Want::BuildIds(_) => true,
        Want::Within(_) => several,
        _ => false,
    };
    let can_change = |member: &&ContradictionSide| {
        member.wants.iter().any(is_of_person)
            || member.demand.as_ref().is_some_and(|demand| !matches!(demand, Demand::Code(_)))
    };
    let members: Vec<&ContradictionSide> = contradiction.members.iter().filter(can_change).collect();
    let by = members.first()?.by.clone();
    let families = members.iter().filter_map(|member| member.family.clone()).collect();
    Some(Hint::ChangeWish { families, by })
}

/// Names a person's range if it allows no version that serves the program: no installation could meet both.
fn impossible_range(missing: &Unmet) -> Option<Hint> {
    let floor = floor(missing)?;
    let too_low = missing.requirements.iter().find(|requirement| {
        matches!(&requirement.want, Want::Within(range) if !range.allows_from(&floor.truncated(2)))
    })?;
    Some(Hint::ChangeWish { families: BTreeSet::from([missing.family.clone()]), by: too_low.by.clone() })
}

/// Returns the oldest driver with which all would fit.
fn newer_driver(unmet: &[Unmet]) -> Option<Hint> {
    let floor = |reason: &Reason| match reason {
        Reason::DriverTooOld { floor, .. } => Some(*floor),
        Reason::PtxTooNew { needed, .. } => knowledge().driver_of_cuda(*needed),
        _ => None,
    };
    let floors: Option<Vec<_>> = unmet.iter().map(|missing| reasons(missing).find_map(floor)).collect();
    Some(Hint::UpdateDriver { floor: floors?.into_iter().max()?.version(), has_driver: true })
}

/// Names all files and directories to make private if all would fit then; or the directories to trust, if a change of
/// mode is not enough.
fn less_open(unmet: &[Unmet], inventory: &Inventory) -> Option<Hint> {
    let (mut open, mut directories) = (Vec::new(), BTreeSet::new());
    for missing in unmet {
        let is_open = |candidate: &&Rejection| matches!(candidate.reason.deepest(), Reason::Writable { .. });
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
    Some(Hint::MakePrivate { paths: open.into_iter().map(|open| open.path.clone()).collect() })
}

/// Removes leftover wheels that packages open by their path although the right wheels are installed.
fn without_leftovers(unmet: &[Unmet], inventory: &Inventory, program: &Program) -> Option<Hint> {
    let packages: Option<_> = unmet.iter().map(|missing| leftover(missing, inventory)).collect();
    Some(Hint::PipUninstall { pip: program.pip.clone()?, packages: packages? })
}

/// Returns the leftover wheel: wheels of CUDA 13 have their own directory, and do not replace those of CUDA 12.
fn leftover(missing: &Unmet, inventory: &Inventory) -> Option<String> {
    let opened = missing.forced.iter().find(|forced| forced.rules.contains(&Before::AbsolutePath))?;
    let package =
        |installation: &Installation| Some(installation.package.as_ref()?.split(' ').next()?.to_owned());
    let wanted = Some(catalog().family(&missing.family)?.wheel(cuda_major(missing)?)?);
    installed(inventory, &missing.family, |installation| package(installation) == wanted)?;
    let taken = package(installed_in(inventory, missing, &opened.installation.directory)?)?;
    (opened.installation.origin == Origin::Wheel && Some(&taken) != wanted.as_ref()).then_some(taken)
}

/// Installs wheels into a Python environment, unless a search path leads out of it.
fn wheels(unmet: &[Unmet], inventory: &Inventory, program: &Program) -> Option<Hint> {
    let in_site = |missing: &Unmet| {
        missing.forced.iter().all(|forced| {
            program.site_packages.iter().any(|site| forced.installation.directory.starts_with(site))
        })
    };
    let pip =
        program.pip.clone().filter(|_| !program.site_packages.is_empty() && unmet.iter().all(in_site))?;
    let requirement = |missing: &Unmet| {
        let family = catalog().family(&missing.family)?;
        Some(format!("{}{}", family.wheel(cuda_major(missing).unwrap_or(12))?, versions(missing, family)))
    };
    let requirements: Vec<String> = unmet.iter().filter_map(requirement).collect();
    let reinstall = unmet.iter().any(|missing| has_broken_wheel(missing, inventory));
    (!requirements.is_empty()).then_some(Hint::Pip { pip, requirements, reinstall })
}

/// Installs packages of NVIDIA's own repository, if the package manager knows it: no other has them.
fn debian_packages(unmet: &[Unmet], inventory: &Inventory) -> Option<Hint> {
    if !inventory.has_cuda_apt {
        return None;
    }
    let package = |missing: &Unmet| {
        let family = catalog().family(&missing.family)?;
        family.apt(cuda_major(missing).unwrap_or(12), soname(missing).unwrap_or(9))
    };
    Some(Hint::Apt { packages: unmet.iter().map(package).collect::<Option<_>>()? })
}

fn libraries(unmet: &[Unmet]) -> Hint {
    let wanted = |missing: &Unmet| {
        let is_version = catalog().family(&missing.family).is_some_and(|family| family.soname_is_version);
        let major = soname(missing).filter(|_| is_version);
        Wanted {
            family: missing.family.clone(),
            major,
            cuda: cuda_major(missing),
            at_least: of_symbol(missing),
        }
    };
    Hint::Install { libraries: unmet.iter().map(wanted).collect() }
}

/// Replaces files that search paths lead to: no installation elsewhere helps.
fn other_files(unmet: &[Unmet]) -> Option<Hint> {
    let forced = unmet.iter().flat_map(|missing| &missing.forced);
    let directories: BTreeSet<PathBuf> = forced.map(|forced| forced.installation.directory.clone()).collect();
    (!directories.is_empty()).then_some(Hint::Replace { directories })
}

/// True if a wheel is installed that differs from its package.
fn has_broken_wheel(missing: &Unmet, inventory: &Inventory) -> bool {
    let is_broken = |candidate: &Rejection| {
        let of_reason = matches!(
            candidate.reason.deepest(),
            Reason::Incomplete { .. }
                | Reason::Mixed { .. }
                | Reason::Truncated { .. }
                | Reason::OtherCuda { .. }
        );
        let disagrees = |problem: &Problem| {
            matches!(
                problem,
                Problem::PackageSaysOtherwise { .. }
                    | Problem::SizeIsNotRecorded { .. }
                    | Problem::ClaimedTwice { .. }
            )
        };
        let of_record = || {
            let installation = installed_in(inventory, missing, &candidate.installation.directory);
            installation.is_some_and(|installation| installation.problems.iter().any(disagrees))
        };
        candidate.installation.origin == Origin::Wheel && (of_reason || of_record())
    };
    missing.candidates.iter().any(is_broken)
        || missing.forced.iter().any(|forced| needs_reinstall(forced, missing))
}

/// True for a wheel that is opened by its path, unless the requirements lead pip to another version of it.
fn needs_reinstall(forced: &ForcedCopy, missing: &Unmet) -> bool {
    let of_version = |reason: &Reason| {
        matches!(
            reason,
            Reason::TooOld { .. }
                | Reason::OtherMajor { .. }
                | Reason::NotThatVersion { .. }
                | Reason::KnownBad { .. }
        )
    };
    let rejection = missing.candidates.iter().find(|candidate| candidate.installation == forced.installation);
    forced.installation.origin == Origin::Wheel
        && forced.rules.contains(&Before::AbsolutePath)
        && !rejection.is_some_and(|rejection| of_version(rejection.reason.deepest()))
}

fn installed<'i>(
    inventory: &'i Inventory,
    family: &str,
    fits: impl Fn(&Installation) -> bool,
) -> Option<&'i Installation> {
    inventory.installations.iter().find(|installation| installation.family == family && fits(installation))
}

fn installed_in<'i>(inventory: &'i Inventory, missing: &Unmet, directory: &Path) -> Option<&'i Installation> {
    installed(inventory, &missing.family, |installation| installation.directory == directory)
}

/// Returns versions that satisfy all requirements, in pip's grammar: the one that upstream tested with, if that is known
/// and serves the others.
fn versions(missing: &Unmet, family: &Family) -> String {
    let within = missing.requirements.iter().find_map(|requirement| match &requirement.want {
        Want::Within(range) => Some(range),
        _ => None,
    });
    let floor = floor(missing).or_else(|| of_symbol(missing));
    if let Some(range) = within.or_else(|| for_gpu(missing, family, floor)) {
        return floor.map_or_else(|| range.clone(), |floor| range.raised_to(floor.truncated(2))).to_pip();
    }
    let exactly = missing.requirements.iter().find_map(|requirement| match requirement.want {
        Want::Exactly(version) => Some(version),
        _ => None,
    });
    if let Some(version) = exactly {
        return format!("=={}.*", version.truncated(3));
    }
    let others = other_than_without_code(missing);
    let is_bad = |version: &Version| {
        let is_known = knowledge().bad_release(&family.name, version).is_some();
        is_known || others.as_ref().is_some_and(|others| !others.allows(version))
    };
    let recorded = missing.requirements.iter().find_map(|requirement| match requirement.want {
        Want::Recorded(version) => {
            let serves = floor.is_none_or(|floor| version.serves_builds_of(&floor));
            (serves && !is_bad(&version)).then_some(version)
        }
        _ => None,
    });
    if let Some(version) = recorded {
        return format!("=={version}");
    }
    let major = soname(missing).filter(|_| family.soname_is_version);
    let mut parts = match (floor, major) {
        (Some(floor), _) => vec![format!(">={}", floor.truncated(2)), format!("<{}", floor.major() + 1)],
        (None, Some(major)) => vec![format!(">={major}"), format!("<{}", major + 1)],
        (None, None) => Vec::new(),
    };
    parts.extend(others.as_ref().map(Range::to_pip));
    // The newest version is never bad, but pip keeps an installed one that the requirement allows.
    let is_here = reasons(missing).any(|reason| matches!(reason, Reason::KnownBad { .. }));
    let is_in_range = |bad: &Version| {
        is_here
            && floor.is_none_or(|floor| bad.serves_builds_of(&floor))
            && major.is_none_or(|major| bad.major() == major)
    };
    let bad = knowledge().bad_releases(&family.name).filter(is_in_range);
    parts.extend(bad.map(|bad| format!("!={bad}.*")));
    parts.join(",")
}

/// Returns the newest versions of cuDNN that have code for a GPU for which the installed ones have none.
fn for_gpu<'k>(missing: &Unmet, family: &Family, floor: Option<Version>) -> Option<&'k Range> {
    let gpu = reasons(missing).find_map(|reason| match reason {
        Reason::NoCode { gpu, .. } if family.name == "cudnn" => Some(*gpu),
        _ => None,
    })?;
    let major = soname(missing);
    let is_of_major = |range: &&&Range| major.is_none_or(|major| range.allows_some(major));
    let is_new_enough =
        |range: &&&Range| floor.is_none_or(|floor| range.raised_to(floor).allows_some(floor.major()));
    let ranges = knowledge().cudnn_for(gpu, cuda_major(missing)?);
    ranges.iter().filter(is_of_major).rfind(is_new_enough).copied()
}

/// Returns a range without the versions that have no code for the GPU: older ones for a GPU that is older than all those
/// that they serve, else newer ones.
fn other_than_without_code(missing: &Unmet) -> Option<Range> {
    missing.candidates.iter().find_map(|candidate| {
        let Reason::NoCode { gpu, has } = candidate.reason.deepest() else { return None };
        let sign = if gpu < has.first()? { "<" } else { ">" };
        format!("{sign}{}", candidate.installation.version?).parse().ok()
    })
}

/// Returns the version of a missing symbol: nvJitLink writes it into each name, `__nvJitLinkCreate_12_4`.
fn of_symbol(missing: &Unmet) -> Option<Version> {
    let names = reasons(missing).filter_map(|reason| match reason {
        Reason::LacksSymbols { first, .. } if missing.family == "nvjitlink" => Some(first),
        _ => None,
    });
    let version = |name: &String| {
        let mut numbers = name.rsplit('_').map(str::parse);
        let (Some(Ok(minor)), Some(Ok(major))) = (numbers.next(), numbers.next()) else { return None };
        Some(Version::new(&[major, minor]))
    };
    names.filter_map(version).max()
}

/// Returns the CUDA major that would fit: that of an asker, else that of the candidates.
fn cuda_major(missing: &Unmet) -> Option<u32> {
    let of_asker = missing.requirements.iter().find_map(|requirement| requirement.by.cuda);
    let of_name = missing.requirements.iter().find_map(|requirement| match &requirement.want {
        Want::Name(name) => catalog().family_of(name)?.0.cuda_of_suffix(names::split(name)?.1),
        _ => None,
    });
    let of_reason = reasons(missing).find_map(|reason| match reason {
        Reason::OtherCuda { needed, .. } => Some(*needed),
        _ => None,
    });
    let of_copy = missing.candidates.iter().find_map(|candidate| candidate.installation.cuda);
    of_asker.or(of_name).or(of_reason).or(of_copy)
}

/// Returns the number in the requested SONAME.
fn soname(missing: &Unmet) -> Option<u32> {
    let of_name = missing.requirements.iter().find_map(|requirement| match &requirement.want {
        Want::Name(name) => soname_number(name),
        _ => None,
    });
    of_name.or_else(|| missing.requirements.iter().find_map(bound).map(|version| version.major()))
}

/// Returns the newest of the compiled floors.
fn floor(missing: &Unmet) -> Option<Version> {
    let floors = missing.requirements.iter().filter_map(|requirement| match requirement.want {
        Want::AtLeast(version) => Some(version),
        _ => None,
    });
    floors.max()
}

/// Returns the version that a requirement insists on.
fn bound(requirement: &Requirement) -> Option<Version> {
    match requirement.want {
        Want::AtLeast(version) | Want::Exactly(version) | Want::Rest(version) => Some(version),
        _ => None,
    }
}

fn reasons(missing: &Unmet) -> impl Iterator<Item = &Reason> {
    missing.candidates.iter().map(|candidate| candidate.reason.deepest())
}
