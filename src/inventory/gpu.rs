//! The GPUs, read from the kernel driver's list and from PCI device ids; no library is called.
//!
//! A GPU counts as present when its device node is visible. The kernel module may know more: a container can be given
//! none of the GPUs of its host.

use std::path::{Path, PathBuf};

use super::location::ScanContext;
use super::machine::{Gpu, Visible};
use crate::catalog;
use crate::host::Host;

const GPUS: &str = "/proc/driver/nvidia/gpus";

pub(super) fn list(look: &mut ScanContext<'_>) -> Vec<Gpu> {
    let entries = look.children(Path::new(GPUS));
    let directories: Vec<PathBuf> = entries
        .iter()
        .map(|entry| Path::new(GPUS).join(entry))
        .collect();
    look.watched.extend(
        directories
            .iter()
            .map(|directory| directory.join("information")),
    );
    directories
        .iter()
        .filter_map(|directory| read(look.host, directory))
        .collect()
}

/// [`nodes`], which are watched from now on.
pub(super) fn devices(look: &mut ScanContext<'_>) -> Vec<PathBuf> {
    let control = [Path::new("/dev/nvidiactl"), Path::new("/dev/dxg")];
    look.watched.extend(control.map(Path::to_owned));
    nodes(look.host)
}

/// `/dev/nvidia0` and its siblings; on WSL `/dev/dxg`.
pub(super) fn nodes(host: &Host) -> Vec<PathBuf> {
    let is_gpu = |name: &str| {
        let rest = name.strip_prefix("nvidia");
        name == "dxg"
            || rest.is_some_and(|rest| {
                !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit())
            })
    };
    let entries = host.list(Path::new("/dev")).unwrap_or_default();
    let nodes = entries
        .iter()
        .filter(|entry| entry.name.to_str().is_some_and(is_gpu));
    nodes
        .map(|entry| Path::new("/dev").join(&entry.name))
        .collect()
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
    let field = |name: &str| field(&information, name);
    let bus =
        field("Bus Location").or_else(|| Some(directory.file_name()?.to_str()?.to_owned()))?;
    let device = host
        .read_text(&Path::new("/sys/bus/pci/devices").join(&bus).join("device"))
        .ok();
    // Before a process has used the GPU its UUID is all question marks.
    let uuid = field("GPU UUID").filter(|uuid| uuid.starts_with("GPU-") && !uuid.contains('?'));
    let id =
        device.and_then(|text| u16::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok());
    let known = id.and_then(catalog::gpu);
    let product = known.map(|(_, _, product)| product.to_owned());
    Some(Gpu {
        model: field("Model")
            .filter(|model| !model.is_empty())
            .or(product)
            .unwrap_or_else(|| "unknown".to_owned()),
        chip: known.map(|(_, chip, _)| chip),
        capability: known.and_then(|(capability, _, _)| capability),
        bus,
        uuid,
        minor: field("Device Minor").and_then(|minor| minor.parse().ok()),
        visible: if is_excluded(&information) {
            Visible::No
        } else {
            Visible::Yes
        },
    })
}
