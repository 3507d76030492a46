//! Checks of the driver, the GPUs and the container.

use std::path::{Path, PathBuf};

use super::cause::CheckAnswer;
use super::facts::{CheckContext, NamedLibrary};
use crate::catalog::{architecture, knowledge};
use crate::doctor::FindingEvidence;
use crate::host::Host;
use crate::inventory::{KernelDriver, Visible};
use crate::program::gpu_code;
use crate::requirements::MachineRequirement;
use crate::solve::Outcome;
use crate::version::ComputeCapability;

/// The variables in which launchers state the number of processes on this machine.
const LOCAL_RANKS: [&str; 3] = [
    "LOCAL_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "SLURM_NTASKS_PER_NODE",
];
const CAPABILITIES: &str = "NVIDIA_DRIVER_CAPABILITIES";
const CONTAINER_TOOLS: [&str; 2] = [
    "/usr/bin/nvidia-container-runtime-hook",
    "/usr/bin/nvidia-ctk",
];

/// Reads `sm_89`, `compute_121a`, `7.5` or `89`.
pub(super) fn parse_capability(text: &str) -> Option<ComputeCapability> {
    let number = text
        .rsplit('_')
        .next()?
        .trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let cut = number.len().checked_sub(1)?;
    number.parse().ok().or_else(|| {
        format!("{}.{}", number.get(..cut)?, number.get(cut..)?)
            .parse()
            .ok()
    })
}

fn driver_evidence(driver: &KernelDriver) -> FindingEvidence {
    FindingEvidence::file(&driver.from, driver.version.to_string())
}

fn is_of_image(requirement: &MachineRequirement) -> bool {
    requirement.by.name.starts_with("NVIDIA_REQUIRE_")
}

fn is_code(requirement: &MachineRequirement) -> bool {
    requirement.own_code().is_some()
}

