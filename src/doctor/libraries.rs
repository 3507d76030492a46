//! Installations with problems, and the files that the scan skipped.

use std::collections::BTreeMap;

use super::finding::{Evidence, Finding, FindingKind, Severity};
use super::subject::Subject;
use crate::inventory::{Extension, Finder, Installation, Origin, Problem, ToolkitProblem};
use crate::solve::Summary;

/// Further skipped files are only counted.
const FEW: usize = 5;

pub(super) fn findings(subject: &Subject<'_>) -> Vec<Finding> {
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
            .map(|extension| Evidence::file(&extension.path, ""))
            .collect();
        let (first, more) = (extensions[0].clone(), extensions.len() - 1);
        findings.push(Finding::warning(
            FindingKind::ExtensionMismatch { first, more },
            evidence,
        ));
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
            let what = FindingKind::ToolkitBroken {
                problem: problem.clone(),
            };
            findings.push(Finding::warning(
                what,
                vec![Evidence::file(&toolkit.root, "")],
            ));
        }
    }
    if let Some(first) = inventory.warnings.first() {
        let named = inventory.warnings.iter().take(FEW);
        let evidence = named
            .map(|warning| Evidence::file(&warning.path, ""))
            .collect();
        let what = FindingKind::PassedOver {
            first: first.clone(),
            more: inventory.warnings.len() - 1,
        };
        findings.push(Finding::note(what, evidence));
    }
    findings
}

fn finding(installation: &Installation, problem: &Problem) -> Option<Finding> {
    // An installation outside every default search path matters only to programs that name it.
    let severity = if installation.loader_gives {
        Severity::Warning
    } else {
        Severity::Note
    };
    let (severity, code) = match problem {
        // A stub is never complete, and a package that bundles only a shim does not need the rest.
        Problem::Missing { .. }
            if matches!(installation.origin, Origin::Stub | Origin::Bundled) =>
        {
            return None;
        }
        Problem::Missing { .. } => (severity, "installation-incomplete"),
        Problem::OtherVersionAmongTheRest { .. } => (Severity::Warning, "installation-mixed"),
        Problem::Truncated { .. } => (Severity::Warning, "installation-damaged"),
        Problem::PackageSaysOtherwise { .. }
        | Problem::NameSaysOtherwise { .. }
        | Problem::SizeIsNotRecorded { .. } => (severity, "installation-not-as-installed"),
        Problem::ClaimedTwice { .. } => (Severity::Warning, "claimed-twice"),
        Problem::SecondOfOneSoname { .. } => (severity, "two-of-one-soname"),
        Problem::WorldWritable { .. } => (Severity::Warning, "installation-world-writable"),
        // The sections of the driver and of the environment report these.
        Problem::StubOnSearchPath {
            by: Finder::LibraryPath,
        }
        | Problem::CompatOlderThanKernel { .. }
        | Problem::NotTheKernelsDriver { .. } => return None,
        Problem::StubOnSearchPath { .. } => (severity, "stub-given"),
    };
    let installation = Summary::of(installation);
    let evidence = vec![Evidence::Installation(installation.clone())];
    let what = FindingKind::BadInstallation {
        code,
        installation,
        problem: problem.clone(),
    };
    Some(Finding::new(severity, what, evidence))
}
