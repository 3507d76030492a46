//! Checks of the tools of a CUDA toolkit, as far as files tell.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::cause::CheckAnswer;
use super::facts::AskedIn;
use super::gpus::capability;
use super::libraries;
use crate::catalog::architectures;
use crate::doctor::FindingEvidence;
use crate::host::Host;
use crate::inventory::{PartKind, Toolkit};
use crate::program;
use crate::version::{CudaVersion, Version};

const HOMES: [&str; 3] = ["CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"];
const USUAL: &str = "/usr/local/cuda";

fn shown((path, release): (&Path, Option<Version>)) -> FindingEvidence {
    let text = release
        .map(|release| release.to_string())
        .unwrap_or_default();
    FindingEvidence::file(path.to_owned(), text)
}

impl AskedIn<'_, '_, '_> {
    /// The toolkits with a part, in the order in which builds look: named by a variable, in PATH, in the usual place.
    fn toolkits(&self, part: PartKind) -> Vec<&Toolkit> {
        let host = self.facts.host;
        let named = HOMES
            .iter()
            .filter_map(|name| host.env.non_empty(name).map(PathBuf::from));
        let on_path = self.on_path(part.file_name()).and_then(|file| {
            let real = host.canonical(&file).unwrap_or(file);
            Some(real.parent()?.parent()?.to_owned())
        });
        let first = named.chain(on_path).chain([PathBuf::from(USUAL)]);
        let first: Vec<PathBuf> = first
            .filter_map(|root| host.canonical(&root).ok())
            .collect();
        let place = |root: &Path| {
            first
                .iter()
                .position(|one| one == root)
                .unwrap_or(first.len())
        };
        let all = self
            .facts
            .toolkits
            .iter()
            .filter(|toolkit| toolkit.parts.contains_key(&part));
        let mut all: Vec<&Toolkit> = all.collect();
        all.sort_by_key(|toolkit| place(&toolkit.root));
        all
    }

    fn on_path(&self, tool: &str) -> Option<PathBuf> {
        let host = self.facts.host;
        program::candidates(host, OsStr::new(tool)).find(|file| host.is_executable(file))
    }

    /// The first file that is this part, and the CUDA version of its toolkit.
    fn first_part(&self, part: PartKind) -> Option<(&Path, Option<Version>)> {
        let toolkit = self.toolkits(part).first().copied()?;
        let own = toolkit.parts[&part].release.or(toolkit.release);
        Some((toolkit.part(part)?, own.map(|release| release.truncated(2))))
    }

    pub(super) fn no_part(&self, part: PartKind) -> Option<CheckAnswer> {
        match self.first_part(part) {
            Some(found) => CheckAnswer::new(false, vec![shown(found)]),
            None => {
                let below = if part == PartKind::Libdevice {
                    "nvvm/libdevice"
                } else {
                    "bin"
                };
                let path = Path::new(USUAL).join(below).join(part.file_name());
                let is_absent = self.facts.host.stat(&path).is_err();
                let evidence = is_absent.then_some(FindingEvidence::Absent { path });
                CheckAnswer::new(true, evidence.into_iter().collect())
            }
        }
    }

    pub(super) fn part_not_on_path(&self, part: PartKind) -> Option<CheckAnswer> {
        let found = self.first_part(part);
        let is = found.is_some() && self.on_path(part.file_name()).is_none();
        CheckAnswer::new(is, found.map(shown).into_iter().collect())
    }

    /// Does a framework of the program lack a part that a toolkit here has?
    pub(super) fn not_found_by_framework(&self, part: PartKind) -> Option<CheckAnswer> {
        let supplied = self
            .facts
            .compilers
            .supplied
            .iter()
            .find(|supply| supply.lack.part == part);
        let supply = supplied?;
        let is_given = self.is_planned && !supply.is_withheld;
        let text = part.file_name().to_owned();
        CheckAnswer::new(
            !is_given,
            vec![FindingEvidence::file(supply.toolkit.clone(), text)],
        )
    }

    pub(super) fn no_compiler(&self) -> Option<CheckAnswer> {
        let places = program::candidates(self.facts.host, OsStr::new("g++"));
        self.is_none_here(places.collect(), Host::is_executable)
    }

    /// PyTorch accepts another minor of the major it was built with.
    pub(super) fn nvcc_other_cuda(&self, of: &str) -> Option<CheckAnswer> {
        let package = self
            .facts
            .program
            .packages
            .iter()
            .find(|package| package.name == of);
        let wanted = match package {
            Some(package) => package.cuda.map(|cuda| cuda.version()),
            None => libraries::version(of, None),
        };
        let nvcc = self.first_part(PartKind::Nvcc);
        let release = nvcc.and_then(|(_, release)| release);
        let is = wanted
            .zip(release)
            .map(|(wanted, release)| wanted.major() != release.major());
        CheckAnswer::new(is, nvcc.map(shown).into_iter().collect())
    }

    /// The wheels of nvcc come in parts, which must be of one release.
    pub(super) fn toolkit_mixed(&self) -> Option<CheckAnswer> {
        let parts = ["nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-cuda-crt"];
        let parts = self.distributions(&parts);
        if parts.is_empty() {
            return None;
        }
        let release = |version: &str| {
            version
                .parse::<Version>()
                .ok()
                .map(|version| version.truncated(2))
        };
        let releases: BTreeSet<_> = parts
            .iter()
            .filter_map(|(version, _)| release(version))
            .collect();
        let record = |(version, path)| FindingEvidence::file(path, version);
        CheckAnswer::new(releases.len() > 1, parts.into_iter().map(record).collect())
    }

    /// Only an architecture tells; a version of PTX does not.
    pub(super) fn part_older_than(
        &self,
        part: PartKind,
        architecture: &str,
    ) -> Option<CheckAnswer> {
        self.compared(part, architecture, |versions, release| {
            Some(release < versions.first()?.version())
        })
    }

    pub(super) fn part_newer_than(
        &self,
        part: PartKind,
        architecture: &str,
    ) -> Option<CheckAnswer> {
        let is_newer = |versions: &[CudaVersion], release| {
            Some(versions.get(1).is_some_and(|last| release > last.version()))
        };
        self.compared(part, architecture, is_newer)
    }

    /// Compares the release of a part with the CUDA versions that make code for an architecture.
    fn compared(
        &self,
        part: PartKind,
        architecture: &str,
        is: impl Fn(&[CudaVersion], Version) -> Option<bool>,
    ) -> Option<CheckAnswer> {
        let found = self.first_part(part)?;
        let row = capability(architecture)
            .and_then(|wanted| architectures().iter().find(|row| row.capability == wanted));
        let is = row
            .zip(found.1)
            .and_then(|(row, release)| is(&row.cuda, release));
        CheckAnswer::new(is, vec![shown(found)])
    }

    /// Reads the version of gcc from the name that `gcc` leads to, as distributions have it.
    pub(super) fn compiler_too_new(&self, ceiling: Option<&str>) -> Option<CheckAnswer> {
        let gcc = self.on_path("gcc")?;
        let real = self.facts.host.canonical(&gcc).unwrap_or_default();
        let name = real
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        let version = name
            .rsplit("gcc-")
            .next()
            .and_then(|version| version.parse::<Version>().ok());
        let stated = ceiling.and_then(|ceiling| Some(ceiling.parse::<Version>().ok()?.major()));
        let own = || {
            self.toolkits(PartKind::Nvcc)
                .first()
                .and_then(|toolkit| toolkit.newest_gcc)
        };
        let is = version
            .zip(stated.or_else(own))
            .map(|(version, ceiling)| version.major() > ceiling);
        let text = version
            .map(|version| version.to_string())
            .unwrap_or_default();
        CheckAnswer::new(is, vec![FindingEvidence::file(real, text)])
    }

    pub(super) fn header_missing(&self, header: &str) -> Option<CheckAnswer> {
        let toolkits = self.toolkits(PartKind::Nvcc);
        let mut roots: Vec<&Path> = toolkits
            .iter()
            .map(|toolkit| toolkit.root.as_path())
            .collect();
        if roots.is_empty() {
            roots.push(Path::new(USUAL));
        }
        let targets = [
            "include",
            "targets/x86_64-linux/include",
            "targets/sbsa-linux/include",
        ];
        let places = roots
            .iter()
            .flat_map(|root| targets.map(|below| root.join(below)));
        let places = places.chain([PathBuf::from("/usr/include")]);
        let files = places.map(|place| place.join(header)).collect();
        let mut answer = self.is_none_here(files, Host::is_file)?;
        answer.evidence.truncate(1);
        Some(answer)
    }
}