impl CheckContext<'_, '_, '_> {
    pub(super) fn driver_too_old(
        &self,
        subject: Option<&str>,
        symbol: Option<&str>,
    ) -> Option<CheckAnswer> {
        if let Some(symbol) = symbol {
            return self.driver_lacks(symbol);
        }
        let subject = subject?;
        let Some(driver) = &self.facts.inventory.driver else {
            return CheckAnswer::new(false, Vec::new());
        };
        let (cuda, mut evidence) = self.cuda_of(subject)?;
        let minor = cuda.numbers().get(1).copied();
        let floor = knowledge().driver_floor(cuda.major(), minor)?;
        evidence.insert(0, driver_evidence(driver));
        CheckAnswer::new(driver.version < floor, evidence)
    }

    /// A driver compiles the PTX of its own CUDA and of older ones. `ptx_version` is that of the PTX, where a message
    /// states it.
    pub(super) fn ptx_newer_than_driver(
        &self,
        library: Option<&NamedLibrary<'_>>,
        ptx_version: Option<&str>,
    ) -> Option<CheckAnswer> {
        let driver = self.facts.inventory.driver.as_ref()?;
        let mut evidence = vec![driver_evidence(driver)];
        if let Some(version) = ptx_version {
            let cuda = knowledge().cuda_of_ptx(version)?;
            return CheckAnswer::new(cuda > driver.cuda?, evidence);
        }
        let first = self.first_copy(library?.family()?)?;
        evidence.push(FindingEvidence::installation(first));
        let is_newer = first.version?.truncated(2) > driver.cuda?.version();
        CheckAnswer::new(is_newer, evidence)
    }

    pub(super) fn more_ranks_than_gpus(&self) -> Option<CheckAnswer> {
        let inventory = self.facts.inventory;
        if inventory.gpus.is_empty() {
            return None;
        }
        // A program may see fewer GPUs than are counted here.
        if inventory
            .gpus
            .iter()
            .any(|gpu| gpu.visible == Visible::Perhaps)
        {
            return None;
        }
        for name in LOCAL_RANKS {
            if let Some(value) = self.facts.host.env.get(name)
                && let Some(ranks) = value.to_str().and_then(|text| text.parse::<usize>().ok())
            {
                let evidence = vec![FindingEvidence::variable(name, value)];
                return CheckAnswer::new(ranks > inventory.visible_gpus().count(), evidence);
            }
        }
        None
    }

    /// Does a GPU here differ in this way from the architecture that a message names?
    pub(super) fn any_gpu(
        &self,
        architecture: &str,
        differs: fn(ComputeCapability, ComputeCapability) -> bool,
    ) -> Option<CheckAnswer> {
        let architecture = parse_capability(architecture)?;
        let mut is_confirmed = None;
        let mut evidence = Vec::new();
        for gpu in self.facts.inventory.visible_gpus() {
            let Some(capability) = gpu.capability else {
                continue;
            };
            is_confirmed = Some(is_confirmed == Some(true) || differs(capability, architecture));
            let path = Path::new("/proc/driver/nvidia/gpus")
                .join(&gpu.bus)
                .join("information");
            let text = format!("{} ({capability})", gpu.model);
            evidence.push(FindingEvidence::file(path, text));
        }
        CheckAnswer::new(is_confirmed, evidence)
    }

    pub(super) fn nvrtc_older_than_gpu(&self, library: &NamedLibrary<'_>) -> Option<CheckAnswer> {
        let first = self.first_copy(library.family()?)?;
        let version = first.version?;
        let mut is_older = None;
        for capability in self.facts.inventory.capabilities() {
            if let Some(row) = architecture(capability)
                && let Some(cuda) = row.cuda.first()
            {
                is_older = Some(is_older == Some(true) || cuda.version() > version);
            }
        }
        CheckAnswer::new(is_older, vec![FindingEvidence::installation(first)])
    }

    fn breaks(&self, is_meant: fn(&MachineRequirement) -> bool) -> bool {
        let Outcome::Conflict(conflict) = &self.facts.decision.outcome else {
            return false;
        };
        let mut broken = conflict.broken.iter();
        broken.any(|broken| is_meant(&broken.condition))
    }

    /// Of a framework, or of a library.
    pub(super) fn no_kernel(&self, subject: &str) -> Option<CheckAnswer> {
        if subject == "framework" {
            self.framework_without_code()
        } else {
            self.library_without_code(&NamedLibrary::new(subject))
        }
    }

    fn framework_without_code(&self) -> Option<CheckAnswer> {
        self.facts.inventory.capabilities().next()?;
        let mut evidence = Vec::new();
        for requirement in self.facts.program.machine_requirements() {
            if is_code(requirement) {
                evidence.push(FindingEvidence::File {
                    path: requirement.by.file.clone(),
                    line: requirement.by.line,
                    text: requirement.by.name.clone(),
                });
            }
        }
        if evidence.is_empty() {
            return self.program_without_code();
        }
        CheckAnswer::new(self.breaks(is_code), evidence)
    }

    /// A program of no framework may have code for GPUs in its own file. If that fits, its libraries may still lack code.
    fn program_without_code(&self) -> Option<CheckAnswer> {
        let path = &self.facts.program.path;
        let code = gpu_code(self.facts.host, path);
        let mut gpus = self.facts.inventory.capabilities();
        if code.is_empty() || gpus.all(|gpu| code.iter().any(|one| one.serves(gpu))) {
            return None;
        }
        let code: Vec<String> = code.iter().map(ToString::to_string).collect();
        CheckAnswer::new(true, vec![FindingEvidence::file(path, code.join(", "))])
    }

    fn library_without_code(&self, library: &NamedLibrary<'_>) -> Option<CheckAnswer> {
        let first = self.first_copy(library.family()?)?;
        if first.files.iter().all(|member| member.code.is_empty()) {
            return None;
        }
        let mut lacks_code = None;
        for capability in self.facts.inventory.capabilities() {
            let has_code = first.serves.contains_key(&capability);
            lacks_code = Some(lacks_code == Some(true) || !has_code);
        }
        CheckAnswer::new(lacks_code, vec![FindingEvidence::installation(first)])
    }

    pub(super) fn container_requires(&self) -> Option<CheckAnswer> {
        let mut requirements = self.facts.program.machine_requirements();
        let requirement = requirements.find(|requirement| is_of_image(requirement))?;
        let name = requirement.by.name.clone();
        CheckAnswer::new(
            self.breaks(is_of_image),
            vec![FindingEvidence::Set { name }],
        )
    }

    pub(super) fn container_toolkit_missing(&self) -> Option<CheckAnswer> {
        if self.facts.examination.surroundings.is_container {
            return None;
        }
        self.is_none_here(CONTAINER_TOOLS.map(PathBuf::from).to_vec(), Host::is_file)
    }

    pub(super) fn container_capability(&self, word: &str) -> Option<CheckAnswer> {
        if !self.facts.examination.surroundings.is_container {
            return CheckAnswer::new(false, Vec::new());
        }
        let value = self.facts.host.env.get(CAPABILITIES)?;
        let has_it = value
            .to_str()?
            .split(',')
            .any(|one| one == word || one == "all");
        let evidence = vec![FindingEvidence::variable(CAPABILITIES, value)];
        CheckAnswer::new(!has_it, evidence)
    }
}
