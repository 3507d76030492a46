//! The GPUs: cards on the bus, their device nodes, and the ones that the environment hides.

use std::path::{Path, PathBuf};

use super::finding::{Finding, FindingEvidence};
use super::subject::{DoctorSubject, MachineKind, NODE_MAKER, any_exists};
use crate::catalog::{self, Fault};
use crate::host::Host;
use crate::inventory::{KernelDriver, Visible};
use crate::text::show;

pub(super) const BUS: &str = "/sys/bus/pci/devices";
pub(super) const VENDOR: &str = "0x10de";
/// The first byte of the class of display controllers; sound and USB of a card have other classes.
const DISPLAY: &str = "0x03";
const FIRST: &str = "/dev/nvidia0";
const CONTROL: &str = "/dev/nvidiactl";
const UVM: &str = "/dev/nvidia-uvm";
const WSL: &str = "/dev/dxg";

/// A GPU on the bus, with any driver or none.
pub(super) struct Card {
    bus: String,
    id: String,
    driver: Option<String>,
}

impl Card {
    pub(super) fn evidence(&self) -> FindingEvidence {
        let number = u16::from_str_radix(self.id.trim_start_matches("0x"), 16).ok();
        let model = number.and_then(catalog::gpu).map(|known| known.product);
        FindingEvidence::Card {
            bus: self.bus.clone(),
            id: self.id.clone(),
            model,
            driver: self.driver.clone(),
        }
    }
}

pub(super) fn cards(host: &Host) -> Vec<Card> {
    let mut cards = Vec::new();
    for entry in host.list(Path::new(BUS)).unwrap_or_default() {
        let device = Path::new(BUS).join(&entry.name);
        if attribute(host, &device, "vendor") != VENDOR
            || !attribute(host, &device, "class").starts_with(DISPLAY)
        {
            continue;
        }
        let driver = host.canonical(&device.join("driver")).ok();
        let driver = driver.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
        cards.push(Card {
            bus: entry.name.to_string_lossy().into_owned(),
            id: attribute(host, &device, "device"),
            driver,
        });
    }
    cards
}

/// A fact about a device on the bus; empty if it cannot be read.
pub(super) fn attribute(host: &Host, device: &Path, name: &str) -> String {
    let text = host.read_text(&device.join(name)).unwrap_or_default();
    text.trim().to_owned()
}

/// Without a driver, which `driver_findings` report, there is no more to find here.
pub(super) fn findings(
    subject: &DoctorSubject<'_>,
    surroundings: MachineKind,
    driver_findings: &[Finding],
) -> Vec<Finding> {
    let mut findings = Vec::new();
    if surroundings.is_wsl {
        if !any_exists(subject.host, &[WSL]) {
            let evidence = vec![FindingEvidence::absent(WSL)];
            findings.push(Finding::new(Fault::WslWithoutGpu, evidence));
        }
    } else if !surroundings.is_tegra {
        if let Some(driver) = &subject.inventory.driver {
            findings = nodes(subject, driver, surroundings.is_container);
        } else if driver_findings.is_empty() {
            let no_card = FindingEvidence::file(BUS, "no NVIDIA display controller (0x10de)");
            let evidence = vec![FindingEvidence::absent("/proc/driver/nvidia"), no_card];
            findings.push(Finding::new(Fault::NoGpu, evidence));
        }
    }
    if findings.is_empty() {
        findings.extend(hidden(subject));
    }
    findings
}

