//! Effects of the environment on the loader's search.

use std::path::{Path, PathBuf};

use super::elements::JudgedElement;
use super::finding::{Finding, FindingEvidence};
use super::startup::{StartupLine, StartupLines};
use super::subject::{DoctorSubject, installations_in, named, version};
use crate::catalog::{Fault, display_name};
use crate::environment::audit_elements;
use crate::inventory::{Installation, Inventory, Origin, Problem};
use crate::pin::audit_module;
use crate::solve::Summary;
use crate::text::{show, shown};
use crate::variables;

const TUNABLES: &str = "GLIBC_TUNABLES";
/// The variables that cudarun sets for the programs that it starts.
const OWN_VARIABLES: [&str; 3] = [variables::VIEW, variables::PINS, variables::TRACE];

pub(super) fn findings(subject: &DoctorSubject<'_>, elements: &[JudgedElement]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, element) in elements.iter().enumerate() {
        if element.is_path() {
            findings.extend(path_findings(subject, &elements[..index], element));
        } else {
            findings.extend(preload_findings(element));
        }
    }
    findings.extend(mixed(subject.inventory, elements));
    findings.extend(variable_findings(subject));
    findings
}

/// Whether this shell follows what it starts, and what does not hold then.
pub(super) fn following(subject: &DoctorSubject<'_>, lines: &StartupLines) -> Vec<Finding> {
    let Some(module) = subject.followed_by.filter(|_| !subject.host.is_rerooted()) else {
        return Vec::new();
    };
    let mut evidence = vec![FindingEvidence::variable(
        variables::AUDIT,
        module.as_os_str(),
    )];
    evidence.extend(lines.following.iter().map(StartupLine::evidence));
    let missing = match subject.host.read(module) {
        Err(_) => Some(module.to_owned()),
        Ok(bytes) => {
            audit_module::binary_of(&bytes).filter(|binary| !subject.host.is_executable(binary))
        }
    };
    vec![match missing {
        Some(path) => Finding::new(Fault::FollowBroken, evidence).with("lacks", show(&path)),
        None => Finding::new(Fault::Followed, evidence),
    }]
}

/// The element, and the lines that set it.
fn element_evidence(element: &JudgedElement) -> Vec<FindingEvidence> {
    let mut evidence = vec![element.evidence()];
    evidence.extend(element.set_by.iter().map(StartupLine::evidence));
    evidence
}

fn element_finding(fault: Fault, element: &JudgedElement) -> Finding {
    Finding::new(fault, element_evidence(element))
}

fn path_findings(
    subject: &DoctorSubject<'_>,
    earlier: &[JudgedElement],
    element: &JudgedElement,
) -> Vec<Finding> {
    if element.text.is_empty() {
        let finding = element_finding(Fault::PathEmpty, element);
        return vec![finding.with("directory", show(&subject.host.cwd))];
    }
    let mut findings = Vec::new();
    if element.is_relative() {
        let finding = element_finding(Fault::PathRelative, element);
        findings.push(finding.with("variable", element.variable));
    }
    let Some(directory) = &element.leads_to else {
        if !element.has_token() {
            let finding = element_finding(Fault::PathMissing, element);
            findings.push(finding.with("variable", element.variable));
        }
        return findings;
    };
    let mut views = subject.views.iter();
    if views.any(|views| directory.parent() == Some(views)) {
        return vec![element_finding(Fault::PathOwnView, element)];
    }
    if earlier
        .iter()
        .any(|other| other.leads_to.as_ref() == Some(directory))
    {
        // The first element reports its libraries.
        findings.push(element_finding(Fault::PathDuplicate, element));
        return findings;
    }
    for installation in installations_in(subject.inventory, directory) {
        if !installation.is_driver() {
            continue;
        }
        // It breaks programs only if the loader finds it by default.
        let is_unused = !installation.loader_gives;
        if installation.origin == Origin::Stub {
            findings.push(element_finding(Fault::PathStubs, element).milder(is_unused));
            continue;
        }
        for problem in &installation.problems {
            if let Problem::NotTheKernelsDriver { kernel }
            | Problem::CompatOlderThanKernel { kernel } = problem
            {
                let finding = element_finding(Fault::PathOtherDriver, element).milder(is_unused);
                let finding = finding.with("version", version(installation.version));
                findings.push(finding.with("kernel", kernel));
                break;
            }
        }
    }
    findings
}

fn preload_findings(element: &JudgedElement) -> Vec<Finding> {
    let mut findings = Vec::new();
    if element.leads_to.is_none() && !element.is_bare_name() && !element.has_token() {
        findings.push(element_finding(Fault::PreloadMissing, element));
    }
    if element.is_relative() && !element.is_bare_name() {
        let finding = element_finding(Fault::PathRelative, element);
        findings.push(finding.with("variable", element.variable));
    }
    if let Some(family) = &element.family {
        let finding = element_finding(Fault::PreloadLibrary, element);
        findings.push(finding.with("of", display_name(family)));
    }
    findings
}

