//! What a person can do about a conflict: the one thing that would most likely help.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::world::World;
use super::{Broken, Contradiction, ForcedCopy, Hint, Member, Reason, Rejection, Unmet, Wanted, gpus};
use crate::catalog::{Family, catalog, knowledge, soname_number};
use crate::formats::names;
use crate::inventory::{Installation, Inventory, Origin, Problem, Who};
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
    // No library makes up for another machine.
    let machine = broken.iter().find_map(|broken| of_machine(broken, world));
    if unmet.is_empty() || machine.is_some() {
        return machine;
    }
    let changed = contradictions.iter().find_map(change_wish);
    changed
        .or_else(|| unmet.iter().find_map(nothing_is_both))
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

/// Where the machine is not what is asked for.
fn of_machine(broken: &Broken, world: &World<'_>) -> Option<Hint> {
    let condition = &broken.condition;
    let of_person = || Hint::ChangeWish { families: Vec::new(), by: condition.by.clone() };
    match &condition.demand {
        Demand::Code(code) => {
            other_gpus(world, |gpu| gpus::serves(code, gpu)).or_else(|| other_build(condition, world))
        }
        Demand::Gpu(range) => {
            other_gpus(world, |gpu| range.allows(&gpu.version())).or_else(|| Some(of_person()))
        }
        demand => {
            // One that is too new already is not to be updated.
            let has = broken.has.driver.map(|driver| driver.version());
            let floor = driver_for(demand).filter(|floor| has.is_none_or(|has| has < *floor));
            Some(floor.map_or_else(of_person, |floor| Hint::UpdateDriver { floor }))
        }
    }
}

/// The oldest driver that would do.
fn driver_for(demand: &Demand) -> Option<Version> {
    match demand {
        Demand::Driver(range) => range.lowest(),
        Demand::DriverCuda(range) => {
            let least = range.lowest()?;
            let cuda = CudaVersion { major: least.major(), minor: least.minor() };
            Some(knowledge().driver_of_cuda(cuda)?.version())
        }
        // Of images: the first is what the image was made with.
        Demand::Any(alternatives) => alternatives.iter().flatten().find_map(driver_for),
        _ => None,
    }
}

/// GPUs of this machine that would do, where others are visible as well.
fn other_gpus(world: &World<'_>, would_do: impl Fn(ComputeCapability) -> bool) -> Option<Hint> {
    let fitting = world.inventory.visible_gpus().filter(|gpu| gpu.capability.is_some_and(&would_do));
    let uuids: Vec<String> = fitting.filter_map(|gpu| gpu.uuid.clone()).collect();
    (!uuids.is_empty()).then_some(Hint::ChooseGpus { uuids })
}

/// Where all would fit if only some of the visible GPUs were: an old one for the screen stands beside the others.
fn gpus_that_are_served(unmet: &[Unmet], world: &World<'_>) -> Option<Hint> {
    let served = |missing: &Unmet| {
        let of_reason = |reason: &Reason| match reason {
            Reason::NoCode { has, .. } => Some(has.iter().copied().collect::<BTreeSet<_>>()),
            _ => None,
        };
        reasons(missing).find_map(of_reason)
    };
    let served: Vec<BTreeSet<ComputeCapability>> = unmet.iter().map(served).collect::<Option<_>>()?;
    other_gpus(world, |gpu| served.iter().all(|served| served.contains(&gpu)))
}

/// Builds of the same framework that have code for the newest visible GPU.
fn other_build(condition: &Condition, world: &World<'_>) -> Option<Hint> {
    let (framework, version) = condition.by.name.split_once(' ').unwrap_or((&condition.by.name, ""));
    let numbers = version.split(|c: char| c != '.' && !c.is_ascii_digit()).next();
    let gpu = world.inventory.capabilities().max()?;
    let build = knowledge().build_for(framework, gpu, numbers.and_then(|numbers| numbers.parse().ok()))?;
    let requirement = format!("{}{}", build.distribution, build.versions.to_pip());
    Some(Hint::OtherBuild { pip: world.program.pip.clone()?, requirement })
}

/// Where a person has said what does not go with the rest. A range alone that nothing here is within is met by
/// installing what is.
fn change_wish(contradiction: &Contradiction) -> Option<Hint> {
    let is_firm = |want: &Want| matches!(want, Want::Pinned(_) | Want::BuildIds(_));
    let is_of_person = |want: &Want| is_firm(want) || matches!(want, Want::Within(_));
    let several = contradiction.members.len() > 1;
    let is_to_change = |member: &&Member| {
        let of_person =
            member.wants.iter().any(|want| if several { is_of_person(want) } else { is_firm(want) });
        of_person || member.demand.as_ref().is_some_and(|demand| !matches!(demand, Demand::Code(_)))
    };
    let members: Vec<&Member> = contradiction.members.iter().filter(is_to_change).collect();
    let by = members.first()?.by.clone();
    let families: BTreeSet<String> = members.iter().filter_map(|member| member.family.clone()).collect();
    Some(Hint::ChangeWish { families: families.into_iter().collect(), by })
}

