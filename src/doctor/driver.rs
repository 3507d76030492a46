//! The driver: the kernel's part, and the libraries of it that programs load.

use std::path::Path;

use super::finding::{Finding, FindingEvidence};
use super::gpus::{self, Card};
use super::subject::{DoctorSubject, MachineKind, OS_RELEASE, version};
use crate::catalog::Fault;
use crate::inventory::{Installation, Inventory, KernelDriver, Origin, Problem};
use crate::text::show;

const NOUVEAU: &str = "/sys/module/nouveau";
pub(super) const MODULE: &str = "/sys/module/nvidia/version";
const WSL: &str = "/usr/lib/wsl";

pub(super) fn findings(subject: &DoctorSubject<'_>, surroundings: MachineKind) -> Vec<Finding> {
    let inventory = subject.inventory;
    let real: Vec<&Installation> = installations(inventory).collect();
    if surroundings.is_wsl {
        return wsl_findings(&real);
    }
    match &inventory.driver {
        _ if surroundings.is_tegra => Vec::new(),
        Some(kernel) => kernel_findings(inventory, kernel, &real, surroundings),
        None => {
            let cards = gpus::cards(subject.host);
            // The section of the GPUs reports a missing GPU.
            if cards.is_empty() {
                Vec::new()
            } else {
                vec![not_loaded_finding(subject, &real, &cards)]
            }
        }
    }
}

/// The installations of libcuda that can belong to a kernel's driver.
pub(super) fn installations(inventory: &Inventory) -> impl Iterator<Item = &Installation> {
    inventory.installations.iter().filter(|installation| {
        installation.is_driver() && !matches!(installation.origin, Origin::Compat | Origin::Stub)
    })
}

/// True for a libcuda of another version than the kernel's part.
fn is_other(installation: &Installation) -> bool {
    installation.problems.iter().any(|problem| {
        matches!(
            problem,
            Problem::NotTheKernelsDriver { .. } | Problem::CompatOlderThanKernel { .. }
        )
    })
}

fn add_installations(evidence: &mut Vec<FindingEvidence>, installations: &[&Installation]) {
    for installation in installations {
        evidence.push(FindingEvidence::installation(installation));
    }
}

fn kernel_findings(
    inventory: &Inventory,
    kernel: &KernelDriver,
    real: &[&Installation],
    surroundings: MachineKind,
) -> Vec<Finding> {
    let mut evidence = vec![FindingEvidence::file(
        &kernel.from,
        kernel.version.to_string(),
    )];
    let Some(first) = real.first() else {
        let finding = Finding::new(Fault::NoLibcuda, evidence);
        return vec![finding.other_cure(surroundings.is_container)];
    };
    let Some(right) = real.iter().find(|installation| !is_other(installation)) else {
        add_installations(&mut evidence, real);
        let finding = Finding::new(Fault::DriverMismatch, evidence)
            .with("installed", first.version.unwrap_or_default());
        return vec![finding.with("kernel", kernel.version)];
    };
    let mut installations = inventory.installations.iter();
    let loader_choice =
        installations.find(|installation| installation.is_driver() && installation.loader_gives);
    let Some(loader_choice) = loader_choice else {
        let evidence = vec![FindingEvidence::installation(right)];
        return vec![Finding::new(Fault::LibcudaNotFound, evidence)];
    };
    // The environment's section reports a libcuda from LD_LIBRARY_PATH.
    if !is_other(loader_choice) || inventory.is_on_path(loader_choice) {
        return Vec::new();
    }
    add_installations(&mut evidence, &[loader_choice, right]);
    let finding = Finding::new(Fault::LibcudaShadowed, evidence)
        .with("given", version(loader_choice.version));
    vec![finding.with("kernel", kernel.version)]
}

/// A card is present, but no NVIDIA driver runs it.
fn not_loaded_finding(
    subject: &DoctorSubject<'_>,
    real: &[&Installation],
    cards: &[Card],
) -> Finding {
    let host = subject.host;
    let mut evidence: Vec<FindingEvidence> = cards.iter().map(Card::evidence).collect();
    if host.is_directory(Path::new(NOUVEAU)) {
        evidence.push(FindingEvidence::file(NOUVEAU, ""));
        return Finding::new(Fault::Nouveau, evidence);
    }
    evidence.push(FindingEvidence::absent(MODULE));
    if real.is_empty() {
        return Finding::new(Fault::NoDriver, evidence);
    }
    add_installations(&mut evidence, real);
    let release = host
        .read_text(Path::new(OS_RELEASE))
        .unwrap_or_default()
        .trim()
        .to_owned();
    let modules = Path::new("/lib/modules").join(&release).join("modules.dep");
    match host.read(&modules) {
        Ok(bytes)
            if !release.is_empty() && memchr::memmem::find(&bytes, b"nvidia.ko").is_none() =>
        {
            evidence.push(FindingEvidence::file(modules, "nvidia.ko is not in it"));
            Finding::new(Fault::NoModuleForKernel, evidence).with("release", show(&release))
        }
        _ => Finding::new(Fault::DriverNotLoaded, evidence),
    }
}

/// In WSL, Windows runs the driver and provides its libraries.
fn wsl_findings(real: &[&Installation]) -> Vec<Finding> {
    let Some(of_windows) = real.iter().find(|installation| is_of_windows(installation)) else {
        let evidence = vec![FindingEvidence::absent("/usr/lib/wsl/lib/libcuda.so.1")];
        return vec![Finding::new(Fault::NoLibcuda, evidence)];
    };
    let Some(loader_choice) = real.iter().find(|installation| installation.loader_gives) else {
        return Vec::new();
    };
    if is_of_windows(loader_choice) {
        return Vec::new();
    }
    let mut evidence = Vec::new();
    add_installations(&mut evidence, &[loader_choice, of_windows]);
    vec![Finding::new(Fault::WslLinuxDriver, evidence)]
}

fn is_of_windows(installation: &Installation) -> bool {
    installation
        .directories()
        .any(|directory| directory.starts_with(WSL))
}