/// Families of which the search path has two versions of one SONAME: the one that the loader takes, and the files that
/// come from the other one because the first lacks them.
fn mixed(inventory: &Inventory, elements: &[JudgedElement]) -> Vec<Finding> {
    let directories = searched_directories(inventory, elements);
    let mut findings = Vec::new();
    for (index, (directory, element)) in directories.iter().enumerate() {
        // Default paths alone are not the fault of the environment.
        let Some(element) = element else { break };
        for first in installations_in(inventory, directory) {
            if first.is_driver() || first.origin == Origin::Stub {
                continue;
            }
            let is_taken = directories[..index].iter().all(|(earlier, _)| {
                !installations_in(inventory, earlier)
                    .any(|installation| is_rival(installation, first))
            });
            if is_taken {
                let later = &directories[index + 1..];
                findings.extend(mixed_with_later(inventory, element, first, later));
            }
        }
    }
    findings
}

/// The directories of `LD_LIBRARY_PATH`, with their elements, then those of the installations on default paths. None
/// without the former.
fn searched_directories<'e>(
    inventory: &Inventory,
    elements: &'e [JudgedElement],
) -> Vec<(PathBuf, Option<&'e JudgedElement>)> {
    let mut directories: Vec<(PathBuf, Option<&JudgedElement>)> = Vec::new();
    for element in elements {
        if let Some(directory) = &element.leads_to
            && element.is_path()
            && directories.iter().all(|(other, _)| other != directory)
        {
            directories.push((directory.clone(), Some(element)));
        }
    }
    if directories.is_empty() {
        return directories;
    }
    for installation in &inventory.installations {
        let mut files = installation.files.iter();
        if files.any(|file| inventory.file_given(&file.soname, []) == Some(file.id)) {
            directories.push((installation.directory.clone(), None));
        }
    }
    directories
}

/// `first` is the installation that the loader takes, and `element` the one that leads to it.
fn mixed_with_later(
    inventory: &Inventory,
    element: &JudgedElement,
    first: &Installation,
    later: &[(PathBuf, Option<&JudgedElement>)],
) -> Option<Finding> {
    let (rival, rival_element) = later.iter().find_map(|(directory, element)| {
        let rival = installations_in(inventory, directory).find(|installation| {
            is_rival(installation, first) && installation.version != first.version
        })?;
        Some((rival, *element))
    })?;
    // It has only a shim, which works over the other.
    if first.files.iter().all(|file| first.is_shim(&file.stem)) && rival.works_under_shim_of(first)
    {
        return None;
    }
    let mut evidence = element_evidence(element);
    evidence.push(FindingEvidence::installation(first));
    if let Some(element) = rival_element {
        evidence.extend(element_evidence(element));
    }
    evidence.push(FindingEvidence::installation(rival));
    let stems = completed_stems(first, rival);
    let finding = if stems.is_empty() {
        Finding::new(Fault::VersionsMixed, evidence).milder(rival_element.is_none())
    } else {
        Finding::new(Fault::CompletedElsewhere, evidence).with("stems", shown(stems))
    };
    let finding = finding.with("of", named(&Summary::of(first)));
    let finding = finding.with("directory", show(&first.directory));
    let finding = finding.with("version", version(rival.version));
    Some(finding.with("other", show(&rival.directory)))
}

fn is_rival(installation: &Installation, other: &Installation) -> bool {
    installation.family == other.family
        && installation.soname == other.soname
        && installation.origin != Origin::Stub
}

/// The required files that the first lacks and the other has.
fn completed_stems(first: &Installation, other: &Installation) -> Vec<String> {
    let mut completed = Vec::new();
    for problem in &first.problems {
        if let Problem::Missing { stems } = problem {
            let here = stems.iter().filter(|stem| other.member(stem).is_some());
            completed.extend(here.cloned());
        }
    }
    completed
}

/// Other variables that the loader, glibc and cudarun read.
fn variable_findings(subject: &DoctorSubject<'_>) -> Vec<Finding> {
    let env = &subject.host.env;
    let mut findings = Vec::new();
    if let Some(value) = env.non_empty(variables::AUDIT) {
        let modules = audit_elements(value);
        let is_own = modules.iter().all(|module| {
            let mut directories = subject.views.iter().filter_map(|views| views.parent());
            directories.any(|directory| Path::new(module).starts_with(directory))
        });
        let fault = if is_own {
            Fault::AuditOwn
        } else {
            Fault::AuditSet
        };
        let evidence = vec![FindingEvidence::variable(variables::AUDIT, value)];
        findings.push(Finding::new(fault, evidence));
    }
    if let Some(value) = env.non_empty(TUNABLES) {
        let evidence = vec![FindingEvidence::variable(TUNABLES, value)];
        findings.push(Finding::new(Fault::TunablesSet, evidence));
    }
    let mut names = Vec::new();
    let mut evidence = Vec::new();
    for (name, _) in env.iter() {
        if let Some(name) = name.to_str()
            && name.starts_with("CUDARUN_")
            && !name.starts_with(variables::SHELL)
            && name != variables::HOOK_FOLLOWS
            && !OWN_VARIABLES.contains(&name)
        {
            names.push(name);
            evidence.push(FindingEvidence::Set {
                name: name.to_owned(),
            });
        }
    }
    if !names.is_empty() {
        findings.push(Finding::new(Fault::OwnVariables, evidence).with("names", shown(names)));
    }
    findings
}
