//! The GPUs, read from the kernel driver's list and from PCI device ids, or the device tree; no library is called.
//!
//! A GPU counts as present when its device node is visible. The kernel module may know more: a container can be given
//! none of the GPUs of its host.

use std::path::{Path, PathBuf};

use super::driver;
use super::location::ScanContext;
use super::machine::{Gpu, Visible};
use crate::catalog;
use crate::host::Host;

const GPUS: &str = "/proc/driver/nvidia/gpus";
const DEVICE_TREE: &str = "/proc/device-tree";

pub(super) fn list(scan: &mut ScanContext<'_>) -> Vec<Gpu> {
    let mut gpus = Vec::new();
    for entry in scan.children(Path::new(GPUS)) {
        let directory = Path::new(GPUS).join(entry);
        scan.watch(directory.join("information"));
        gpus.extend(read(scan.host, &directory));
    }
    if gpus.is_empty() && driver::is_tegra(scan.host) {
        gpus.extend(of_processor(scan));
    }
    gpus
}

/// The GPU of a system on a chip, which the kernel's driver does not list.
fn of_processor(scan: &mut ScanContext<'_>) -> Option<Gpu> {
    let tree = Path::new(DEVICE_TREE);
    scan.watch(tree.join("compatible"));
    scan.watch(tree.join("model"));
    let compatible = scan.host.read_text(&tree.join("compatible")).ok()?;
    let names: Vec<&str> = compatible.split('\0').collect();
    let row = catalog::architectures().iter().find(|row| {
        let name = row.device_tree.as_deref();
        name.is_some_and(|name| names.contains(&name))
    })?;
    let board = scan.host.read_text(&tree.join("model"));
    let model = board.unwrap_or_else(|_| row.chips.clone());
    Some(Gpu {
        bus: String::new(),
        model: model.trim_end_matches('\0').to_owned(),
        chip: Some(&row.chips),
        capability: Some(row.capability),
        uuid: None,
        minor: None,
        visible: Visible::Yes,
    })
}

/// [`nodes`], which are watched from now on.
pub(super) fn devices(scan: &mut ScanContext<'_>) -> Vec<PathBuf> {
    let control = [Path::new("/dev/nvidiactl"), Path::new("/dev/dxg")];
    scan.watched.extend(control.map(Path::to_owned));
    nodes(scan.host)
}

/// The device files by which programs reach the GPUs. A Jetson's programs reach its GPU by others, though it may have one of this name.
pub fn devices_of_programs(host: &Host) -> Vec<PathBuf> {
    if driver::is_tegra(host) {
        return Vec::new();
    }
    nodes(host)
}

/// `/dev/nvidia0` and its siblings; on WSL `/dev/dxg`.
pub(super) fn nodes(host: &Host) -> Vec<PathBuf> {
    let mut nodes = Vec::new();
    for entry in host.list(Path::new("/dev")).unwrap_or_default() {
        if entry.name.to_str().is_some_and(is_node) {
            nodes.push(Path::new("/dev").join(&entry.name));
        }
    }
    nodes
}

/// True for the path of a GPU's device file: `/dev/nvidia0` and its siblings, on WSL `/dev/dxg`.
pub fn is_device(path: &Path) -> bool {
    let name = path.strip_prefix("/dev").ok().and_then(Path::to_str);
    name.is_some_and(is_node)
}

fn is_node(name: &str) -> bool {
    let number = name.strip_prefix("nvidia").unwrap_or_default();
    name == "dxg" || !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

fn field(information: &str, name: &str) -> Option<String> {
    let mut lines = information.lines();
    let value = lines.find_map(|line| line.strip_prefix(name))?;
    Some(value.trim_start_matches(':').trim().to_owned())
}

/// True if the driver keeps every program from the GPU, by its file `information`.
pub fn is_excluded(information: &str) -> bool {
    field(information, "GPU Excluded").is_some_and(|excluded| excluded == "Yes")
}

fn read(host: &Host, directory: &Path) -> Option<Gpu> {
    let information = host.read_text(&directory.join("information")).ok()?;
    let bus = field(&information, "Bus Location")
        .or_else(|| Some(directory.file_name()?.to_str()?.to_owned()))?;
    let file = Path::new("/sys/bus/pci/devices").join(&bus).join("device");
    let id = host.read_text(&file).ok();
    let id = id.and_then(|id| u16::from_str_radix(id.trim().trim_start_matches("0x"), 16).ok());
    let known = id.and_then(catalog::gpu);
    let product = known.as_ref().map(|known| known.product.to_owned());
    let model = field(&information, "Model").filter(|model| !model.is_empty());
    // Before a process has used the GPU its UUID is all question marks.
    let uuid = field(&information, "GPU UUID")
        .filter(|uuid| uuid.starts_with("GPU-") && !uuid.contains('?'));
    let minor = field(&information, "Device Minor");
    Some(Gpu {
        model: model.or(product).unwrap_or_else(|| "unknown".to_owned()),
        chip: known.as_ref().map(|known| known.chip),
        capability: known.and_then(|known| known.capability),
        bus,
        uuid,
        minor: minor.and_then(|minor| minor.parse().ok()),
        visible: if is_excluded(&information) {
            Visible::No
        } else {
            Visible::Yes
        },
    })
}
