//! Installations and their problems, of those that a program from here may come to, and what was passed over.

use super::finding::Named;
use super::{Evidence, Finding, FindingKind, Severity, Subject};
use crate::inventory::{Finder, Installation, Origin, Problem};

/// How many files that were passed over are named.
const FEW: usize = 5;

pub(super) fn findings(subject: &Subject<'_>) -> Vec<Finding> {
    let inventory = subject.inventory;
    let of_copy = |installation| {
        let problems = Installation::clone(installation).problems.into_iter();
        problems.filter_map(move |problem| finding(installation, problem))
    };
    let mut findings: Vec<Finding> = inventory.installations.iter().flat_map(of_copy).collect();
    if let Some(first) = inventory.warnings.first() {
        let named = inventory.warnings.iter().take(FEW);
        let evidence = named.map(|warning| Evidence::file(&warning.path, "")).collect();
        let what = FindingKind::PassedOver { first: first.clone(), more: inventory.warnings.len() - 1 };
        findings.push(Finding::note(what, evidence));
    }
    findings
}

fn finding(installation: &Installation, problem: Problem) -> Option<Finding> {
    let named = Named::of(installation);
    // FindingKind nobody is given without asking for it hurts those alone who do.
    let severity = if installation.loader_gives { Severity::Warning } else { Severity::Note };
    let evidence = vec![Evidence::Installation(named.clone())];
    let (severity, what) = match problem {
        // Stubs are never whole, and that is as it should be.
        Problem::Missing { .. } if installation.origin == Origin::Stub => return None,
        Problem::Missing { .. } => (severity, FindingKind::CopyIncomplete { installation: named, problem }),
        Problem::OtherVersionAmongTheRest { .. } => {
            (Severity::Warning, FindingKind::CopyMixed { installation: named, problem })
        }
        Problem::Truncated { .. } => {
            (Severity::Warning, FindingKind::CopyDamaged { installation: named, problem })
        }
        Problem::PackageSaysOtherwise { .. }
        | Problem::NameSaysOtherwise { .. }
        | Problem::SizeIsNotRecorded { .. } => {
            (severity, FindingKind::CopyNotAsInstalled { installation: named, problem })
        }
        Problem::SecondOfOneSoname { .. } => {
            (severity, FindingKind::TwoOfOneSoname { installation: named, problem })
        }
        Problem::WorldWritable { .. } => {
            (Severity::Warning, FindingKind::CopyWorldWritable { installation: named, problem })
        }
        // Of these, the driver's section tells, and the element of LD_LIBRARY_PATH.
        Problem::StubOnSearchPath { by: Finder::LibraryPath }
        | Problem::CompatOlderThanKernel { .. }
        | Problem::NotTheKernelsDriver { .. } => return None,
        Problem::StubOnSearchPath { .. } => {
            let harms = installation.loader_gives;
            let severity = if harms { Severity::Warning } else { Severity::Note };
            (severity, FindingKind::StubGiven { installation: named, problem })
        }
    };
    Some(Finding::new(severity, what, evidence))
}
