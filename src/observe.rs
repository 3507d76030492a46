//! What a traced program really mapped, beside what the model of the loader expected and what was planned.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::catalog::catalog;
use crate::host::{FileId, Host};
use crate::module::{Record, Rule};
use crate::predict::{Prediction, When};
use crate::solve::Plan;
use crate::target::Target;
use crate::text;

#[derive(Debug, Serialize)]
pub struct Observation {
    /// In the order in which they began.
    pub images: Vec<Image>,
    /// Whether there was a plan to be compared with.
    pub has_plan: bool,
}

/// A process from one exec to the next.
#[derive(Debug, Serialize)]
pub struct Image {
    pub pid: u32,
    #[serde(serialize_with = "text::path")]
    pub program: PathBuf,
    /// Whether it is the program that was decided about: the model speaks of no other.
    pub is_target: bool,
    pub files: Vec<Mapped>,
    /// Where the model was wrong.
    pub wrong: Vec<Wrong>,
}

#[derive(Debug, Serialize)]
pub struct Mapped {
    #[serde(serialize_with = "text::path")]
    pub name: OsString,
    /// As it was found, links not resolved.
    #[serde(serialize_with = "text::path")]
    pub path: PathBuf,
    /// The file itself.
    #[serde(serialize_with = "text::path")]
    pub file: PathBuf,
    #[serde(serialize_with = "text::path")]
    pub requester: PathBuf,
    pub rule: Rule,
    /// The family of NVIDIA's that it is of.
    pub family: Option<String>,
    /// Whether it was picked; none where nothing was picked of its family.
    pub in_plan: Option<bool>,
    #[serde(skip)]
    id: Option<FileId>,
}

/// What the model said, and what was so.
#[derive(Debug, Serialize)]
pub struct Wrong {
    #[serde(serialize_with = "text::path")]
    pub name: OsString,
    #[serde(serialize_with = "text::optional_path")]
    pub expected: Option<PathBuf>,
    #[serde(serialize_with = "text::optional_path")]
    pub mapped: Option<PathBuf>,
}

impl Observation {
    pub fn new(
        host: &Host,
        records: Vec<Record>,
        target: &Target,
        prediction: &Prediction,
        plan: Option<&Plan>,
    ) -> Observation {
        let mut images: Vec<Image> = Vec::new();
        for record in records {
            if record.rule == Rule::Program {
                let is_target = target.executable.as_deref() == host.canonical(&record.path).ok().as_deref();
                let (files, wrong) = (Vec::new(), Vec::new());
                images.push(Image { pid: record.pid, program: record.path, is_target, files, wrong });
            } else if let Some(image) = images.iter_mut().rfind(|image| image.pid == record.pid) {
                image.files.push(Mapped::of(host, record, plan));
            }
        }
        for image in images.iter_mut().filter(|image| image.is_target) {
            image.wrong = wrong(image, prediction, host);
        }
        Observation { images, has_plan: plan.is_some() }
    }

    /// The libraries of NVIDIA's that were mapped.
    pub fn of_families(&self) -> impl Iterator<Item = &Mapped> {
        self.images.iter().flat_map(|image| &image.files).filter(|file| file.family.is_some())
    }
}

impl Mapped {
    fn of(host: &Host, record: Record, plan: Option<&Plan>) -> Mapped {
        let file = host.canonical(&record.path).unwrap_or_else(|_| record.path.clone());
        let id = host.stat(&record.path).ok().map(|stat| stat.id);
        let family = family_of(&record.path).or_else(|| family_of(&file));
        let picked = plan.iter().flat_map(|plan| &plan.picks).map(|pick| &pick.copy);
        let of_family: Vec<_> = picked.filter(|copy| Some(&copy.family) == family.as_ref()).collect();
        let is_picked = || of_family.iter().any(|copy| id.is_some_and(|id| copy.has_file(id)));
        Mapped {
            in_plan: (!of_family.is_empty()).then(is_picked),
            name: record.name,
            path: record.path,
            requester: record.requester,
            rule: record.rule,
            file,
            family,
            id,
        }
    }
}

fn family_of(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    catalog().family_of(name).map(|(family, _)| family.name.clone())
}

/// What was mapped and not expected; and what the start was expected to map and did not. What may be opened need not be.
fn wrong(image: &Image, prediction: &Prediction, host: &Host) -> Vec<Wrong> {
    let expected = || prediction.files.iter().filter(|file| file.family.is_some());
    let is_expected = |mapped: &&Mapped| expected().any(|file| Some(file.id) == mapped.id);
    let mapped = || image.files.iter().filter(|mapped| mapped.family.is_some());
    let unexpected = mapped().filter(|mapped| !is_expected(mapped)).map(|mapped| {
        let instead = expected().find(|file| file.path.file_name() == mapped.path.file_name());
        let expected = instead.map(|file| host.canonical(&file.path).unwrap_or_else(|_| file.path.clone()));
        Wrong { name: mapped.name.clone(), expected, mapped: Some(mapped.file.clone()) }
    });
    let at_start = expected().filter(|file| file.when == When::Start);
    let is_mapped = |id: FileId| image.files.iter().any(|mapped| mapped.id == Some(id));
    let absent = at_start.filter(|file| !is_mapped(file.id)).map(|file| Wrong {
        name: OsString::from(&file.name),
        expected: Some(file.path.clone()),
        mapped: None,
    });
    unexpected.chain(absent).collect()
}
