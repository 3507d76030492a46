//! The driver: which one the kernel runs, and where its user-space libraries stand.

use std::path::{Path, PathBuf};

use super::place::{Look, Place};
use super::{KernelDriver, Origin};
use crate::catalog::catalog;
use crate::host::Host;
use crate::version::DriverVersion;

const MODULE: &str = "/sys/module/nvidia/version";
const PROC: &str = "/proc/driver/nvidia/version";

/// Directories that hold nothing but a driver's libraries: containers, WSL, NixOS, Debian, Tegra.
const DIRECTORIES: &[&str] = &[
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
    "/usr/lib/wsl/lib",
    "/run/opengl-driver/lib",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/lib/aarch64-linux-gnu/nvidia/current",
    "/usr/lib/aarch64-linux-gnu/nvidia",
    "/usr/lib/aarch64-linux-gnu/tegra",
];

pub(super) fn kernel(look: &mut Look<'_>) -> Option<KernelDriver> {
    look.watch(MODULE);
    look.watch(PROC);
    let (version, from) = version(look.host)?;
    let cuda = catalog().cuda_of_driver(&version);
    Some(KernelDriver { version, cuda, from: PathBuf::from(from) })
}

pub(super) fn places(_: &mut Look<'_>) -> Vec<Place> {
    DIRECTORIES.iter().map(|directory| Place::new(*directory, Origin::Driver)).collect()
}

fn version(host: &Host) -> Option<(DriverVersion, &'static str)> {
    if let Some(version) = host.read_text(Path::new(MODULE)).ok().and_then(|text| text.parse().ok()) {
        return Some((version, MODULE));
    }
    let text = host.read_text(Path::new(PROC)).ok()?;
    version_of_proc(&text).map(|version| (version, PROC))
}

/// `NVRM version: NVIDIA UNIX x86_64 Kernel Module  375.74  Wed Jun 14 …` or, for the open module,
/// `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (…)`: in both, the
/// version is what stands between two double blanks.
fn version_of_proc(text: &str) -> Option<DriverVersion> {
    let line = text.lines().find(|line| line.starts_with("NVRM version:"))?;
    line.split("  ").skip(1).find_map(|field| field.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_both_forms_of_the_kernel_module_line() {
        let version = |text| version_of_proc(text).map(|version| version.to_string());
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (x@y)  \nGCC version:  gcc version 15.3.0\n";
        let closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  375.74  Wed Jun 14 01:39:39 PDT 2017\n";
        assert_eq!(version(open).unwrap(), "580.159.04");
        assert_eq!(version(closed).unwrap(), "375.74");
        assert_eq!(version("NVRM version: nothing\n"), None);
        assert_eq!(version(""), None);
    }
}
