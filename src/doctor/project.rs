//! The files with settings, the keys in them that are not allowed, and the lock.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::finding::{Detail, Finding, FindingEvidence};
use super::subject::{DoctorSubject, place_evidence};
use crate::catalog::Fault;
use crate::host::Host;
use crate::settings::read::SettingsFile;
use crate::settings::resolve::SettingRemark;
use crate::settings::{FaultKind, SettingFault, files, lock, trust};

/// The files that count here.
#[derive(Debug, Default)]
pub struct ProjectFiles {
    /// The files with settings, nearest first.
    pub files: Vec<PathBuf>,
    pub lock: Option<PathBuf>,
}

pub(super) fn examine(subject: &DoctorSubject<'_>, findings: &mut Vec<Finding>) -> ProjectFiles {
    let DoctorSubject { host, settings, .. } = *subject;
    for fault in &settings.faults {
        let finding = Finding::new(Fault::SettingFault, place_evidence(&fault.place, host));
        findings.push(finding.detail(Detail::Setting(fault.clone())));
    }
    for remark in settings.remarks.iter().cloned() {
        findings.push(match remark {
            SettingRemark::Key(remark) => {
                let finding = Finding::new(Fault::UnknownKey, place_evidence(&remark.place, host));
                finding.detail(Detail::UnknownKey(remark))
            }
            SettingRemark::Malformed(malformed) => {
                let name = malformed.variable.clone();
                let evidence = vec![FindingEvidence::Set { name }];
                Finding::new(Fault::ImageConditionMalformed, evidence)
                    .detail(Detail::Malformed(malformed))
            }
            // With those for single programs, below.
            SettingRemark::NotAllowed { .. } => continue,
        });
    }
    findings.extend(not_allowed(subject));
    let mut project = ProjectFiles::default();
    for source in &settings.found.sources {
        project.files.push(source.path.clone());
    }
    findings.extend(lock_finding(subject, &mut project));
    project
}

/// The keys of the project's file that need `cudarun allow`. Those for one program stop only that program.
fn not_allowed(subject: &DoctorSubject<'_>) -> Option<Finding> {
    let DoctorSubject { host, settings, .. } = *subject;
    let source = settings.found.project()?;
    let mut keys = BTreeSet::new();
    let mut evidence = Vec::new();
    for setting in settings.files.iter().flat_map(SettingsFile::all) {
        if setting.is_proposed_by(&source.path) {
            keys.insert(setting.name());
            evidence.extend(place_evidence(&setting.from, host));
        }
    }
    if keys.is_empty() || trust::is_allowed(host, &source.path, &source.bytes) {
        return None;
    }
    let finding =
        Finding::new(Fault::NotAllowed, evidence).milder(settings.not_allowed().is_none());
    let file = source.path.clone();
    Some(finding.detail(Detail::NotAllowed { file, keys }))
}

/// A fault of a lock is an error only if the settings demand the lock.
fn lock_finding(subject: &DoctorSubject<'_>, project: &mut ProjectFiles) -> Option<Finding> {
    let DoctorSubject { host, settings, .. } = *subject;
    let is_locked = settings.layers.is_locked();
    let path = settings.lock_file();
    let bytes = match files::read(host, &path) {
        Ok(Some(bytes)) => bytes,
        Ok(None) if !is_locked => return None,
        Ok(None) => {
            return Some(lock_fault_finding(
                host,
                FaultKind::NoLock.of_file(&path),
                is_locked,
            ));
        }
        Err(fault) => return Some(lock_fault_finding(host, fault, is_locked)),
    };
    project.lock = Some(path.clone());
    let lock = match lock::lock(&bytes, &path) {
        Ok(lock) => lock,
        Err(fault) => return Some(lock_fault_finding(host, fault, is_locked)),
    };
    let (floor, kernel) = (lock.driver?, subject.inventory.driver.as_ref()?);
    if kernel.version >= floor {
        return None;
    }
    let evidence = vec![
        FindingEvidence::file(&path, format!("driver >= {floor}")),
        FindingEvidence::file(&kernel.from, kernel.version.to_string()),
    ];
    let finding = Finding::new(Fault::LockNeedsDriver, evidence).milder(!is_locked);
    let finding = finding.with("needs", floor);
    Some(finding.with("kernel", kernel.version))
}

fn lock_fault_finding(host: &Host, fault: SettingFault, is_locked: bool) -> Finding {
    Finding::new(Fault::LockFault, place_evidence(&fault.place, host))
        .milder(!is_locked)
        .detail(Detail::Setting(fault))
}
