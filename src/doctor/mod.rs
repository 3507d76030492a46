//! Faults of a machine for programs that use its GPUs: findings, each with its evidence. Only reads files; loads and
//! starts nothing. `profiles/faults.toml` and `report/doctor.rs` have the words.

mod cache;
mod driver;
mod elements;
mod environment;
mod finding;
mod gpus;
mod hidden;
mod libraries;
mod platform;
mod project;
mod startup;
mod subject;

pub use cache::CacheUse;
pub use elements::JudgedElement;
pub use finding::{Detail, Finding, FindingEvidence, Stops};
pub use project::ProjectFiles;
pub use startup::{StartupLine, StartupLines};
pub use subject::{DoctorSubject, MachineKind, named, titled};

use crate::catalog::Fault;
pub use crate::catalog::{Section, Severity};

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
    findings.extend(libraries::findings(subject));
    findings.extend(environment::findings(subject, &elements));
    findings.extend(environment::following(subject, &lines));
    findings.extend(startup::findings(subject, &lines));
    let (project, of_project) = project::look(subject);
    findings.extend(of_project);
    let (kept, of_cache) = cache::look(subject.host);
    findings.extend(of_cache);
    let hidden = hidden::look(subject, surroundings, &findings);
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

impl Examination {
    /// The findings of this fault and of its cases, unless a case is a milder one here; if none is reported, what holds of them all
    /// the same.
    pub fn about(&self, fault: Fault) -> Vec<&Finding> {
        let is_asked = |of: Fault| of == fault || fault.row().cases.contains(&of);
        let is_about = |finding: &&Finding| {
            let severest = finding.fault.row().severity.first();
            finding.fault == fault || is_asked(finding.fault) && severest == Some(&finding.severity)
        };
        let mut found: Vec<&Finding> = self.findings.iter().filter(is_about).collect();
        if found.is_empty() {
            let hidden = self.hidden.iter().filter(|(of, _)| is_asked(*of));
            found.extend(hidden.map(|(_, finding)| finding));
        }
        found
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
