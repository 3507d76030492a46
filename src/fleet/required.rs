//! What a project requires, tried on the description of a machine. A description tells the driver, the GPUs, which versions of a
//! library are there, and what its programs could get; it holds what is true there, so nothing is solved again.

use std::collections::{BTreeMap, BTreeSet};

use super::description::{Answers, FactKind};
use crate::catalog::display_name;
use crate::range::Range;
use crate::requirements::{
    Demand, LibraryRequirement, MachineRequirement, PinnedTo, Requirement, Want,
};
use crate::settings::lock::LockedFamily;
use crate::version::{ComputeCapability, Version};

/// The word for the GPUs of a machine without one.
pub const NO_GPU: &str = "none";

/// A requirement that does not hold on a machine, or of which its description does not tell.
#[derive(Debug)]
pub struct UnmetRequirement {
    pub requirement: Requirement,
    pub there: There,
}

/// What is there in its place.
#[derive(Debug, PartialEq, Eq)]
pub enum There {
    /// Versions; none if there is no such thing.
    Versions(BTreeSet<String>),
    /// Builds of these versions that are not the recorded ones.
    OtherBuilds(BTreeSet<String>),
    Unknown,
}

/// The requirements that do not hold on the machine, one of each place and family.
pub fn lacking(requirements: &[Requirement], answers: &Answers) -> Vec<UnmetRequirement> {
    let mut all: Vec<UnmetRequirement> = Vec::new();
    for requirement in requirements {
        let there = match requirement {
            Requirement::Library(library) => of_library(library, answers),
            Requirement::Machine(machine) => of_machine(machine, answers),
        };
        let is_same = |known: &UnmetRequirement| {
            let [own, other] = [&known.requirement, requirement];
            let family = |one: &Requirement| one.library().map(|library| library.family.clone());
            family(own).is_some() && family(own) == family(other) && own.asker() == other.asker()
        };
        if let Some(there) = there
            && !all.iter().any(is_same)
        {
            all.push(UnmetRequirement {
                requirement: requirement.clone(),
                there,
            });
        }
    }
    all
}

fn of_machine(requirement: &MachineRequirement, answers: &Answers) -> Option<There> {
    let versions: Vec<Version> = match &requirement.demand {
        Demand::Driver(_) => answers.machine[0].parse().into_iter().collect(),
        Demand::Gpu(_) => {
            let all = answers.capabilities.iter();
            all.map(ComputeCapability::version).collect()
        }
        Demand::AnyGpu if answers.machine[1] == NO_GPU => {
            return Some(There::Versions(BTreeSet::new()));
        }
        Demand::AnyGpu => return None,
        Demand::Cuda(range) => return of_cuda(range, answers),
        // A description tells nothing of these.
        Demand::Extensions => return Some(There::Unknown),
        // Those of images, which no project writes.
        Demand::DriverCuda(_) | Demand::Brand { .. } | Demand::Code(_) | Demand::Any(_) => {
            return None;
        }
    };
    let is_without_gpu = answers.machine[1] == NO_GPU;
    if is_without_gpu && requirement.only_with_gpu {
        return None;
    }
    // A GPU that is known by its device node alone.
    let is_gpu = matches!(requirement.demand, Demand::Gpu(_));
    if is_gpu && versions.is_empty() && !is_without_gpu {
        return Some(There::Unknown);
    }
    let (Demand::Driver(range) | Demand::Gpu(range)) = &requirement.demand else {
        return None;
    };
    let holds = !versions.is_empty() && versions.iter().all(|version| range.allows(version));
    (!holds).then(|| There::Versions(versions.iter().map(ToString::to_string).collect()))
}

/// The CUDA of what each program gets there.
fn of_cuda(range: &Range, answers: &Answers) -> Option<There> {
    let mut others = BTreeSet::new();
    let mut is_known = false;
    for program in &answers.programs {
        for places in &program.candidates {
            let majors: BTreeSet<u32> = answers.at(places).filter_map(|one| one.cuda).collect();
            is_known |= !majors.is_empty();
            if !majors.is_empty() && !majors.iter().any(|major| range.allows_some(*major)) {
                others.extend(majors.iter().map(ToString::to_string));
            }
        }
    }
    if is_known {
        (!others.is_empty()).then_some(There::Versions(others))
    } else {
        Some(There::Unknown)
    }
}

fn of_library(requirement: &LibraryRequirement, answers: &Answers) -> Option<There> {
    let exact;
    let range = match &requirement.want {
        Want::Within(range) => Some(range),
        Want::Pinned(PinnedTo::Version(version)) => {
            exact = Range::exactly(*version);
            Some(&exact)
        }
        Want::BuildIds(_) => None,
        Want::Pinned(PinnedTo::Directory(_)) => return Some(There::Unknown),
        // A preference, or of a program and not of a person.
        _ => return None,
    };
    let fits = |one: &LockedFamily| match (range, &requirement.want) {
        (Some(range), _) => one.version.is_some_and(|version| range.allows(&version)),
        (None, Want::BuildIds(ids)) => is_of_build(one, ids),
        _ => false,
    };
    let mut is_used = false;
    let mut others = BTreeSet::new();
    for program in &answers.programs {
        let places = program.candidates.iter().flatten();
        let own: Vec<&LockedFamily> = places
            .map(|place| &answers.libraries[*place])
            .filter(|one| one.name == requirement.family)
            .collect();
        is_used |= !own.is_empty();
        if !own.is_empty() && !own.iter().any(|one| fits(one)) {
            others.extend(own.iter().map(|one| version(one)));
        }
    }
    match (is_used, range) {
        (true, _) if others.is_empty() => None,
        (true, Some(_)) => Some(There::Versions(others)),
        (true, None) => Some(There::OtherBuilds(others)),
        (false, range) => of_installed(&requirement.family, range, answers),
    }
}

/// No program of the description gets it: the versions that are installed count. They tell no builds.
fn of_installed(family: &str, range: Option<&Range>, answers: &Answers) -> Option<There> {
    let name = display_name(family);
    let is_it = |kind: FactKind, of: &str| kind == FactKind::Library && of == name;
    let facts = answers.facts.iter();
    let mut versions = BTreeSet::new();
    for fact in facts.filter(|fact| is_it(fact.kind, &fact.name)) {
        let each = fact.value.split(", ");
        versions.extend(each.filter_map(|one| Some(one.split(' ').next()?.to_owned())));
    }
    let allows = |range: &Range| {
        let mut versions = versions.iter().filter_map(|one| one.parse().ok());
        versions.any(|version: Version| range.allows(&version))
    };
    match range {
        _ if versions.is_empty() => Some(There::Versions(versions)),
        None => Some(There::Unknown),
        Some(range) => (!allows(range)).then_some(There::Versions(versions)),
    }
}

/// True if the files that were recorded are those of this build, as far as it has them.
fn is_of_build(one: &LockedFamily, ids: &BTreeMap<String, String>) -> bool {
    let differs = |(soname, id): (&String, &String)| ids.get(soname).is_some_and(|own| own != id);
    let has_some = one.build_ids.keys().any(|soname| ids.contains_key(soname));
    has_some && !one.build_ids.iter().any(differs)
}

fn version(one: &LockedFamily) -> String {
    one.version
        .map_or_else(|| "?".to_owned(), |version| version.to_string())
}
