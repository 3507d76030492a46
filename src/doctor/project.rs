//! The files with settings, the keys in them that are not allowed, and the lock.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::finding::{Detail, Finding, FindingEvidence};
use super::subject::{DoctorSubject, evidence};
use crate::catalog::Fault;
use crate::settings::read::SettingsFile;
use crate::settings::resolve::SettingRemark;
use crate::settings::{FaultKind, Setting, SettingFault, files, lock, trust};

/// The files that count here.
#[derive(Debug, Default)]
pub struct ProjectFiles {
    /// The files with settings, nearest first.
    pub files: Vec<PathBuf>,
    pub lock: Option<PathBuf>,
}

pub(super) fn look(subject: &DoctorSubject<'_>) -> (ProjectFiles, Vec<Finding>) {
    let DoctorSubject { host, settings, .. } = *subject;
    let mut findings = Vec::new();
    for fault in &settings.faults {
        let found = Finding::new(Fault::SettingFault, evidence(&fault.place, host));
        findings.push(found.detail(Detail::Setting(fault.clone())));
    }
    for remark in settings.remarks.iter().cloned() {
        findings.push(match remark {
            SettingRemark::Key(remark) => {
                let unknown = Finding::new(Fault::UnknownKey, evidence(&remark.place, host));
                unknown.detail(Detail::UnknownKey(remark))
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
    let sources = settings.found.sources.iter();
    project
        .files
        .extend(sources.map(|source| source.path.clone()));
    findings.extend(of_lock(subject, &mut project));
    (project, findings)
}

/// The keys of the project's file that need `cudarun allow`. Those for one program stop only that program.
fn not_allowed(subject: &DoctorSubject<'_>) -> Option<Finding> {
    let DoctorSubject { host, settings, .. } = *subject;
    let source = settings.found.project()?;
    let all = settings.files.iter().flat_map(SettingsFile::all);
    let proposed: Vec<&Setting> = all
        .filter(|setting| setting.is_proposed_by(&source.path))
        .collect();
    if proposed.is_empty() || trust::is_allowed(host, &source.path, &source.bytes) {
        return None;
    }
    let keys: BTreeSet<String> = proposed.iter().map(|setting| setting.name()).collect();
    let places = proposed.iter().map(|setting| &setting.from);
    let evidence = places.flat_map(|place| evidence(place, host)).collect();
    let found = Finding::new(Fault::NotAllowed, evidence);
    let found = found.milder(settings.not_allowed().is_none());
    let file = source.path.clone();
    Some(found.detail(Detail::NotAllowed { file, keys }))
}

/// A fault of a lock is an error only if the settings demand the lock.
fn of_lock(subject: &DoctorSubject<'_>, project: &mut ProjectFiles) -> Option<Finding> {
    let DoctorSubject { host, settings, .. } = *subject;
    let is_locked = settings.layers.is_locked();
    let path = settings.lock_file();
    let fault = |fault: SettingFault| {
        let found = Finding::new(Fault::LockFault, evidence(&fault.place, host));
        Some(found.milder(!is_locked).detail(Detail::Setting(fault)))
    };
    let bytes = match files::read(host, &path) {
        Ok(Some(bytes)) => bytes,
        Ok(None) if !is_locked => return None,
        Ok(None) => return fault(FaultKind::NoLock.of_file(&path)),
        Err(wrong) => return fault(wrong),
    };
    project.lock = Some(path.clone());
    let lock = match lock::lock(&bytes, &path) {
        Ok(lock) => lock,
        Err(wrong) => return fault(wrong),
    };
    let (needs, kernel) = (lock.driver?, subject.inventory.driver.as_ref()?);
    let says = FindingEvidence::file(&path, format!("driver >= {needs}"));
    let runs = FindingEvidence::file(&kernel.from, kernel.version.to_string());
    let old = Finding::new(Fault::LockNeedsDriver, vec![says, runs]).milder(!is_locked);
    let old = old.with("needs", needs).with("kernel", kernel.version);
    (kernel.version < needs).then_some(old)
}
