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
use crate::solve::Plan;
use crate::text;

/// The beginning of the names of the driver's library for CUDA.
const DRIVER: &[u8] = b"libcuda.so";

#[derive(Debug, Serialize)]
pub struct ObservedProcess {
    /// In the order of their starts.
    pub images: Vec<ProcessImage>,
    /// True if there was a plan to compare with.
    pub has_plan: bool,
    /// True if some process opened the driver's library, without which no GPU is used.
    pub has_opened_driver: bool,
    /// False if the program opened no GPU; `None` without a GPU, or where nobody can tell.
    pub has_opened_gpu: Option<bool>,
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
        has_opened_gpu: Option<bool>,
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
            let pid = record.pid;
            let library = MappedLibrary::new(host, record, plan);
            match images.iter_mut().rfind(|image| image.pid == pid) {
                Some(image) => image.files.push(library),
                None => {
                    let mut image = ProcessImage::new(pid, None);
                    image.files.push(library);
                    images.push(image);
                }
            }
        }
        // cudarun becomes each program that it follows.
        let own = host.own_executable().ok();
        images.retain(|image| image.program.is_none() || image.program != own);
        let mut files = images.iter().flat_map(|image| &image.files);
        ObservedProcess {
            has_opened_driver: files.any(|file| file.name.as_bytes().starts_with(DRIVER)),
            has_opened_gpu,
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
        let family = catalog()
            .family_of_file(&record.path)
            .or_else(|| catalog().family_of_file(&file))
            .map(|(family, _)| family.name.clone());
        let mut picks = Vec::new();
        for pick in plan.iter().flat_map(|plan| &plan.picks) {
            if Some(&pick.installation.family) == family.as_ref() {
                picks.push(pick);
            }
        }
        let is_picked =
            id.is_some_and(|id| picks.iter().any(|pick| pick.installation.has_file(id)));
        let mut in_plan = is_picked.then_some(true);
        // A shim from elsewhere opens the picked files.
        if !is_picked && !picks.is_empty() && !catalog().is_shim(&file) {
            let number = soname_number_of(host, &record.path);
            if picks.iter().any(|pick| pick.is_of_soname(number)) {
                in_plan = Some(false);
            }
        }
        MappedLibrary {
            in_plan,
            name: record.name,
            path: record.path,
            requester: record.requester,
            rule: record.rule,
            file,
            family,
        }
    }
}

/// The number in a file's SONAME, or in its name where it has none.
fn soname_number_of(host: &Host, file: &Path) -> Option<u32> {
    let data = host.map(file).ok();
    let elf = data.as_deref().and_then(|data| Elf::parse(data).ok());
    let name = elf
        .and_then(|elf| elf.soname())
        .or_else(|| Some(file.file_name()?.as_bytes()))?;
    soname_number(std::str::from_utf8(name).ok()?)
}
