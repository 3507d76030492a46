//! Effects of the environment on the loader's search.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::elements::JudgedElement;
use super::finding::{Finding, FindingEvidence};
use super::startup::{StartupLine, StartupLines};
use super::subject::{DoctorSubject, held, named, version};
use crate::catalog::{Fault, display_name};
use crate::environment::audit_elements;
use crate::inventory::{Installation, Inventory, Origin, Problem};
use crate::pin::audit_module;
use crate::solve::Summary;
use crate::text::{show, shown};
use crate::variables;

/// The variables that cudarun sets for the programs that it starts.
const OF_OURS: [&str; 3] = [variables::VIEW, variables::PINS, variables::TRACE];

pub(super) fn findings(subject: &DoctorSubject<'_>, elements: &[JudgedElement]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, element) in elements.iter().enumerate() {
        let found = if element.is_path() {
            of_path(subject, &elements[..index], element)
        } else {
            of_preload(element)
        };
        findings.extend(found);
    }
    findings.extend(mixed(subject.inventory, elements));
    findings.extend(others(subject));
    findings
}

/// Whether this shell follows what it starts, and what does not hold then.
pub(super) fn following(subject: &DoctorSubject<'_>, lines: &StartupLines) -> Vec<Finding> {
    let Some(module) = subject.followed_by.filter(|_| !subject.host.is_rerooted()) else {
        return Vec::new();
    };
    let set_by = lines.following.iter().map(StartupLine::evidence);
    let evidence = std::iter::once(FindingEvidence::variable(
        variables::AUDIT,
        module.as_os_str(),
    ));
    let evidence: Vec<FindingEvidence> = evidence.chain(set_by).collect();
    let bytes = subject.host.read(module);
    let lacks = match &bytes {
        Err(_) => Some(module.to_owned()),
        Ok(bytes) => audit_module::binary_of(bytes).filter(|own| !subject.host.is_executable(own)),
    };
    vec![match lacks {
        Some(lacks) => Finding::new(Fault::FollowBroken, evidence).with("lacks", show(&lacks)),
        None => Finding::new(Fault::Followed, evidence),
    }]
}

/// The element, and the lines that set it.
fn evidence(element: &JudgedElement) -> Vec<FindingEvidence> {
    let JudgedElement {
        variable,
        position,
        text,
        ..
    } = element;
    let own = FindingEvidence::Element {
        variable,
        position: *position,
        text: text.clone(),
    };
    std::iter::once(own)
        .chain(element.set_by.iter().map(StartupLine::evidence))
        .collect()
}

fn of_path(
    subject: &DoctorSubject<'_>,
    before: &[JudgedElement],
    element: &JudgedElement,
) -> Vec<Finding> {
    let new = |fault| Finding::new(fault, evidence(element));
    if element.text.is_empty() {
        return vec![new(Fault::PathEmpty).with("directory", show(&subject.host.cwd))];
    }
    let mut found = Vec::new();
    if element.is_relative() {
        found.push(new(Fault::PathRelative).with("variable", element.variable));
    }
    let Some(directory) = &element.leads_to else {
        if !element.has_token() {
            found.push(new(Fault::PathMissing).with("variable", element.variable));
        }
        return found;
    };
    if subject
        .views
        .iter()
        .any(|views| directory.parent() == Some(views))
    {
        return vec![new(Fault::PathOwnView)];
    }
    if before
        .iter()
        .any(|other| other.leads_to.as_ref() == Some(directory))
    {
        // The first element reports its libraries.
        found.push(new(Fault::PathDuplicate));
        return found;
    }
    let drivers =
        held(subject.inventory, directory).filter(|installation| installation.family == "driver");
    for installation in drivers {
        // It breaks programs only if the loader finds it by default.
        let is_unused = !installation.loader_gives;
        if installation.origin == Origin::Stub {
            found.push(new(Fault::PathStubs).milder(is_unused));
            continue;
        }
        let kernel = installation
            .problems
            .iter()
            .find_map(|problem| match problem {
                Problem::NotTheKernelsDriver { kernel }
                | Problem::CompatOlderThanKernel { kernel } => Some(*kernel),
                _ => None,
            });
        if let Some(kernel) = kernel {
            let other = new(Fault::PathOtherDriver).milder(is_unused);
            found.push(
                other
                    .with("version", version(installation.version))
                    .with("kernel", kernel),
            );
        }
    }
    found
}

fn of_preload(element: &JudgedElement) -> Vec<Finding> {
    let new = |fault| Finding::new(fault, evidence(element));
    let mut found = Vec::new();
    if element.leads_to.is_none() && !element.is_bare_name() && !element.has_token() {
        found.push(new(Fault::PreloadMissing));
    }
    if element.is_relative() && !element.is_bare_name() {
        found.push(new(Fault::PathRelative).with("variable", element.variable));
    }
    if let Some(family) = &element.family {
        found.push(new(Fault::PreloadLibrary).with("of", display_name(family)));
    }
    found
}

