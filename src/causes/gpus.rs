//! Checks of the driver, the GPUs and the container.

use std::path::{Path, PathBuf};

use super::cause::CheckAnswer;
use super::facts::{AskedIn, NamedLibrary, installation};
use crate::catalog::{architectures, knowledge};
use crate::doctor::FindingEvidence;
use crate::host::Host;
use crate::inventory::KernelDriver;
use crate::program::{MachineRequirement, gpu_code};
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
pub(super) fn capability(text: &str) -> Option<ComputeCapability> {
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

fn said(driver: &KernelDriver) -> FindingEvidence {
    FindingEvidence::file(driver.from.clone(), driver.version.to_string())
}

impl AskedIn<'_, '_, '_> {
    pub(super) fn driver_older(&self, of: &str) -> Option<CheckAnswer> {
        let Some(driver) = &self.facts.inventory.driver else {
            return CheckAnswer::new(false, Vec::new());
        };
        let (cuda, mut evidence) = self.cuda_of(of)?;
        let minor = cuda.numbers().get(1).copied();
        let floor = knowledge().driver_floor(cuda.major(), minor)?;
        evidence.insert(0, said(driver));
        CheckAnswer::new(driver.version < floor, evidence)
    }

    /// A driver compiles the PTX of its own CUDA and of older ones.
    pub(super) fn ptx_newer_than_driver(&self, library: &NamedLibrary<'_>) -> Option<CheckAnswer> {
        let first = library.family().and_then(|family| self.first(family));
        let supported = self
            .facts
            .inventory
            .driver
            .as_ref()
            .and_then(|driver| Some((driver, driver.cuda?)));
        let (Some(first), Some((driver, supported))) = (first, supported) else {
            return None;
        };
        let version = first.version?;
        let is_newer = version.truncated(2) > supported.version();
        CheckAnswer::new(is_newer, vec![said(driver), installation(first)])
    }

    pub(super) fn ptx_version_newer_than_driver(&self, version: &str) -> Option<CheckAnswer> {
        let supported = self
            .facts
            .inventory
            .driver
            .as_ref()
            .and_then(|driver| Some((driver, driver.cuda?)));
        let needed = knowledge().cuda_of_ptx(version).zip(supported);
        let (needed, (driver, supported)) = needed?;
        CheckAnswer::new(needed > supported, vec![said(driver)])
    }

    pub(super) fn more_ranks_than_gpus(&self) -> Option<CheckAnswer> {
        let inventory = self.facts.inventory;
        let set = LOCAL_RANKS.iter().find_map(|name| {
            let value = self.facts.host.env.get(name)?.to_str()?;
            Some((*name, value.to_owned(), value.parse::<usize>().ok()?))
        });
        let (name, value, ranks) = set.filter(|_| !inventory.gpus.is_empty())?;
        let is_hidden = inventory
            .gpus
            .iter()
            .any(|gpu| gpu.visible == crate::inventory::Visible::Perhaps);
        let gpus = inventory.visible_gpus().count();
        let evidence = vec![FindingEvidence::variable(name, value.as_ref())];
        CheckAnswer::new((!is_hidden).then_some(ranks > gpus), evidence)
    }

    pub(super) fn gpus_that(
        &self,
        text: &str,
        is_so: impl Fn(ComputeCapability, ComputeCapability) -> bool,
    ) -> Option<CheckAnswer> {
        let wanted = capability(text)?;
        let gpus = self.facts.inventory.visible_gpus();
        let known: Vec<_> = gpus
            .filter_map(|gpu| Some((gpu, gpu.capability?)))
            .collect();
        let card = |(gpu, capability): &(&crate::inventory::Gpu, ComputeCapability)| {
            let path = Path::new("/proc/driver/nvidia/gpus")
                .join(&gpu.bus)
                .join("information");
            FindingEvidence::file(path, format!("{} ({capability})", gpu.model))
        };
        let is = (!known.is_empty()).then(|| known.iter().any(|(_, gpu)| is_so(*gpu, wanted)));
        CheckAnswer::new(is, known.iter().map(card).collect())
    }

    pub(super) fn gpu_newer_than(&self, library: &NamedLibrary<'_>) -> Option<CheckAnswer> {
        let first = library.family().and_then(|family| self.first(family));
        let (first, version) = first.and_then(|one| Some((one, one.version?)))?;
        let is_unknown_to = |gpu: ComputeCapability| {
            let row = architectures().iter().find(|row| row.capability == gpu);
            Some(row?.cuda.first()?.version() > version)
        };
        let mut gpus = self
            .facts
            .inventory
            .capabilities()
            .filter_map(is_unknown_to)
            .peekable();
        let is = gpus.peek().is_some().then(|| gpus.any(|is_newer| is_newer));
        CheckAnswer::new(is, vec![installation(first)])
    }

    fn broken(&self, is_meant: impl Fn(&MachineRequirement) -> bool) -> bool {
        let Outcome::Conflict(conflict) = &self.facts.decision.outcome else {
            return false;
        };
        conflict
            .broken
            .iter()
            .any(|broken| is_meant(&broken.condition))
    }

    pub(super) fn framework_without_code(&self) -> Option<CheckAnswer> {
        let is_code = |requirement: &MachineRequirement| requirement.own_code().is_some();
        let mut known = self
            .facts
            .program
            .machine_requirements()
            .filter(|condition| is_code(condition))
            .peekable();
        self.facts.inventory.capabilities().next()?;
        if known.peek().is_none() {
            return self.program_without_code();
        }
        let place = |condition: &MachineRequirement| FindingEvidence::File {
            path: condition.by.file.clone(),
            line: condition.by.line,
            text: condition.by.name.clone(),
        };
        CheckAnswer::new(self.broken(is_code), known.map(place).collect())
    }

    /// A program of no framework may have code for GPUs in its own file. If that fits, its libraries may still lack code.
    fn program_without_code(&self) -> Option<CheckAnswer> {
        let path = &self.facts.program.path;
        let code = gpu_code(self.facts.host, path);
        let has_code = |gpu| code.iter().any(|one| one.serves(gpu));
        let lacks = !code.is_empty() && !self.facts.inventory.capabilities().all(has_code);
        let is = lacks.then_some(true);
        let text = code
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(", ");
        CheckAnswer::new(is, vec![FindingEvidence::file(path.clone(), text)])
    }

    pub(super) fn image_needs_newer_driver(&self) -> Option<CheckAnswer> {
        let is_of_image =
            |condition: &MachineRequirement| condition.by.name.starts_with("NVIDIA_REQUIRE_");
        let own = self
            .facts
            .program
            .machine_requirements()
            .find(|condition| is_of_image(condition));
        let own = own?;
        CheckAnswer::new(
            self.broken(is_of_image),
            vec![FindingEvidence::Set {
                name: own.by.name.clone(),
            }],
        )
    }

    pub(super) fn container_toolkit_missing(&self) -> Option<CheckAnswer> {
        if self.facts.examination.surroundings.is_container {
            return None;
        }
        self.is_none_here(CONTAINER_TOOLS.map(PathBuf::from).to_vec(), Host::is_file)
    }

    pub(super) fn capability_missing(&self, word: &str) -> Option<CheckAnswer> {
        if !self.facts.examination.surroundings.is_container {
            return CheckAnswer::new(false, Vec::new());
        }
        let value = self
            .facts
            .host
            .env
            .get(CAPABILITIES)
            .and_then(|value| value.to_str())?;
        let has = value.split(',').any(|one| one == word || one == "all");
        let evidence = vec![FindingEvidence::variable(CAPABILITIES, value.as_ref())];
        CheckAnswer::new(!has, evidence)
    }
}
