//! The GPUs: cards on the bus, their device nodes, and the ones that the environment hides.

use std::path::{Path, PathBuf};

use super::finding::{Finding, FindingEvidence};
use super::subject::{DoctorSubject, MachineKind, NODE_MAKER};
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
        let directory = Path::new(BUS).join(&entry.name);
        let says = |name: &str| {
            host.read_text(&directory.join(name))
                .map(|text| text.trim().to_owned())
        };
        let is_display = || says("class").is_ok_and(|class| class.starts_with(DISPLAY));
        if says("vendor").is_ok_and(|vendor| vendor == VENDOR) && is_display() {
            let driver = host.canonical(&directory.join("driver")).ok();
            let driver =
                driver.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
            let bus = entry.name.to_string_lossy().into_owned();
            cards.push(Card {
                bus,
                id: says("device").unwrap_or_default(),
                driver,
            });
        }
    }
    cards
}

/// `before` has the driver's findings: without a driver, there is no more to find here.
pub(super) fn findings(
    subject: &DoctorSubject<'_>,
    surroundings: MachineKind,
    before: &[Finding],
) -> Vec<Finding> {
    let mut findings = Vec::new();
    if surroundings.is_wsl {
        if subject.host.stat(Path::new(WSL)).is_err() {
            findings.push(Finding::new(
                Fault::WslWithoutGpu,
                vec![FindingEvidence::absent(WSL)],
            ));
        }
    } else if let Some(driver) = &subject.inventory.driver
        && !surroundings.is_tegra
    {
        findings = nodes(subject, driver, surroundings.is_container);
    } else if before.is_empty() && !surroundings.is_tegra {
        let no_card = FindingEvidence::file(BUS, "no NVIDIA display controller (0x10de)");
        let evidence = vec![FindingEvidence::absent("/proc/driver/nvidia"), no_card];
        findings.push(Finding::new(Fault::NoGpu, evidence));
    }
    if findings.is_empty() {
        findings.extend(hidden(subject));
    }
    findings
}

/// The faults of the device nodes where the kernel runs the driver.
fn nodes(subject: &DoctorSubject<'_>, driver: &KernelDriver, is_container: bool) -> Vec<Finding> {
    let (host, inventory) = (subject.host, subject.inventory);
    let is_there = |path: &str| host.stat(Path::new(path)).is_ok();
    let has_none = inventory.devices.is_empty();
    let kernel = FindingEvidence::file(&driver.from, driver.version.to_string());
    if has_none && is_container {
        let variables = ["NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"];
        let variables = variables
            .into_iter()
            .filter_map(|name| variable(host, name));
        let evidence = [FindingEvidence::absent(FIRST), kernel]
            .into_iter()
            .chain(variables);
        return vec![Finding::new(
            Fault::ContainerWithoutGpus,
            evidence.collect(),
        )];
    }
    if has_none && inventory.gpus.is_empty() && cards(host).is_empty() {
        let evidence = vec![
            kernel,
            FindingEvidence::absent(FIRST),
            FindingEvidence::absent(BUS),
        ];
        return vec![Finding::new(Fault::NoGpu, evidence)];
    }
    if has_none || !is_there(CONTROL) {
        let missing = [FIRST, CONTROL].into_iter().filter(|path| !is_there(path));
        let missing = missing.map(FindingEvidence::absent).collect();
        return vec![Finding::new(Fault::DeviceNodesMissing, missing)];
    }
    let mut findings = Vec::from_iter(not_permitted(host, &inventory.devices));
    if !is_there(UVM) {
        let maker = host.stat(Path::new(NODE_MAKER));
        let has_maker = maker.is_ok();
        let makes = maker.is_ok_and(|stat| stat.mode & 0o4000 != 0);
        let mut evidence = vec![FindingEvidence::absent(UVM)];
        if !has_maker {
            evidence.push(FindingEvidence::absent(NODE_MAKER));
        }
        let missing = Finding::new(Fault::UvmMissing, evidence).milder(makes);
        findings.push(missing.other_cure(!has_maker));
    }
    findings
}