/// Families of which the search path has two versions of one SONAME: the one that the loader takes, and the files that
/// come from the other one because the first lacks them.
fn mixed(inventory: &Inventory, elements: &[JudgedElement]) -> Vec<Finding> {
    let mut directories: Vec<(PathBuf, Option<&JudgedElement>)> = Vec::new();
    for element in elements.iter().filter(|element| element.is_path()) {
        let Some(directory) = &element.leads_to else {
            continue;
        };
        if directories.iter().all(|(known, _)| known != directory) {
            directories.push((directory.clone(), Some(element)));
        }
    }
    if directories.is_empty() {
        return Vec::new();
    }
    // The installations on default paths follow.
    let is_default = |installation: &&Installation| {
        installation
            .files
            .iter()
            .any(|file| inventory.file_given(&file.soname, []) == Some(file.id))
    };
    let default = inventory.installations.iter().filter(is_default);
    directories.extend(default.map(|installation| (installation.directory.clone(), None)));
    let mut findings: Vec<Finding> = Vec::new();
    for (index, (directory, element)) in directories.iter().enumerate() {
        // Default paths alone are not the fault of the environment.
        let Some(element) = element else { break };
        let is_library = |installation: &&Installation| {
            installation.family != "driver" && installation.origin != Origin::Stub
        };
        for first in held(inventory, directory).filter(is_library) {
            let is_taken = directories[..index].iter().all(|(earlier, _)| {
                !held(inventory, earlier).any(|installation| is_rival(installation, first))
            });
            let mut later = directories[index + 1..].iter().flat_map(|(later, by)| {
                held(inventory, later).map(move |installation| (installation, by))
            });
            let rival = later.find(|(installation, _)| {
                is_rival(installation, first) && installation.version != first.version
            });
            let Some((rival, by)) = rival.filter(|_| is_taken) else {
                continue;
            };
            // It has only a shim, which works over the other.
            if first.files.iter().all(|file| first.is_shim(&file.stem))
                && rival.works_under_shim_of(first)
            {
                continue;
            }
            let (taken, other) = (Summary::of(first), Summary::of(rival));
            let mut evidence = evidence(element);
            evidence.push(FindingEvidence::Installation(taken.clone()));
            evidence.extend(by.iter().flat_map(|by| self::evidence(by)));
            evidence.push(FindingEvidence::Installation(other.clone()));
            let completed = lacks(first, rival);
            let found = if completed.is_empty() {
                Finding::new(Fault::VersionsMixed, evidence).milder(by.is_none())
            } else {
                Finding::new(Fault::CompletedElsewhere, evidence).with("stems", shown(completed))
            };
            let found = found
                .with("of", named(&taken))
                .with("directory", show(&taken.directory))
                .with("version", version(other.version))
                .with("other", show(&other.directory));
            findings.push(found);
        }
    }
    findings
}

fn is_rival(installation: &Installation, other: &Installation) -> bool {
    installation.family == other.family
        && installation.soname == other.soname
        && installation.origin != Origin::Stub
}

/// The required files that the first lacks and the other has.
fn lacks(first: &Installation, other: &Installation) -> Vec<String> {
    let missing = first.problems.iter().filter_map(|problem| match problem {
        Problem::Missing { stems } => Some(stems),
        _ => None,
    });
    missing
        .flatten()
        .filter(|stem| other.member(stem).is_some())
        .cloned()
        .collect()
}

/// Other variables that the loader, glibc and cudarun read.
fn others(subject: &DoctorSubject<'_>) -> Vec<Finding> {
    let env = &subject.host.env;
    let variable = |name: &str| {
        let value = env.non_empty(name)?;
        Some(FindingEvidence::variable(name, value))
    };
    let mut findings = Vec::new();
    if let (Some(evidence), Some(value)) = (variable(variables::AUDIT), env.get(variables::AUDIT)) {
        let ours: Vec<&Path> = subject
            .views
            .iter()
            .filter_map(|views| views.parent())
            .collect();
        let is_own = |module| ours.iter().any(|own| Path::new(module).starts_with(own));
        let is_ours = audit_elements(value).iter().all(is_own);
        let fault = if is_ours {
            Fault::AuditOwn
        } else {
            Fault::AuditSet
        };
        findings.push(Finding::new(fault, vec![evidence]));
    }
    if let Some(evidence) = variable("GLIBC_TUNABLES") {
        findings.push(Finding::new(Fault::TunablesSet, vec![evidence]));
    }
    let is_own = |name: &str| {
        name.starts_with("CUDARUN_")
            && !name.starts_with(variables::SHELL)
            && name != variables::HOOK_FOLLOWS
            && !OF_OURS.contains(&name)
    };
    let names = env
        .iter()
        .filter_map(|(name, _)| std::str::from_utf8(name.as_bytes()).ok());
    let names: Vec<String> = names
        .filter(|name| is_own(name))
        .map(str::to_owned)
        .collect();
    if !names.is_empty() {
        let evidence = names
            .iter()
            .map(|name| FindingEvidence::Set { name: name.clone() })
            .collect();
        findings.push(Finding::new(Fault::OwnVariables, evidence).with("names", shown(&names)));
    }
    findings
}
