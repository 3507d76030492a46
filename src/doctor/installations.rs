//! Installations with problems, and the files that the scan skipped.

use std::collections::BTreeMap;

use super::finding::{Detail, Finding, FindingEvidence};
use super::subject::{DoctorSubject, named};
use crate::catalog::Fault;
use crate::inventory::{
    Extension, Installation, Inventory, Origin, Problem, SearchStage, ToolkitProblem, Warning,
};
use crate::solve::Summary;
use crate::text::show;

/// Further skipped files are only counted.
const MAX_FILES: usize = 5;

pub(super) fn findings(subject: &DoctorSubject<'_>) -> Vec<Finding> {
    let inventory = subject.inventory;
    let mut findings = Vec::new();
    for installation in &inventory.installations {
        for problem in &installation.problems {
            findings.extend(problem_finding(installation, problem));
        }
    }
    extension_findings(inventory, &mut findings);
    toolkit_findings(inventory, &mut findings);
    findings.extend(skipped_files(&inventory.warnings));
    findings
}

/// One finding for each package whose modules do not fit the framework.
fn extension_findings(inventory: &Inventory, findings: &mut Vec<Finding>) {
    let mut by_package: BTreeMap<(&str, &str), Vec<&Extension>> = BTreeMap::new();
    for extension in inventory.extensions.iter().flatten() {
        if !extension.fits() {
            by_package
                .entry((&extension.package, &extension.framework))
                .or_default()
                .push(extension);
        }
    }
    for extensions in by_package.into_values() {
        let few = extensions.iter().take(MAX_FILES);
        let evidence = few.map(|extension| FindingEvidence::file(&extension.path, ""));
        let finding = Finding::new(Fault::ExtensionMismatch, evidence.collect());
        findings.push(finding.detail(Detail::Extension {
            first: extensions[0].clone(),
            more: extensions.len() - 1,
        }));
    }
}

/// Toolkits that nothing names hinder no build. `--build` makes up for names that the linker does not find.
fn toolkit_findings(inventory: &Inventory, findings: &mut Vec<Finding>) {
    for toolkit in inventory.toolkits.iter().flatten() {
        if !toolkit.is_named {
            continue;
        }
        let problem = toolkit.problems.iter().find(|problem| {
            toolkit.libraries.is_none() || !matches!(problem, ToolkitProblem::NoLinkerNames { .. })
        });
        if let Some(problem) = problem {
            let fault = match problem {
                ToolkitProblem::ToolkitMixed { .. } => Fault::ToolkitMixed,
                _ => Fault::ToolkitBroken,
            };
            let finding = Finding::new(fault, vec![FindingEvidence::file(&toolkit.root, "")]);
            findings.push(finding.with("problem", problem));
        }
    }
}

fn skipped_files(warnings: &[Warning]) -> Option<Finding> {
    let first = warnings.first()?;
    let few = warnings.iter().take(MAX_FILES);
    let evidence = few.map(|warning| FindingEvidence::file(&warning.path, ""));
    let more = match warnings.len() - 1 {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let finding = Finding::new(Fault::PassedOver, evidence.collect());
    Some(finding.with("problem", &first.fault).with("more", more))
}

fn problem_finding(installation: &Installation, problem: &Problem) -> Option<Finding> {
    let fault = match problem {
        // A stub is never complete, and a package that bundles only a shim does not need the rest.
        Problem::Missing { .. }
            if matches!(installation.origin, Origin::Stub | Origin::Bundled) =>
        {
            return None;
        }
        Problem::Missing { .. } => Fault::Incomplete,
        Problem::OtherVersionAmongTheRest { .. } => Fault::Mixed,
        Problem::Truncated { .. } => Fault::Damaged,
        Problem::PackageSaysOtherwise { .. }
        | Problem::NameSaysOtherwise { .. }
        | Problem::SizeIsNotRecorded { .. } => Fault::InstallationNotAsInstalled,
        Problem::ClaimedTwice { .. } => Fault::ClaimedTwice,
        Problem::SecondOfOneSoname { .. } => Fault::TwoOfOneSoname,
        Problem::WorldWritable { .. } => Fault::InstallationWorldWritable,
        // The sections of the driver and of the environment report these.
        Problem::StubOnSearchPath {
            by: SearchStage::LibraryPath,
        }
        | Problem::CompatOlderThanKernel { .. }
        | Problem::NotTheKernelsDriver { .. } => return None,
        Problem::StubOnSearchPath { .. } => Fault::StubGiven,
    };
    // An installation outside every default search path matters only to programs that name it.
    let is_milder = !installation.loader_gives;
    let installation = Summary::of(installation);
    let evidence = vec![FindingEvidence::Installation(installation.clone())];
    let finding = Finding::new(fault, evidence).milder(is_milder);
    let finding = finding.detail(Detail::Problem(problem.clone()));
    let finding = finding.with("of", named(&installation));
    let finding = finding.with("directory", show(&installation.directory));
    Some(finding.with("problem", problem))
}