fn variable(host: &Host, name: &str) -> Option<FindingEvidence> {
    let value = host.env.get(name)?;
    Some(FindingEvidence::variable(name, value))
}

/// One finding for all nodes that this user may not read and write.
fn not_permitted(host: &Host, devices: &[PathBuf]) -> Option<Finding> {
    let shared = [CONTROL, UVM].map(PathBuf::from);
    let nodes = devices
        .iter()
        .chain(shared.iter().filter(|path| host.stat(path).is_ok()));
    let closed: Vec<FindingEvidence> = nodes
        .filter(|path| !host.may_use(path))
        .filter_map(|path| {
            let stat = host.stat(path).ok()?;
            let owner = (!host.is_rerooted()).then_some((stat.uid, stat.gid));
            Some(FindingEvidence::Mode {
                path: path.clone(),
                mode: stat.mode & 0o777,
                owner,
            })
        })
        .collect();
    // If one GPU of many is usable, programs that use it work.
    let shared_closed = shared
        .iter()
        .any(|path| host.stat(path).is_ok() && !host.may_use(path));
    let is_error = shared_closed || devices.iter().all(|path| !host.may_use(path));
    let is_lost = closed
        .iter()
        .all(|evidence| matches!(evidence, FindingEvidence::Mode { mode, .. } if is_open(*mode)));
    let fault = if is_lost {
        Fault::DeviceLost
    } else {
        Fault::DeviceNotPermitted
    };
    // No user should join root's group.
    let is_of_root = closed.iter().any(|evidence| {
        matches!(
            evidence,
            FindingEvidence::Mode {
                owner: Some((_, 0)),
                ..
            }
        )
    });
    let is_other = is_of_root && !is_lost;
    (!closed.is_empty()).then(|| {
        Finding::new(fault, closed)
            .milder(!is_error)
            .other_cure(is_other)
    })
}

/// True if all users may read and write, so that only a control group can deny access.
fn is_open(mode: u32) -> bool {
    mode & 0o006 == 0o006
}

/// The GPUs that `CUDA_VISIBLE_DEVICES` hides.
fn hidden(subject: &DoctorSubject<'_>) -> Option<Finding> {
    let (host, inventory) = (subject.host, subject.inventory);
    let evidence = vec![variable(host, "CUDA_VISIBLE_DEVICES")?];
    if inventory.gpus_hidden {
        return Some(Finding::new(Fault::GpusHidden, evidence));
    }
    let text = host
        .env
        .get("CUDA_VISIBLE_DEVICES")?
        .to_string_lossy()
        .into_owned();
    let reachable = inventory
        .gpus
        .iter()
        .filter(|gpu| gpu.capability.is_some() || gpu.minor.is_some());
    let (count, uuids): (usize, Vec<&str>) = (
        reachable.clone().count(),
        reachable.filter_map(|gpu| gpu.uuid.as_deref()).collect(),
    );
    if count == 0 {
        return None;
    }
    let is_unknown = |word: &str| match word.parse::<usize>() {
        Ok(number) => number >= count,
        Err(_) if word.starts_with("MIG-") => false,
        Err(_) if word.starts_with("GPU-") => {
            uuids.len() == count && !uuids.iter().any(|uuid| uuid.starts_with(word))
        }
        Err(_) => true,
    };
    let word = text
        .split(',')
        .map(str::trim)
        .find(|word| is_unknown(word))?
        .to_owned();
    // The first unknown GPU ends the list.
    let leaves_some = inventory.gpus.iter().any(|gpu| gpu.visible != Visible::No);
    let unknown = Finding::new(Fault::NoSuchGpu, evidence).milder(leaves_some);
    let hidden = if leaves_some {
        "every GPU named after it"
    } else {
        "every GPU"
    };
    Some(unknown.with("word", show(&word)).with("hidden", hidden))
}