/// Where a person allows no version that serves what was compiled: nothing that could be installed is both.
fn nothing_is_both(missing: &Unmet) -> Option<Hint> {
    let floor = floor(missing)?;
    let too_low = missing.requirements.iter().find(|requirement| {
        matches!(&requirement.want, Want::Within(range) if !range.allows_from(&floor.truncated(2)))
    })?;
    Some(Hint::ChangeWish { families: vec![missing.family.clone()], by: too_low.by.clone() })
}

/// Where all would fit with another driver.
fn newer_driver(unmet: &[Unmet]) -> Option<Hint> {
    let floor = |reason: &Reason| match reason {
        Reason::DriverTooOld { floor, .. } => Some(*floor),
        Reason::PtxTooNew { needed, .. } => knowledge().driver_of_cuda(*needed),
        _ => None,
    };
    let floors: Option<Vec<_>> = unmet.iter().map(|missing| reasons(missing).find_map(floor)).collect();
    Some(Hint::UpdateDriver { floor: floors?.into_iter().max()?.version() })
}

/// Names all that is to be closed, at once, if all would fit then; or what is to be named, if more than a mode is in
/// the way.
fn less_open(unmet: &[Unmet], inventory: &Inventory) -> Option<Hint> {
    let (mut open, mut directories) = (Vec::new(), BTreeSet::new());
    for missing in unmet {
        let is_open = |candidate: &&Rejection| matches!(candidate.reason.deepest(), Reason::Writable { .. });
        let candidate = missing.candidates.iter().find(is_open)?;
        let directory = &candidate.installation.directory;
        let installation =
            installed(inventory, &missing.family, |installation| installation.directory == *directory)?;
        open.extend(&installation.open);
        directories.insert(directory.clone());
    }
    if open.is_empty() {
        return None;
    }
    if open.iter().any(|open| open.who != Who::Everybody) {
        return Some(Hint::Trust { directories: directories.into_iter().collect() });
    }
    let paths: BTreeSet<PathBuf> = open.into_iter().map(|open| open.path.clone()).collect();
    Some(Hint::MakePrivate { paths: paths.into_iter().collect() })
}

/// Where a package opens, by its path, a wheel that was left behind although the right one is there.
fn without_leftovers(unmet: &[Unmet], inventory: &Inventory, program: &Program) -> Option<Hint> {
    let pip = program.pip.clone()?;
    let packages: Option<BTreeSet<String>> =
        unmet.iter().map(|missing| leftover(missing, inventory)).collect();
    let packages: Vec<String> = packages?.into_iter().collect();
    (!packages.is_empty()).then_some(Hint::PipUninstall { pip, packages })
}

/// Wheels of CUDA 13 stand in a directory of their own, and do not replace those of CUDA 12.
fn leftover(missing: &Unmet, inventory: &Inventory) -> Option<String> {
    let opened = missing.forced.iter().find(|forced| forced.rules.contains(&Before::AbsolutePath))?;
    let package =
        |installation: &Installation| Some(installation.package.as_ref()?.split(' ').next()?.to_owned());
    let of_family = |is_it: &dyn Fn(&Installation) -> bool| installed(inventory, &missing.family, is_it);
    let wanted = Some(catalog().family(&missing.family)?.wheel(cuda_major(missing)?)?);
    of_family(&|installation| package(installation) == wanted)?;
    let taken = package(of_family(&|installation| installation.directory == opened.installation.directory)?)?;
    (opened.installation.origin == Origin::Wheel && Some(&taken) != wanted.as_ref()).then_some(taken)
}

/// In a Python environment, unless a search path leads out of it.
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

/// Where the package manager knows NVIDIA's own repository: no other has these packages.
fn debian_packages(unmet: &[Unmet], inventory: &Inventory) -> Option<Hint> {
    if !inventory.has_cuda_apt {
        return None;
    }
    let package = |missing: &Unmet| {
        let family = catalog().family(&missing.family)?;
        family.apt(cuda_major(missing).unwrap_or(12), soname(missing).unwrap_or(9))
    };
    let packages: Option<BTreeSet<String>> = unmet.iter().map(package).collect();
    let packages: Vec<String> = packages?.into_iter().collect();
    (!packages.is_empty()).then_some(Hint::Apt { packages })
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

/// Nothing that is installed elsewhere helps where a search path leads to what does not fit.
fn other_files(unmet: &[Unmet]) -> Option<Hint> {
    let forced = unmet.iter().flat_map(|missing| &missing.forced);
    let directories: BTreeSet<PathBuf> = forced.map(|forced| forced.installation.directory.clone()).collect();
    let directories: Vec<PathBuf> = directories.into_iter().collect();
    (!directories.is_empty()).then_some(Hint::Replace { directories })
}

/// Whether a wheel of it is installed and is not what its package brought.
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
            matches!(problem, Problem::PackageSaysOtherwise { .. } | Problem::SizeIsNotRecorded { .. })
        };
        let stands_there =
            |installation: &Installation| installation.directory == candidate.installation.directory;
        let of_record = || {
            let installation = installed(inventory, &missing.family, stands_there);
            installation.is_some_and(|installation| installation.problems.iter().any(disagrees))
        };
        candidate.installation.origin == Origin::Wheel && (of_reason || of_record())
    };
    missing.candidates.iter().any(is_broken)
        || missing.forced.iter().any(|it| is_opened_as_it_is(it, missing))
}

