//! Findings that `doctor` hides behind a more specific one. `diagnose` still needs them.

use std::path::Path;

use super::finding::{Finding, FindingEvidence};
use super::subject::{DoctorSubject, MachineKind};
use super::{driver, gpus};
use crate::catalog::Fault;

/// A machine without a card is reported as such. It has no driver either, and a container on it has no GPU: programs say it
/// in these words. A container's GPU is reported only where a driver runs. Each comes with the finding whose cure helps.
pub(super) fn findings(
    subject: &DoctorSubject<'_>,
    surroundings: MachineKind,
    findings: &[Finding],
) -> Vec<(Fault, Finding)> {
    let (host, inventory) = (subject.host, subject.inventory);
    if surroundings.is_wsl || surroundings.is_tegra {
        return Vec::new();
    }
    // A container that does not see the bus says nothing about the cards of its machine.
    let has_bus = host
        .list(Path::new(gpus::BUS))
        .is_ok_and(|cards| !cards.is_empty());
    let has_no_card = findings.iter().any(|finding| finding.fault == Fault::NoGpu)
        && (has_bus || !surroundings.is_container);
    let better = if has_no_card {
        Fault::NoGpu
    } else if surroundings.is_container {
        Fault::ContainerWithoutGpus
    } else {
        Fault::NoDriver
    };
    let mut hidden = Vec::new();
    if surroundings.is_container && inventory.devices.is_empty() {
        let finding = Finding::new(better, vec![FindingEvidence::absent("/dev/nvidia0")]);
        hidden.push((Fault::ContainerWithoutGpus, finding));
    }
    if inventory.driver.is_none() && driver::installations(inventory).next().is_none() {
        let finding = Finding::new(better, vec![FindingEvidence::absent(driver::MODULE)]);
        hidden.push((Fault::NoDriver, finding));
    }
    hidden
}
