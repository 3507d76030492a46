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
        return of_wsl(&real);
    }
    match &inventory.driver {
        _ if surroundings.is_tegra => Vec::new(),
        Some(kernel) => of_kernel(inventory, kernel, &real, surroundings),
        None => {
            let cards = gpus::cards(subject.host);
            // The section of the GPUs reports a missing GPU.
            if cards.is_empty() {
                Vec::new()
            } else {
                vec![not_loaded(subject, &real, &cards)]
            }
        }
    }
}

/// The installations of libcuda that can belong to a kernel's driver.
pub(super) fn installations(inventory: &Inventory) -> impl Iterator<Item = &Installation> {
    let is_real = |installation: &&Installation| {
        !matches!(installation.origin, Origin::Compat | Origin::Stub)
    };
    inventory
        .installations
        .iter()
        .filter(|installation| installation.family == "driver")
        .filter(is_real)
}

fn is_other(installation: &Installation) -> bool {
    let says_so = |problem: &Problem| {
        matches!(
            problem,
            Problem::NotTheKernelsDriver { .. } | Problem::CompatOlderThanKernel { .. }
        )
    };
    installation.problems.iter().any(says_so)
}

fn of_kernel(
    inventory: &Inventory,
    kernel: &KernelDriver,
    real: &[&Installation],
    surroundings: MachineKind,
) -> Vec<Finding> {
    let says = FindingEvidence::file(&kernel.from, kernel.version.to_string());
    let Some(first) = real.first() else {
        let lacking = Finding::new(Fault::NoLibcuda, vec![says]);
        return vec![lacking.other_cure(surroundings.is_container)];
    };
    let right = real.iter().find(|installation| !is_other(installation));
    let is_given =
        |installation: &&Installation| installation.family == "driver" && installation.loader_gives;
    let given = inventory.installations.iter().find(is_given);
    match (right, given) {
        (None, _) => {
            let installed = first.version.unwrap_or_default();
            let mut evidence = vec![says];
            evidence.extend(
                real.iter()
                    .map(|installation| FindingEvidence::installation(installation)),
            );
            let mismatch = Finding::new(Fault::DriverMismatch, evidence);
            vec![
                mismatch
                    .with("installed", installed)
                    .with("kernel", kernel.version),
            ]
        }
        // The environment's section reports a libcuda from LD_LIBRARY_PATH.
        (Some(right), Some(given)) if is_other(given) && !inventory.is_on_path(given) => {
            let evidence = vec![
                says,
                FindingEvidence::installation(given),
                FindingEvidence::installation(right),
            ];
            let shadowed = Finding::new(Fault::LibcudaShadowed, evidence);
            vec![
                shadowed
                    .with("given", version(given.version))
                    .with("kernel", kernel.version),
            ]
        }
        (Some(right), None) => {
            vec![Finding::new(
                Fault::LibcudaNotFound,
                vec![FindingEvidence::installation(right)],
            )]
        }
        _ => Vec::new(),
    }
}

/// A card is present, but no NVIDIA driver runs it.
fn not_loaded(subject: &DoctorSubject<'_>, real: &[&Installation], cards: &[Card]) -> Finding {
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
    evidence.extend(
        real.iter()
            .map(|installation| FindingEvidence::installation(installation)),
    );
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
fn of_wsl(real: &[&Installation]) -> Vec<Finding> {
    let is_windows = |installation: &Installation| {
        installation
            .directories()
            .any(|directory| directory.starts_with(WSL))
    };
    let given = real.iter().find(|installation| installation.loader_gives);
    match (
        real.iter().find(|installation| is_windows(installation)),
        given,
    ) {
        (None, _) => {
            let evidence = vec![FindingEvidence::absent("/usr/lib/wsl/lib/libcuda.so.1")];
            vec![Finding::new(Fault::NoLibcuda, evidence)]
        }
        (Some(windows), Some(given)) if !is_windows(given) => {
            vec![Finding::new(
                Fault::WslLinuxDriver,
                vec![
                    FindingEvidence::installation(given),
                    FindingEvidence::installation(windows),
                ],
            )]
        }
        _ => Vec::new(),
    }
}