/// A wheel that is opened by its path, and that another version alone would not replace.
fn is_opened_as_it_is(forced: &ForcedCopy, missing: &Unmet) -> bool {
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
    is_it: impl Fn(&Installation) -> bool,
) -> Option<&'i Installation> {
    inventory.installations.iter().find(|installation| installation.family == family && is_it(installation))
}

/// In pip's grammar, what would satisfy all that asks for a version: what upstream tested with, if it
/// is written down and serves the others.
fn versions(missing: &Unmet, family: &Family) -> String {
    let within = missing.requirements.iter().find_map(|requirement| match &requirement.want {
        Want::Within(range) => Some(range),
        _ => None,
    });
    let floor = floor(missing).or_else(|| of_symbol(missing));
    if let Some(range) = within.or_else(|| for_gpu(missing, family, floor)) {
        return floor.map_or_else(|| range.clone(), |floor| range.from(floor.truncated(2))).to_pip();
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
    // The newest is never bad; but pip leaves what is installed, if it may.
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

/// The newest versions of cuDNN that have code for a GPU for which what is here has none.
fn for_gpu<'k>(missing: &Unmet, family: &Family, floor: Option<Version>) -> Option<&'k Range> {
    let gpu = reasons(missing).find_map(|reason| match reason {
        Reason::NoCode { gpu, .. } if family.name == "cudnn" => Some(*gpu),
        _ => None,
    })?;
    let major = soname(missing);
    let is_of_major = |range: &&&Range| major.is_none_or(|major| range.allows_some(major));
    let is_new_enough =
        |range: &&&Range| floor.is_none_or(|floor| range.from(floor).allows_some(floor.major()));
    let ranges = knowledge().cudnn_for(gpu, cuda_major(missing)?);
    ranges.iter().filter(is_of_major).rfind(is_new_enough).copied()
}

/// For a GPU that is older than all that an installation has code for an older one, else a newer: the same would not help.
fn other_than_without_code(missing: &Unmet) -> Option<Range> {
    missing.candidates.iter().find_map(|candidate| {
        let Reason::NoCode { gpu, has } = candidate.reason.deepest() else { return None };
        let sign = if gpu < has.first()? { "<" } else { ">" };
        format!("{sign}{}", candidate.installation.version?).parse().ok()
    })
}

/// The version that a missing symbol is of: nvJitLink writes it into each name, `__nvJitLinkCreate_12_4`.
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

/// The CUDA major that would fit: what an asker was built for, else what stands in the way already has.
fn cuda_major(missing: &Unmet) -> Option<u32> {
    let of_asker = missing.requirements.iter().find_map(|requirement| requirement.by.cuda);
    let of_name = missing.requirements.iter().find_map(|requirement| match &requirement.want {
        Want::Name(name) => catalog().family_of(name)?.0.cuda_of_suffix(names::split(name)?.1),
        _ => None,
    });
    // What speaks against what is here is for the right one.
    let of_others = reasons(missing).find_map(|reason| match reason {
        Reason::OtherCuda { needed, .. } => Some(*needed),
        _ => None,
    });
    let of_copy = missing.candidates.iter().find_map(|candidate| candidate.installation.cuda);
    of_asker.or(of_name).or(of_others).or(of_copy)
}

/// The number in the SONAME that is asked for.
fn soname(missing: &Unmet) -> Option<u32> {
    let of_name = missing.requirements.iter().find_map(|requirement| match &requirement.want {
        Want::Name(name) => soname_number(name),
        _ => None,
    });
    of_name.or_else(|| missing.requirements.iter().find_map(bound).map(|version| version.major()))
}

/// The newest of the versions that it must be at least.
fn floor(missing: &Unmet) -> Option<Version> {
    let floors = missing.requirements.iter().filter_map(|requirement| match requirement.want {
        Want::AtLeast(version) => Some(version),
        _ => None,
    });
    floors.max()
}

/// A version that a requirement insists on.
fn bound(requirement: &Requirement) -> Option<Version> {
    match requirement.want {
        Want::AtLeast(version) | Want::Exactly(version) | Want::Rest(version) => Some(version),
        _ => None,
    }
}

fn reasons(missing: &Unmet) -> impl Iterator<Item = &Reason> {
    missing.candidates.iter().map(|candidate| candidate.reason.deepest())
}
