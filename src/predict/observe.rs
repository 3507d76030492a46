//! The files that a traced program mapped, compared with the plan.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::catalog::{catalog, soname_number};
use crate::formats::audit_log::{TraceRecord, TracedRule};
use crate::formats::elf::Elf;
use crate::host::Host;
use crate::program::Program;
use crate::solve::{Pick, Plan};
use crate::text;

#[derive(Debug, Serialize)]
pub struct ObservedProcess {
    /// In the order of their starts.
    pub images: Vec<ProcessImage>,
    /// True if there was a plan to compare with.
    pub has_plan: bool,
}

/// A process from one exec to the next, or from a fork on.
#[derive(Debug, Serialize)]
pub struct ProcessImage {
    pub pid: u32,
    /// `None` for a process that was forked and has started no program.
    #[serde(serialize_with = "text::optional_path")]
    pub program: Option<PathBuf>,
    /// True for the first start of the program that was decided about.
    pub is_target: bool,
    pub files: Vec<MappedLibrary>,
}

#[derive(Debug, Serialize)]
pub struct MappedLibrary {
    #[serde(serialize_with = "text::path")]
    pub name: OsString,
    /// The path that the loader found, links not resolved.
    #[serde(serialize_with = "text::path")]
    pub path: PathBuf,
    /// The real path.
    #[serde(serialize_with = "text::path")]
    pub file: PathBuf,
    #[serde(serialize_with = "text::path")]
    pub requester: PathBuf,
    pub rule: TracedRule,
    /// Its library family, if it has one.
    pub family: Option<String>,
    /// True if it was picked; `None` where nothing was picked of its family and SONAME, and for a shim from elsewhere.
    pub in_plan: Option<bool>,
}

impl ObservedProcess {
    pub fn new(
        host: &Host,
        records: Vec<TraceRecord>,
        program: &Program,
        plan: Option<&Plan>,
    ) -> ObservedProcess {
        let mut images: Vec<ProcessImage> = Vec::new();
        for record in records {
            if record.rule == TracedRule::Program {
                let is_target = !images.iter().any(|image| image.is_target)
                    && program.executable == host.canonical(&record.path).ok();
                images.push(ProcessImage {
                    is_target,
                    ..ProcessImage::new(record.pid, Some(record.path))
                });
                continue;
            }
            let known = images.iter().rposition(|image| image.pid == record.pid);
            let index = known.unwrap_or_else(|| {
                images.push(ProcessImage::new(record.pid, None));
                images.len() - 1
            });
            images[index]
                .files
                .push(MappedLibrary::new(host, record, plan));
        }
        // cudarun becomes each program that it follows.
        let own = host.own_executable().ok();
        images.retain(|image| image.program.is_none() || image.program != own);
        ObservedProcess {
            images,
            has_plan: plan.is_some(),
        }
    }
}

impl ProcessImage {
    fn new(pid: u32, program: Option<PathBuf>) -> ProcessImage {
        ProcessImage {
            pid,
            program,
            is_target: false,
            files: Vec::new(),
        }
    }
}

impl MappedLibrary {
    fn new(host: &Host, record: TraceRecord, plan: Option<&Plan>) -> MappedLibrary {
        let file = host
            .canonical(&record.path)
            .unwrap_or_else(|_| record.path.clone());
        let id = host.stat(&record.path).ok().map(|stat| stat.id);
        let family_of = |path| {
            catalog()
                .family_of_file(path)
                .map(|(family, _)| family.name.clone())
        };
        let family = family_of(&record.path).or_else(|| family_of(&file));
        let picks = plan.iter().flat_map(|plan| &plan.picks);
        let of_family: Vec<_> = picks
            .filter(|pick| Some(&pick.installation.family) == family.as_ref())
            .collect();
        let is_picked = of_family
            .iter()
            .any(|pick| id.is_some_and(|id| pick.installation.has_file(id)));
        let is_of_soname = |pick: &&Pick| pick.is_of_soname(number(host, &record.path));
        // A shim from elsewhere opens the picked files.
        let should_be_picked = || !catalog().is_shim(&file) && of_family.iter().any(is_of_soname);
        MappedLibrary {
            in_plan: (is_picked || should_be_picked()).then_some(is_picked),
            name: record.name,
            path: record.path,
            requester: record.requester,
            rule: record.rule,
            file,
            family,
        }
    }
}

/// Returns the number in a file's SONAME, or in its name where it has none.
fn number(host: &Host, file: &Path) -> Option<u32> {
    let data = host.map(file).ok();
    let elf = data.as_deref().and_then(|data| Elf::parse(data).ok());
    let name = elf
        .and_then(|elf| elf.soname())
        .or_else(|| Some(file.file_name()?.as_bytes()))?;
    soname_number(std::str::from_utf8(name).ok()?)
}
