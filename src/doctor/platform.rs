//! The surroundings of a GPU: NVSwitches and the fabric manager, suspend, shared memory, WSL's own libraries, empty files
//! of the driver in an image, and variables that name a toolkit.

use std::path::Path;

use super::finding::{Finding, FindingEvidence};
use super::gpus::{BUS, VENDOR};
use super::subject::{DoctorSubject, MachineKind};
use crate::catalog::{Fault, catalog};
use crate::formats::dpkg;
use crate::host::Host;
use crate::text::binary_size;

/// The PCI class of bridges. An NVIDIA device of this class is an NVSwitch.
const BRIDGE: &str = "0x0680";
const PACKAGES: &str = "/var/lib/dpkg/status";
const MANAGER: &str = "/usr/bin/nv-fabricmanager";
const SUSPENDED: &str = "/sys/power/suspend_stats/success";
const PARAMETERS: &str = "/proc/driver/nvidia/params";
const MOUNTS: &str = "/proc/self/mounts";
const SHARED: &str = "/dev/shm";
/// In bytes. NCCL and PyTorch's data loaders exchange data there, and Docker gives a container only 64 MiB.
const ENOUGH_SHARED: u64 = 1 << 30;
const WSL_DRIVERS: &str = "/usr/lib/wsl/drivers";
const WSL_MEMORY: &str = "libnvdxgdmal.so.1";
const TOOLKITS: [&str; 2] = ["CUDA_HOME", "CUDA_PATH"];

pub(super) fn findings(subject: &DoctorSubject<'_>, surroundings: MachineKind) -> Vec<Finding> {
    let found = [
        fabric_manager(subject, surroundings),
        suspended(subject.host),
        shared_memory(subject),
        wsl_memory(subject.host, surroundings),
        empty_driver_files(subject),
    ];
    let toolkits = TOOLKITS
        .iter()
        .filter_map(|variable| toolkit(subject.host, variable));
    found.into_iter().flatten().chain(toolkits).collect()
}

/// The fabric manager of a machine with NVSwitches must have the version of the kernel's driver. It runs on the host, so
/// nothing is reported in a container.
fn fabric_manager(subject: &DoctorSubject<'_>, surroundings: MachineKind) -> Option<Finding> {
    let host = subject.host;
    let kernel = subject
        .inventory
        .driver
        .as_ref()
        .filter(|_| !surroundings.is_container)?;
    let entries = host.list(Path::new(BUS)).unwrap_or_default();
    let switch = entries
        .iter()
        .map(|entry| Path::new(BUS).join(&entry.name))
        .find(|device| {
            let says = |name: &str, start: &str| {
                host.read_text(&device.join(name))
                    .is_ok_and(|text| text.starts_with(start))
            };
            says("vendor", VENDOR) && says("class", BRIDGE)
        })?;
    let is_manager =
        |name: &str| name.starts_with("nvidia-fabricmanager") && !name.contains("-dev");
    let status = host.read(Path::new(PACKAGES)).unwrap_or_default();
    let package = dpkg::installed(&status, &is_manager).into_iter().next();
    let (version, evidence) = match package {
        _ if host.stat(Path::new(MANAGER)).is_err() => (None, FindingEvidence::absent(MANAGER)),
        Some(package) => {
            let text = format!("{} {}", package.name, package.version);
            (
                Some(package.version.split('-').next()?.parse().ok()?),
                FindingEvidence::file(PACKAGES, text),
            )
        }
        // Only the packages of dpkg are read.
        None => return None,
    };
    if version == Some(kernel.version) {
        return None;
    }
    let evidence = vec![FindingEvidence::file(switch, "an NVSwitch"), evidence];
    let found = Finding::new(Fault::FabricManager, evidence);
    Some(match version {
        Some(version) => found
            .with("version", version)
            .with("kernel", kernel.version),
        None => found,
    })
}

/// After a suspend, `cuInit` may fail with error 999 if the driver does not preserve its memory.
fn suspended(host: &Host) -> Option<Finding> {
    let count = host.read_text(Path::new(SUSPENDED)).ok()?.trim().to_owned();
    let parameters = host.read_text(Path::new(PARAMETERS)).ok()?;
    let lost = parameters
        .lines()
        .find(|line| *line == "PreserveVideoMemoryAllocations: 0")?;
    let evidence = vec![
        FindingEvidence::file(SUSPENDED, &count),
        FindingEvidence::file(PARAMETERS, lost),
    ];
    (count != "0").then(|| Finding::new(Fault::Suspended, evidence))
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
    let small = Finding::new(
        Fault::SharedMemorySmall,
        vec![FindingEvidence::file(MOUNTS, line)],
    );
    (bytes < ENOUGH_SHARED).then(|| small.with("size", binary_size(bytes)))
}

/// The container tools give a container in WSL a fixed list of the driver's files. Newer drivers need a file that older
/// tools leave out.
fn wsl_memory(host: &Host, surroundings: MachineKind) -> Option<Finding> {
    let entries = host.list(Path::new(WSL_DRIVERS)).ok()?;
    let drivers = entries
        .iter()
        .map(|entry| Path::new(WSL_DRIVERS).join(&entry.name));
    let driver = drivers
        .into_iter()
        .find(|path| host.is_file(&path.join("libcuda.so.1.1")))?;
    let library = driver.join(WSL_MEMORY);
    let is_lacking =
        surroundings.is_wsl && surroundings.is_container && host.stat(&library).is_err();
    is_lacking.then(|| {
        Finding::new(
            Fault::WslMemoryMissing,
            vec![FindingEvidence::absent(library)],
        )
    })
}

/// An image that was made from a running container contains empty files in place of the driver's, which were mounted.
fn empty_driver_files(subject: &DoctorSubject<'_>) -> Option<Finding> {
    let is_driver = |path: &Path| {
        catalog()
            .family_of_file(path)
            .is_some_and(|(family, _)| family.name == "driver")
    };
    let is_empty = |path: &Path| {
        subject
            .host
            .stat(path)
            .is_ok_and(|stat| stat.is_file() && stat.size == 0)
    };
    let paths = subject
        .inventory
        .warnings
        .iter()
        .map(|warning| warning.path.as_path());
    let empty = paths.filter(|path| is_driver(path) && is_empty(path));
    let evidence: Vec<FindingEvidence> = empty
        .map(|path| FindingEvidence::file(path, "0 bytes"))
        .collect();
    (!evidence.is_empty()).then(|| Finding::new(Fault::DriverFileEmpty, evidence))
}

/// A variable that should name one directory.
fn toolkit(host: &Host, variable: &'static str) -> Option<Finding> {
    let value = host.env.non_empty(variable)?;
    let is_fine = Path::new(value).is_absolute() && host.is_directory(Path::new(value));
    let evidence = vec![FindingEvidence::variable(variable, value)];
    (!is_fine).then(|| Finding::new(Fault::ToolkitVariable, evidence).with("variable", variable))
}
