//! Faults of a machine for programs that use its GPUs: findings, each with its evidence. Only reads files; loads and
//! starts nothing. `profiles/faults.toml` and `report/doctor.rs` have the words.
//!
//! The line that put an element into LD_LIBRARY_PATH is found by its text; no shell code is evaluated. The most common
//! frameworks come first on doctor's page. What `doctor` finds about the driver and the GPUs is evidence for `diagnose`
//! too, with the same words.

mod cache;
mod driver;
mod elements;
mod environment;
mod finding;
mod gpus;
mod hidden;
mod installations;
mod platform;
mod project;
mod startup;
mod subject;

pub use cache::CacheUse;
pub use elements::JudgedElement;
pub use finding::{Detail, Finding, FindingEvidence, Stops};
pub use project::ProjectFiles;
pub use startup::{StartupLine, StartupLines};
pub use subject::{DoctorSubject, MachineKind, OS_RELEASE, named, titled};

use crate::catalog::Fault;
pub use crate::catalog::{Section, Severity};
use crate::host::Host;
use crate::inventory::Inventory;
use crate::settings::resolve::Settings;

#[derive(Debug)]
pub struct Examination {
    /// Sorted by section, then by severity, errors first.
    pub findings: Vec<Finding>,
    /// The elements of `LD_LIBRARY_PATH`, then of `LD_PRELOAD`, in order.
    pub elements: Vec<JudgedElement>,
    pub lines: StartupLines,
    pub project: ProjectFiles,
    pub kept: CacheUse,
    pub surroundings: MachineKind,
    /// What holds here too, though a finding that explains it better is reported in its place: an error message may be about it.
    hidden: Vec<(Fault, Finding)>,
}

pub fn examine(subject: &DoctorSubject<'_>) -> Examination {
    let surroundings = MachineKind::of(subject.host);
    let lines = startup::lines(subject.host);
    let elements = elements::elements(subject, &lines);
    let mut findings = driver::findings(subject, surroundings);
    findings.extend(gpus::findings(subject, surroundings, &findings));
    findings.extend(platform::findings(subject, surroundings));
    findings.extend(installations::findings(subject));
    findings.extend(environment::findings(subject, &elements));
    findings.extend(environment::following(subject, &lines));
    findings.extend(startup::findings(subject, &lines));
    let project = project::examine(subject, &mut findings);
    let kept = cache::examine(subject.host, &mut findings);
    let hidden = hidden::findings(subject, surroundings, &findings);
    findings.sort_by_key(|finding| (finding.section(), finding.severity));
    Examination {
        findings,
        elements,
        lines,
        project,
        kept,
        surroundings,
        hidden,
    }
}

/// The findings about settings and lock alone, for programs that run on other machines.
pub fn examine_project(host: &Host, settings: &Settings) -> Vec<Finding> {
    let mut findings = Vec::new();
    let subject = DoctorSubject {
        host,
        inventory: &Inventory::default(),
        views: &[],
        settings,
        followed_by: None,
    };
    project::examine(&subject, &mut findings);
    findings
}

impl Examination {
    /// The findings of this fault and of its cases, unless a case is a milder one here; if none is reported, what holds of them all
    /// the same.
    pub fn about(&self, fault: Fault) -> Vec<&Finding> {
        let cases = &fault.row().cases;
        let mut findings = Vec::new();
        for finding in &self.findings {
            let is_milder = finding.severity != finding.fault.row().severity[0];
            if finding.fault == fault || cases.contains(&finding.fault) && !is_milder {
                findings.push(finding);
            }
        }
        if findings.is_empty() {
            for (hidden, finding) in &self.hidden {
                if *hidden == fault || cases.contains(hidden) {
                    findings.push(finding);
                }
            }
        }
        findings
    }

    /// The faults that hold too, each with the finding that is reported in its place.
    pub fn hidden(&self) -> &[(Fault, Finding)] {
        &self.hidden
    }

    /// The errors that stop these programs.
    pub fn stops(&self, stops: Stops) -> impl Iterator<Item = &Finding> {
        self.findings
            .iter()
            .filter(move |finding| finding.severity == Severity::Error && finding.stops() == stops)
    }

    pub fn has_error(&self) -> bool {
        self.findings
            .iter()
            .any(|finding| finding.severity == Severity::Error)
    }
}
