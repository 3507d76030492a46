//! The subject of an examination, and the kind of place that it is.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use super::finding::FindingEvidence;
use crate::catalog::display_name;
use crate::host::Host;
use crate::inventory::{Installation, Inventory, Origin};
use crate::settings::{self, resolve::Settings};
use crate::solve::Summary;
use crate::version::Version;

/// The machine to examine, and the means.
pub struct DoctorSubject<'s> {
    pub host: &'s Host,
    pub inventory: &'s Inventory,
    /// Directories whose children are cudarun's views.
    pub views: &'s [PathBuf],
    pub settings: &'s Settings,
    /// The module by which this shell has what it starts followed.
    pub followed_by: Option<&'s Path>,
}

/// The kind of place.
#[derive(Clone, Copy, Debug, Default)]
pub struct MachineKind {
    pub is_container: bool,
    pub is_wsl: bool,
    /// Its GPU is part of the processor, and has no card and no node of its own.
    pub is_tegra: bool,
}

/// The kernel's release.
pub const OS_RELEASE: &str = "/proc/sys/kernel/osrelease";
/// The kernel starts it, with root's rights, to create a missing device node.
pub(super) const NODE_MAKER: &str = "/usr/bin/nvidia-modprobe";
const CONTAINER_FILES: [&str; 4] = [
    "/.dockerenv",
    "/run/.containerenv",
    "/.singularity.d",
    "/run/systemd/container",
];
const CONTAINER_VARIABLES: [&str; 5] = [
    "container",
    "APPTAINER_CONTAINER",
    "SINGULARITY_CONTAINER",
    "KUBERNETES_SERVICE_HOST",
    "NVIDIA_VISIBLE_DEVICES",
];
const WSL: [&str; 2] = ["/dev/dxg", "/usr/lib/wsl/lib"];
const TEGRA: [&str; 3] = [
    "/etc/nv_tegra_release",
    "/dev/nvmap",
    "/usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1.1",
];

impl MachineKind {
    pub(super) fn of(host: &Host) -> MachineKind {
        let release = host
            .read_text(Path::new(OS_RELEASE))
            .unwrap_or_default()
            .to_lowercase();
        MachineKind {
            is_container: any_exists(host, &CONTAINER_FILES)
                || CONTAINER_VARIABLES
                    .iter()
                    .any(|name| host.env.non_empty(name).is_some()),
            is_wsl: release.contains("microsoft") || any_exists(host, &WSL),
            is_tegra: any_exists(host, &TEGRA),
        }
    }
}

pub(super) fn any_exists(host: &Host, paths: &[&str]) -> bool {
    paths.iter().any(|path| host.stat(Path::new(path)).is_ok())
}

/// The installations with files in a directory.
pub(super) fn installations_in<'i>(
    inventory: &'i Inventory,
    directory: &'i Path,
) -> impl Iterator<Item = &'i Installation> {
    let installations = inventory.installations.iter();
    installations.filter(move |installation| {
        let mut directories = installation.directories();
        directories.any(|other| other == directory)
    })
}

/// `cuDNN 9.1.0`, without the version if it is unknown.
pub fn titled(family: &str, version: Option<impl Display>) -> String {
    let version = version.map(|version| format!(" {version}"));
    display_name(family).to_owned() + &version.unwrap_or_default()
}

/// The title of an installation, which says if it is a stub.
pub fn named(installation: &Summary) -> String {
    let stub = if installation.origin == Origin::Stub {
        " (stub)"
    } else {
        ""
    };
    titled(&installation.family, installation.version) + stub
}

/// A version, or `?`.
pub(super) fn version(version: Option<Version>) -> String {
    version.map_or_else(|| "?".to_owned(), |version| version.to_string())
}

/// The place of a setting as evidence.
pub(super) fn place_evidence(place: &settings::SettingPlace, host: &Host) -> Vec<FindingEvidence> {
    match place {
        settings::SettingPlace::File { path, line } => {
            vec![FindingEvidence::File {
                path: path.clone(),
                line: *line,
                text: String::new(),
            }]
        }
        settings::SettingPlace::Variable(name) => {
            let value = host.env.get(name).unwrap_or_default();
            vec![FindingEvidence::variable(name, value)]
        }
        settings::SettingPlace::Option(_) => Vec::new(),
    }
}
