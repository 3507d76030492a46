//! Findings that `doctor` hides behind a more specific one. `diagnose` still needs them.

use std::path::Path;

use super::finding::{Evidence, Finding, FindingKind};
use super::subject::{Subject, Surroundings};
use super::{driver, gpus};

#[derive(Debug)]
pub(super) struct Unreported {
    pub code: &'static str,
    /// Its evidence, with the finding whose remedy helps.
    pub finding: Finding,
}

/// A machine without a card is reported as such. It has no driver either, and a container on it has no GPU: programs say it
/// in these words. A container's GPU is reported only where a driver runs.
pub(super) fn look(
    subject: &Subject<'_>,
    surroundings: Surroundings,
    found: &[Finding],
) -> Vec<Unreported> {
    let (host, inventory) = (subject.host, subject.inventory);
    if surroundings.is_wsl || surroundings.is_tegra {
        return Vec::new();
    }
    // A container that does not see the bus says nothing about the cards of its machine.
    let has_bus = host
        .list(Path::new(gpus::BUS))
        .is_ok_and(|cards| !cards.is_empty());
    let is_no_gpu = |finding: &&Finding| matches!(finding.what, FindingKind::NoGpu);
    let no_card = found
        .iter()
        .find(is_no_gpu)
        .filter(|_| has_bus || !surroundings.is_container);
    let what = || match no_card {
        Some(reported) => reported.what.clone(),
        None if surroundings.is_container => FindingKind::ContainerWithoutGpus,
        None => FindingKind::NoDriver,
    };
    let with = |code, path: &str| Unreported {
        code,
        finding: Finding::error(what(), vec![Evidence::absent(path)]),
    };
    let mut unreported = Vec::new();
    if surroundings.is_container && inventory.devices.is_empty() {
        unreported.push(with("container-without-gpus", "/dev/nvidia0"));
    }
    if inventory.driver.is_none() && driver::installations(inventory).next().is_none() {
        unreported.push(with("no-driver", driver::MODULE));
    }
    unreported
}
