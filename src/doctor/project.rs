//! The files with settings, the keys in them that are not allowed, and the lock.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::finding::{Detail, Evidence, Finding};
use super::subject::{Subject, evidence};
use crate::catalog::{Fault, Severity};
use crate::settings::{
    FaultKind, Layers, Setting, SettingFault, SettingPlace, container, files, invocation, lock,
    read, trust,
};

/// The files that count here.
#[derive(Debug, Default)]
pub struct Project {
    /// The files with settings, nearest first.
    pub files: Vec<PathBuf>,
    pub lock: Option<PathBuf>,
}

pub(super) fn look(subject: &Subject<'_>) -> (Project, Vec<Finding>) {
    let host = subject.host;
    let mut project = Project::default();
    let mut findings = Vec::new();
    let fault = |fault: SettingFault| {
        let evidence = evidence(&fault.place, host);
        Finding::new(Fault::SettingFault, evidence).detail(Detail::Setting(fault))
    };
    // In the order of a start.
    let mut settings = Layers::default();
    let (layer, wrong) = invocation::good_variables(&host.env, &subject.vocabulary);
    settings.add(layer);
    findings.extend(wrong.into_iter().map(fault));
    let found = files::find(host, &subject.choice).unwrap_or_else(|wrong| {
        findings.push(fault(wrong));
        files::Found::default()
    });
    for source in &found.sources {
        project.files.push(source.path.clone());
        let file = match read::file(&source.bytes, &source.path, &subject.vocabulary) {
            Ok(file) => file,
            Err(wrong) => {
                findings.push(fault(wrong));
                continue;
            }
        };
        findings.extend(file.remarks.iter().map(|remark| {
            let unknown = Finding::new(Fault::UnknownKey, evidence(&remark.place, host));
            unknown.detail(Detail::UnknownKey(remark.clone()))
        }));
        settings.add(file.layer.clone());
        let all = file
            .layer
            .iter()
            .chain(file.programs.iter().flat_map(|(_, layer)| layer));
        let proposed: Vec<&Setting> = all.filter(|setting| setting.needs_trust()).collect();
        let asks = source.is_project && !proposed.is_empty();
        if asks && !trust::is_allowed(host, &source.path, &source.bytes) {
            let keys: BTreeSet<String> =
                proposed.iter().map(|setting| setting.key.name()).collect();
            let evidence = proposed
                .iter()
                .flat_map(|setting| self::evidence(&setting.from, host))
                .collect();
            // Keys for one program stop only that program.
            let is_of_all =
                |setting: &Setting| setting.needs_trust() && setting.stands_in(&source.path);
            let severity = if settings.iter().any(is_of_all) {
                Severity::Error
            } else {
                Severity::Warning
            };
            let file = source.path.clone();
            let not_allowed = Finding::new(Fault::NotAllowed, evidence).severity(severity);
            findings.push(not_allowed.detail(Detail::NotAllowed { file, keys }));
        }
    }
    findings.extend(of_lock(subject, &found, settings.is_locked(), &mut project));
    let (_, malformed) = container::conditions(&host.env);
    findings.extend(malformed.into_iter().map(|malformed| {
        let evidence = vec![Evidence::Set {
            name: malformed.variable.clone(),
        }];
        let found = Finding::new(Fault::ImageConditionMalformed, evidence);
        found.detail(Detail::Malformed(malformed))
    }));
    (project, findings)
}

/// A fault of a lock is an error only if the settings demand the lock.
fn of_lock(
    subject: &Subject<'_>,
    found: &files::Found,
    is_locked: bool,
    project: &mut Project,
) -> Vec<Finding> {
    let severity = if is_locked {
        Severity::Error
    } else {
        Severity::Warning
    };
    let path = files::lock(
        subject.host,
        found.project().map(|source| source.path.as_path()),
    );
    let fault = |fault: SettingFault| {
        let evidence = evidence(&fault.place, subject.host);
        let found = Finding::new(Fault::LockFault, evidence).severity(severity);
        vec![found.detail(Detail::Setting(fault))]
    };
    let place = SettingPlace::File {
        path: path.clone(),
        line: None,
    };
    let bytes = match files::read(subject.host, &path) {
        Ok(Some(bytes)) => bytes,
        Ok(None) if is_locked => {
            return fault(SettingFault {
                place,
                wrong: FaultKind::NoLock,
                excerpt: None,
            });
        }
        Ok(None) => return Vec::new(),
        Err(wrong) => return fault(wrong),
    };
    project.lock = Some(path.clone());
    let lock = match lock::lock(&bytes, &path) {
        Ok(lock) => lock,
        Err(wrong) => return fault(wrong),
    };
    match (lock.driver, &subject.inventory.driver) {
        (Some(needs), Some(kernel)) if kernel.version < needs => {
            let says = Evidence::file(&path, format!("driver >= {needs}"));
            let runs = Evidence::file(&kernel.from, kernel.version.to_string());
            let old = Finding::new(Fault::LockNeedsDriver, vec![says, runs]).severity(severity);
            vec![old.with("needs", needs).with("kernel", kernel.version)]
        }
        _ => Vec::new(),
    }
}
