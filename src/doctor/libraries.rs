//! Copies and their problems, of those that a program from here may come to, and what was passed over.

use super::finding::Named;
use super::{Evidence, Finding, Severity, Subject, What};
use crate::inventory::{Copy, Finder, Origin, Problem};

/// How many files that were passed over are named.
const FEW: usize = 5;

pub(super) fn findings(subject: &Subject<'_>) -> Vec<Finding> {
    let inventory = subject.inventory;
    let of_copy = |copy| {
        let problems = Copy::clone(copy).problems.into_iter();
        problems.filter_map(move |problem| finding(copy, problem))
    };
    let mut findings: Vec<Finding> = inventory.copies.iter().flat_map(of_copy).collect();
    if let Some(first) = inventory.warnings.first() {
        let named = inventory.warnings.iter().take(FEW);
        let evidence = named.map(|warning| Evidence::file(&warning.path, "")).collect();
        let what = What::PassedOver { first: first.clone(), more: inventory.warnings.len() - 1 };
        findings.push(Finding::note(what, evidence));
    }
    findings
}

fn finding(copy: &Copy, problem: Problem) -> Option<Finding> {
    let named = Named::of(copy);
    // What nobody is given without asking for it hurts those alone who do.
    let severity = if copy.loader_gives { Severity::Warning } else { Severity::Note };
    let evidence = vec![Evidence::Copy(named.clone())];
    let (severity, what) = match problem {
        // Stubs are never whole, and that is as it should be.
        Problem::Missing { .. } if copy.origin == Origin::Stub => return None,
        Problem::Missing { .. } => (severity, What::CopyIncomplete { copy: named, problem }),
        Problem::OtherVersionAmongTheRest { .. } => {
            (Severity::Warning, What::CopyMixed { copy: named, problem })
        }
        Problem::Truncated { .. } => (Severity::Warning, What::CopyDamaged { copy: named, problem }),
        Problem::PackageSaysOtherwise { .. }
        | Problem::NameSaysOtherwise { .. }
        | Problem::SizeIsNotRecorded { .. } => (severity, What::CopyNotAsInstalled { copy: named, problem }),
        Problem::SecondOfOneSoname { .. } => (severity, What::TwoOfOneSoname { copy: named, problem }),
        Problem::WorldWritable { .. } => {
            (Severity::Warning, What::CopyWorldWritable { copy: named, problem })
        }
        // Of these, the driver's section tells, and the element of LD_LIBRARY_PATH.
        Problem::StubOnSearchPath { by: Finder::LibraryPath }
        | Problem::CompatOlderThanKernel { .. }
        | Problem::NotTheKernelsDriver { .. } => return None,
        Problem::StubOnSearchPath { .. } => {
            let harms = copy.loader_gives;
            let severity = if harms { Severity::Warning } else { Severity::Note };
            (severity, What::StubGiven { copy: named, problem })
        }
    };
    Some(Finding::new(severity, what, evidence))
}
