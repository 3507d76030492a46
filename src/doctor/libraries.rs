//! Installations with problems, and the files that the scan skipped.

use std::collections::BTreeMap;

use super::finding::{Detail, Finding, FindingEvidence};
use super::subject::{DoctorSubject, named};
use crate::catalog::Fault;
use crate::inventory::{Extension, Installation, Origin, Problem, SearchStage, ToolkitProblem};
use crate::solve::Summary;
use crate::text::show;

/// Further skipped files are only counted.
const FEW: usize = 5;

pub(super) fn findings(subject: &DoctorSubject<'_>) -> Vec<Finding> {
    let inventory = subject.inventory;
    let mut findings = Vec::new();
    for installation in &inventory.installations {
        findings.extend(
            installation
                .problems
                .iter()
                .filter_map(|problem| finding(installation, problem)),
        );
    }
    let unfit = inventory
        .extensions
        .iter()
        .flatten()
        .filter(|extension| !extension.fits());
    let mut by_package: BTreeMap<(&str, &str), Vec<&Extension>> = BTreeMap::new();
    for extension in unfit {
        by_package
            .entry((&extension.package, &extension.framework))
            .or_default()
            .push(extension);
    }
    for extensions in by_package.into_values() {
        let named = extensions.iter().take(FEW);
        let evidence = named
            .map(|extension| FindingEvidence::file(&extension.path, ""))
            .collect();
        let (first, more) = (extensions[0].clone(), extensions.len() - 1);
        let mismatch = Finding::new(Fault::ExtensionMismatch, evidence);
        findings.push(mismatch.detail(Detail::Extension { first, more }));
    }
    // Toolkits that nothing names hinder no build. `--build` makes up for names that the linker does not find.
    let named = inventory
        .toolkits
        .iter()
        .flatten()
        .filter(|toolkit| toolkit.is_named);
    for toolkit in named {
        let hinders = |problem: &&ToolkitProblem| {
            !matches!(problem, ToolkitProblem::NoLinkerNames { .. }) || toolkit.libraries.is_none()
        };
        if let Some(problem) = toolkit.problems.iter().find(hinders) {
            let fault = match problem {
                ToolkitProblem::ToolkitMixed { .. } => Fault::ToolkitMixed,
                _ => Fault::ToolkitBroken,
            };
            let broken = Finding::new(fault, vec![FindingEvidence::file(&toolkit.root, "")]);
            findings.push(broken.with("problem", problem));
        }
    }
    if let Some(first) = inventory.warnings.first() {
        let named = inventory.warnings.iter().take(FEW);
        let evidence = named
            .map(|warning| FindingEvidence::file(&warning.path, ""))
            .collect();
        let more = match inventory.warnings.len() - 1 {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        let skipped = Finding::new(Fault::PassedOver, evidence);
        findings.push(skipped.with("problem", &first.fault).with("more", more));
    }
    findings
}

fn finding(installation: &Installation, problem: &Problem) -> Option<Finding> {
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
    let found = Finding::new(fault, evidence).milder(is_milder);
    let found = found.detail(Detail::Problem(problem.clone()));
    let found = found.with("of", named(&installation));
    Some(
        found
            .with("directory", show(&installation.directory))
            .with("problem", problem),
    )
}