/// The faults of the device nodes where the kernel runs the driver.
fn nodes(subject: &DoctorSubject<'_>, driver: &KernelDriver, is_container: bool) -> Vec<Finding> {
    let (host, inventory) = (subject.host, subject.inventory);
    let has_none = inventory.devices.is_empty();
    let kernel = FindingEvidence::file(&driver.from, driver.version.to_string());
    if has_none && is_container {
        let mut evidence = vec![FindingEvidence::absent(FIRST), kernel];
        evidence.extend(variable(host, "NVIDIA_VISIBLE_DEVICES"));
        evidence.extend(variable(host, "NVIDIA_DRIVER_CAPABILITIES"));
        return vec![Finding::new(Fault::ContainerWithoutGpus, evidence)];
    }
    if has_none && inventory.gpus.is_empty() && cards(host).is_empty() {
        let evidence = vec![
            kernel,
            FindingEvidence::absent(FIRST),
            FindingEvidence::absent(BUS),
        ];
        return vec![Finding::new(Fault::NoGpu, evidence)];
    }
    if has_none || !any_exists(host, &[CONTROL]) {
        let mut evidence = Vec::new();
        for path in [FIRST, CONTROL] {
            if !any_exists(host, &[path]) {
                evidence.push(FindingEvidence::absent(path));
            }
        }
        return vec![Finding::new(Fault::DeviceNodesMissing, evidence)];
    }
    let mut findings = Vec::from_iter(not_permitted(host, &inventory.devices));
    if !any_exists(host, &[UVM]) {
        let maker = host.stat(Path::new(NODE_MAKER)).ok();
        let has_root_rights = maker.as_ref().is_some_and(|stat| stat.mode & 0o4000 != 0);
        let mut evidence = vec![FindingEvidence::absent(UVM)];
        if maker.is_none() {
            evidence.push(FindingEvidence::absent(NODE_MAKER));
        }
        let finding = Finding::new(Fault::UvmMissing, evidence).milder(has_root_rights);
        findings.push(finding.other_cure(maker.is_none()));
    }
    findings
}

fn variable(host: &Host, name: &str) -> Option<FindingEvidence> {
    let value = host.env.get(name)?;
    Some(FindingEvidence::variable(name, value))
}

/// One finding for all nodes that this user may not read and write.
fn not_permitted(host: &Host, devices: &[PathBuf]) -> Option<Finding> {
    let mut evidence = Vec::new();
    let mut are_all_open = true;
    let mut has_roots_group = false;
    let mut is_error = devices.iter().all(|path| !host.may_use(path));
    let shared = [CONTROL, UVM].map(PathBuf::from);
    for path in devices.iter().chain(&shared) {
        let Ok(stat) = host.stat(path) else {
            continue;
        };
        if host.may_use(path) {
            continue;
        }
        // If one GPU of many is usable, programs that use it work.
        is_error |= shared.contains(path);
        // Where all users may read and write, only a control group can deny access.
        are_all_open &= stat.mode & 0o006 == 0o006;
        let owner = (!host.is_rerooted()).then_some((stat.uid, stat.gid));
        has_roots_group |= owner.is_some_and(|(_, group)| group == 0);
        evidence.push(FindingEvidence::Mode {
            path: path.clone(),
            mode: stat.mode & 0o777,
            owner,
        });
    }
    if evidence.is_empty() {
        return None;
    }
    let fault = if are_all_open {
        Fault::DeviceLost
    } else {
        Fault::DeviceNotPermitted
    };
    // No user should join root's group.
    let finding = Finding::new(fault, evidence).other_cure(has_roots_group && !are_all_open);
    Some(finding.milder(!is_error))
}

/// The GPUs that `CUDA_VISIBLE_DEVICES` hides.
fn hidden(subject: &DoctorSubject<'_>) -> Option<Finding> {
    let inventory = subject.inventory;
    let value = subject.host.env.get("CUDA_VISIBLE_DEVICES")?;
    let evidence = vec![FindingEvidence::variable("CUDA_VISIBLE_DEVICES", value)];
    if inventory.gpus_hidden {
        return Some(Finding::new(Fault::GpusHidden, evidence));
    }
    let mut count = 0;
    let mut uuids = Vec::new();
    for gpu in &inventory.gpus {
        if gpu.capability.is_some() || gpu.minor.is_some() {
            count += 1;
            uuids.extend(gpu.uuid.as_deref());
        }
    }
    if count == 0 {
        return None;
    }
    let text = value.to_string_lossy();
    let mut words = text.split(',').map(str::trim);
    let word = words.find(|word| match word.parse::<usize>() {
        Ok(number) => number >= count,
        Err(_) if word.starts_with("MIG-") => false,
        Err(_) if word.starts_with("GPU-") => {
            uuids.len() == count && !uuids.iter().any(|uuid| uuid.starts_with(word))
        }
        Err(_) => true,
    })?;
    // The first unknown GPU ends the list.
    let leaves_some = inventory.gpus.iter().any(|gpu| gpu.visible != Visible::No);
    let hidden = if leaves_some {
        "every GPU named after it"
    } else {
        "every GPU"
    };
    let finding = Finding::new(Fault::NoSuchGpu, evidence).milder(leaves_some);
    Some(finding.with("word", show(word)).with("hidden", hidden))
}
