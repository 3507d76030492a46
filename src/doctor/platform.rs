//! The surroundings of a GPU: NVSwitches and the fabric manager, suspend, shared memory, WSL's own libraries, empty files
//! of the driver in an image, and variables that name a toolkit.

use std::path::Path;

use super::finding::{Finding, FindingEvidence};
use super::gpus::{BUS, VENDOR, attribute};
use super::subject::{DoctorSubject, MachineKind, any_exists};
use crate::catalog::{Fault, catalog};
use crate::formats::dpkg;
use crate::host::Host;
use crate::text::binary_size;
use crate::version::Version;

/// The PCI class of bridges. An NVIDIA device of this class is an NVSwitch.
const BRIDGE: &str = "0x0680";
const PACKAGES: &str = "/var/lib/dpkg/status";
const MANAGER: &str = "/usr/bin/nv-fabricmanager";
const SUSPENDED: &str = "/sys/power/suspend_stats/success";
const PARAMETERS: &str = "/proc/driver/nvidia/params";
const MOUNTS: &str = "/proc/self/mounts";
const SHARED: &str = "/dev/shm";
/// In bytes. NCCL and PyTorch's data loaders exchange data there, and Docker gives a container only 64 MiB.
const MIN_SHARED: u64 = 1 << 30;
const WSL_DRIVERS: &str = "/usr/lib/wsl/drivers";
const WSL_MEMORY: &str = "libnvdxgdmal.so.1";
const TOOLKITS: [&str; 2] = ["CUDA_HOME", "CUDA_PATH"];

pub(super) fn findings(subject: &DoctorSubject<'_>, surroundings: MachineKind) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(fabric_manager(subject, surroundings));
    findings.extend(suspended(subject.host));
    findings.extend(shared_memory(subject));
    findings.extend(wsl_memory(subject.host, surroundings));
    findings.extend(empty_driver_files(subject));
    for variable in TOOLKITS {
        findings.extend(toolkit(subject.host, variable));
    }
    findings
}

/// The fabric manager of a machine with NVSwitches must have the version of the kernel's driver. It runs on the host, so
/// nothing is reported in a container.
fn fabric_manager(subject: &DoctorSubject<'_>, surroundings: MachineKind) -> Option<Finding> {
    if surroundings.is_container {
        return None;
    }
    let host = subject.host;
    let kernel = subject.inventory.driver.as_ref()?;
    let entries = host.list(Path::new(BUS)).unwrap_or_default();
    let switch = entries
        .iter()
        .map(|entry| Path::new(BUS).join(&entry.name))
        .find(|device| {
            attribute(host, device, "vendor") == VENDOR
                && attribute(host, device, "class").starts_with(BRIDGE)
        })?;
    let mut evidence = vec![FindingEvidence::file(switch, "an NVSwitch")];
    if !any_exists(host, &[MANAGER]) {
        evidence.push(FindingEvidence::absent(MANAGER));
        return Some(Finding::new(Fault::FabricManager, evidence));
    }
    // Only the packages of dpkg are read.
    let status = host.read(Path::new(PACKAGES)).unwrap_or_default();
    let packages = dpkg::installed(&status, &|name| {
        name.starts_with("nvidia-fabricmanager") && !name.contains("-dev")
    });
    let package = packages.into_iter().next()?;
    let version: Version = package.version.split('-').next()?.parse().ok()?;
    if version == kernel.version {
        return None;
    }
    let text = format!("{} {}", package.name, package.version);
    evidence.push(FindingEvidence::file(PACKAGES, text));
    let finding = Finding::new(Fault::FabricManager, evidence).with("version", version);
    Some(finding.with("kernel", kernel.version))
}

/// After a suspend, `cuInit` may fail with error 999 if the driver does not preserve its memory.
fn suspended(host: &Host) -> Option<Finding> {
    let count = host.read_text(Path::new(SUSPENDED)).ok()?.trim().to_owned();
    let parameters = host.read_text(Path::new(PARAMETERS)).ok()?;
    let line = parameters
        .lines()
        .find(|line| *line == "PreserveVideoMemoryAllocations: 0")?;
    if count == "0" {
        return None;
    }
    let evidence = vec![
        FindingEvidence::file(SUSPENDED, count),
        FindingEvidence::file(PARAMETERS, line),
    ];
    Some(Finding::new(Fault::Suspended, evidence))
}

/// A `/dev/shm` that is too small for several GPUs.
fn shared_memory(subject: &DoctorSubject<'_>) -> Option<Finding> {
    if subject.inventory.devices.len() < 2 {
        return None;
    }
    let mounts = subject.host.read_text(Path::new(MOUNTS)).ok()?;
    let line = mounts
        .lines()
        .rfind(|line| line.split(' ').nth(1) == Some(SHARED))?;
    let options = line.split(' ').nth(3)?;
    let size = options
        .split(',')
        .find_map(|option| option.strip_prefix("size=")?.strip_suffix('k'))?;
    let bytes = size.parse::<u64>().ok()?.saturating_mul(1024);
    if bytes >= MIN_SHARED {
        return None;
    }
    let evidence = vec![FindingEvidence::file(MOUNTS, line)];
    let finding = Finding::new(Fault::SharedMemorySmall, evidence);
    Some(finding.with("size", binary_size(bytes)))
}

/// The container tools give a container in WSL a fixed list of the driver's files. Newer drivers need a file that older
/// tools leave out.
fn wsl_memory(host: &Host, surroundings: MachineKind) -> Option<Finding> {
    if !surroundings.is_wsl || !surroundings.is_container {
        return None;
    }
    for entry in host.list(Path::new(WSL_DRIVERS)).ok()? {
        let directory = Path::new(WSL_DRIVERS).join(&entry.name);
        if host.is_file(&directory.join("libcuda.so.1.1")) {
            let library = directory.join(WSL_MEMORY);
            return host.stat(&library).is_err().then(|| {
                let evidence = vec![FindingEvidence::absent(library)];
                Finding::new(Fault::WslMemoryMissing, evidence)
            });
        }
    }
    None
}

/// An image that was made from a running container contains empty files in place of the driver's, which were mounted.
fn empty_driver_files(subject: &DoctorSubject<'_>) -> Option<Finding> {
    let mut evidence = Vec::new();
    for warning in &subject.inventory.warnings {
        let path = &warning.path;
        if let Some((family, _)) = catalog().family_of_file(path)
            && family.name == "driver"
            && let Ok(stat) = subject.host.stat(path)
            && stat.is_file()
            && stat.size == 0
        {
            evidence.push(FindingEvidence::file(path, "0 bytes"));
        }
    }
    (!evidence.is_empty()).then(|| Finding::new(Fault::DriverFileEmpty, evidence))
}

/// A variable that should name one directory.
fn toolkit(host: &Host, variable: &'static str) -> Option<Finding> {
    let value = host.env.non_empty(variable)?;
    if Path::new(value).is_absolute() && host.is_directory(Path::new(value)) {
        return None;
    }
    let evidence = vec![FindingEvidence::variable(variable, value)];
    Some(Finding::new(Fault::ToolkitVariable, evidence).with("variable", variable))
}
