//! Checks of the tools of a CUDA toolkit, as far as files tell.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::cause::CheckAnswer;
use super::checks::record_evidence;
use super::facts::CheckContext;
use super::gpu_checks::parse_capability;
use super::library_checks::parse_version;
use crate::catalog::architecture;
use crate::doctor::{FindingEvidence, OS_RELEASE};
use crate::host::Host;
use crate::inventory::{PartKind, Toolkit};
use crate::program;
use crate::version::{CudaVersion, Version};

const HOMES: [&str; 3] = ["CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"];
const USUAL: &str = "/usr/local/cuda";

/// A file of a toolkit that does a job, and the CUDA version of the toolkit.
struct ToolFile<'t> {
    path: &'t Path,
    release: Option<Version>,
}

impl ToolFile<'_> {
    fn evidence(&self) -> FindingEvidence {
        let text = self.release.map(|release| release.to_string());
        FindingEvidence::file(self.path, text.unwrap_or_default())
    }
}

impl CheckContext<'_, '_, '_> {
    /// The toolkits with a part, in the order in which builds look: named by a variable, in PATH, in the usual place.
    fn toolkits(&self, part: PartKind) -> Vec<&Toolkit> {
        let host = self.facts.host;
        let mut roots: Vec<PathBuf> = HOMES
            .iter()
            .filter_map(|name| host.env.non_empty(name))
            .map(PathBuf::from)
            .collect();
        if let Some(file) = self.on_path(part.file_name()) {
            let file = host.canonical(&file).unwrap_or(file);
            roots.extend(file.ancestors().nth(2).map(Path::to_owned));
        }
        roots.push(PathBuf::from(USUAL));
        roots = roots
            .iter()
            .filter_map(|root| host.canonical(root).ok())
            .collect();
        let mut toolkits: Vec<&Toolkit> = self.facts.toolkits.iter().collect();
        toolkits.retain(|toolkit| toolkit.parts.contains_key(&part));
        toolkits.sort_by_key(|toolkit| {
            let index = roots.iter().position(|root| *root == toolkit.root);
            index.unwrap_or(roots.len())
        });
        toolkits
    }

    fn on_path(&self, tool: &str) -> Option<PathBuf> {
        let host = self.facts.host;
        program::candidates(host, OsStr::new(tool)).find(|file| host.is_executable(file))
    }

    fn first_part(&self, part: PartKind) -> Option<ToolFile<'_>> {
        let toolkit = self.toolkits(part).first().copied()?;
        let release = toolkit.parts[&part].release.or(toolkit.release);
        Some(ToolFile {
            path: toolkit.part(part)?,
            release: release.map(|release| release.truncated(2)),
        })
    }

    pub(super) fn no_part(&self, part: PartKind) -> Option<CheckAnswer> {
        if let Some(file) = self.first_part(part) {
            return CheckAnswer::new(false, vec![file.evidence()]);
        }
        let directory = if part == PartKind::Libdevice {
            "nvvm/libdevice"
        } else {
            "bin"
        };
        let path = Path::new(USUAL).join(directory).join(part.file_name());
        let mut evidence = Vec::new();
        if self.facts.host.stat(&path).is_err() {
            evidence.push(FindingEvidence::absent(path));
        }
        CheckAnswer::new(true, evidence)
    }

    pub(super) fn part_not_on_path(&self, part: PartKind) -> Option<CheckAnswer> {
        let Some(file) = self.first_part(part) else {
            return CheckAnswer::new(false, Vec::new());
        };
        let is_lost = self.on_path(part.file_name()).is_none();
        CheckAnswer::new(is_lost, vec![file.evidence()])
    }

    /// Does a framework of the program lack a part that a toolkit here has?
    pub(super) fn not_found_by_framework(&self, part: PartKind) -> Option<CheckAnswer> {
        let mut supplied = self.facts.compilers.supplied.iter();
        let supply = supplied.find(|supply| supply.lack.part == part)?;
        let is_given = self.is_planned && !supply.is_withheld;
        let evidence = vec![FindingEvidence::file(&supply.toolkit, part.file_name())];
        CheckAnswer::new(!is_given, evidence)
    }

    pub(super) fn host_compiler_missing(&self) -> Option<CheckAnswer> {
        let files = program::candidates(self.facts.host, OsStr::new("g++"));
        self.is_none_here(files.collect(), Host::is_executable)
    }

    /// Kernels with pages of 64 kB say so in their release.
    pub(super) fn small_pages(&self) -> Option<CheckAnswer> {
        let file = Path::new(OS_RELEASE);
        let release = self.facts.host.read_text(file).ok()?;
        let release = release.trim();
        let evidence = vec![FindingEvidence::file(file, release.to_owned())];
        CheckAnswer::new(release.contains("64k"), evidence)
    }

    /// PyTorch accepts another minor of the major it was built with. `subject` is a framework or a version.
    pub(super) fn toolkit_mismatch(&self, subject: &str) -> Option<CheckAnswer> {
        let mut packages = self.facts.program.packages.iter();
        let wanted = match packages.find(|package| package.name == subject) {
            Some(package) => package.cuda?.version(),
            None => parse_version(subject, None)?,
        };
        let nvcc = self.first_part(PartKind::Nvcc)?;
        let is_other = wanted.major() != nvcc.release?.major();
        CheckAnswer::new(is_other, vec![nvcc.evidence()])
    }

    /// The wheels of nvcc come in parts, which must be of one release.
    pub(super) fn toolkit_mixed(&self) -> Option<CheckAnswer> {
        let records = self.distributions(&["nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-cuda-crt"]);
        if records.is_empty() {
            return None;
        }
        let mut releases = BTreeSet::new();
        for (version, _) in &records {
            if let Ok(version) = version.parse::<Version>() {
                releases.insert(version.truncated(2));
            }
        }
        CheckAnswer::new(releases.len() > 1, record_evidence(records))
    }

    /// Only an architecture tells; a version of PTX does not.
    pub(super) fn part_too_old(&self, part: PartKind, architecture: &str) -> Option<CheckAnswer> {
        let versions = cuda_versions(architecture)?;
        let file = self.first_part(part)?;
        let is_old = file.release? < versions.first()?.version();
        CheckAnswer::new(is_old, vec![file.evidence()])
    }

    pub(super) fn part_too_new(&self, part: PartKind, architecture: &str) -> Option<CheckAnswer> {
        let versions = cuda_versions(architecture)?;
        let file = self.first_part(part)?;
        let release = file.release?;
        let last = versions.get(1);
        let is_new = last.is_some_and(|last| release > last.version());
        CheckAnswer::new(is_new, vec![file.evidence()])
    }

    /// Reads the version of gcc from the name that `gcc` leads to, as distributions have it.
    pub(super) fn host_compiler(&self, ceiling: Option<&str>) -> Option<CheckAnswer> {
        let path = self.facts.host.canonical(&self.on_path("gcc")?).ok()?;
        let (_, suffix) = path.file_name()?.to_str()?.rsplit_once("gcc-")?;
        let version = suffix.parse::<Version>().ok()?;
        let ceiling = match ceiling.and_then(|text| text.parse::<Version>().ok()) {
            Some(ceiling) => ceiling.major(),
            None => self.toolkits(PartKind::Nvcc).first()?.newest_gcc?,
        };
        let is_new = version.major() > ceiling;
        let evidence = vec![FindingEvidence::file(path, version.to_string())];
        CheckAnswer::new(is_new, evidence)
    }

    pub(super) fn headers_missing(&self, header: &str) -> Option<CheckAnswer> {
        let toolkits = self.toolkits(PartKind::Nvcc);
        let mut roots: Vec<&Path> = toolkits
            .iter()
            .map(|toolkit| toolkit.root.as_path())
            .collect();
        if roots.is_empty() {
            roots.push(Path::new(USUAL));
        }
        let mut files = Vec::new();
        for root in roots {
            for directory in [
                "include",
                "targets/x86_64-linux/include",
                "targets/sbsa-linux/include",
            ] {
                files.push(root.join(directory).join(header));
            }
        }
        files.push(Path::new("/usr/include").join(header));
        let mut answer = self.is_none_here(files, Host::is_file)?;
        answer.evidence.truncate(1);
        Some(answer)
    }
}

/// The CUDA versions that make code for an architecture: the first, and the last if there is one.
fn cuda_versions(name: &str) -> Option<&'static [CudaVersion]> {
    Some(&architecture(parse_capability(name)?)?.cuda)
}
