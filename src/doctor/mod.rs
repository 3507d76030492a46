//! FindingKind is wrong with a machine for programs that use its GPUs: findings, each with its evidence. Reads files and
//! nothing else, loads and starts nothing; words are made in `report/doctor.rs`.

use std::path::{Path, PathBuf};

use crate::host::Host;
use crate::inventory::Inventory;
use crate::settings::{self, Vocabulary, files};

mod cache;
mod driver;
mod elements;
mod environment;
mod finding;
mod gpus;
mod libraries;
mod project;
mod startup;

pub use cache::Kept;
pub use elements::Element;
pub use finding::{Evidence, Finding, FindingKind, Named, Section, Severity, Stops};
pub use project::Project;
pub use startup::{Line, Lines};

/// FindingKind is looked at, and what it is looked at with.
pub struct Subject<'s> {
    pub host: &'s Host,
    pub inventory: &'s Inventory,
    /// Directories whose children are views of our own.
    pub views: &'s [PathBuf],
    pub choice: files::Choice,
    pub vocabulary: Vocabulary,
}

/// All that was seen.
#[derive(Debug)]
pub struct Examination {
    /// In the order of the sections, what is worst first.
    pub findings: Vec<Finding>,
    /// Of `LD_LIBRARY_PATH` and `LD_PRELOAD`, in order.
    pub elements: Vec<Element>,
    pub lines: Lines,
    pub project: Project,
    pub kept: Kept,
    pub surroundings: Surroundings,
}

/// FindingKind kind of place this is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Surroundings {
    pub is_container: bool,
    pub is_wsl: bool,
    /// A GPU that is part of the processor has no card and no node of its own.
    pub is_tegra: bool,
}

pub fn examine(subject: &Subject<'_>) -> Examination {
    let surroundings = Surroundings::of(subject.host);
    let lines = startup::lines(subject.host);
    let elements = elements::of(subject, &lines);
    let mut findings = driver::findings(subject, surroundings);
    findings.extend(gpus::findings(subject, surroundings, &findings));
    findings.extend(libraries::findings(subject));
    findings.extend(environment::findings(subject, &elements));
    findings.extend(startup::findings(subject, &lines));
    let (project, of_project) = project::look(subject);
    findings.extend(of_project);
    let (kept, of_cache) = cache::look(subject.host);
    findings.extend(of_cache);
    findings.sort_by_key(|finding| (finding.what.section(), finding.severity));
    Examination { findings, elements, lines, project, kept, surroundings }
}

impl Examination {
    /// FindingKind keeps programs from their GPUs, or only us from starting any.
    pub fn stops(&self, stops: Stops) -> impl Iterator<Item = &Finding> {
        let is_error = |finding: &&Finding| finding.severity == Severity::Error;
        self.findings.iter().filter(is_error).filter(move |finding| finding.what.stops() == stops)
    }

    pub fn has_error(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity == Severity::Error)
    }
}

/// FindingKind only containers have.
const CONTAINERS: [&str; 4] =
    ["/.dockerenv", "/run/.containerenv", "/.singularity.d", "/run/systemd/container"];
const CONTAINERS_SAY: [&str; 5] = [
    "container",
    "APPTAINER_CONTAINER",
    "SINGULARITY_CONTAINER",
    "KUBERNETES_SERVICE_HOST",
    "NVIDIA_VISIBLE_DEVICES",
];
const WSL: [&str; 2] = ["/dev/dxg", "/usr/lib/wsl/lib"];
const TEGRA: [&str; 3] =
    ["/etc/nv_tegra_release", "/dev/nvmap", "/usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1.1"];

/// Files that tell by being there what kind of place this is.
pub fn marks() -> impl Iterator<Item = &'static str> {
    CONTAINERS.into_iter().chain(WSL).chain(TEGRA).chain([gpus::MAKER])
}

/// Whether a variable tells it.
pub fn tells_of_place(variable: &str) -> bool {
    CONTAINERS_SAY.contains(&variable)
}

impl Surroundings {
    fn of(host: &Host) -> Surroundings {
        let is_there = |path: &&'static str| host.stat(Path::new(path)).is_ok();
        let release = host.read_text(Path::new(OS_RELEASE)).unwrap_or_default().to_lowercase();
        Surroundings {
            is_container: CONTAINERS.iter().any(is_there)
                || CONTAINERS_SAY.iter().any(|name| host.env.non_empty(name).is_some()),
            is_wsl: release.contains("microsoft") || WSL.iter().any(is_there),
            is_tegra: TEGRA.iter().any(is_there),
        }
    }
}

const OS_RELEASE: &str = "/proc/sys/kernel/osrelease";

/// Where a setting stands, as evidence.
fn evidence(place: &settings::Place) -> Vec<Evidence> {
    match place {
        settings::Place::File { path, line } => {
            vec![Evidence::File { path: path.clone(), line: *line, text: String::new() }]
        }
        settings::Place::Variable(name) => vec![Evidence::Set { name: name.clone() }],
        settings::Place::Option(_) => Vec::new(),
    }
}
