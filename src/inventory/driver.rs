//! The driver: the version that the kernel runs, and the directories of its user-space libraries.

use std::path::{Path, PathBuf};

use super::location::{ScanContext, SearchLocation};
use super::machine::KernelDriver;
use super::model::Origin;
use crate::catalog::knowledge;
use crate::formats::elf;
use crate::host::Host;
use crate::version::Version;

const MODULE: &str = "/sys/module/nvidia/version";
const PROC: &str = "/proc/driver/nvidia/version";

/// Any machine: no ELF file has this number.
const ANY: u16 = 0;
/// Directories with libraries of the driver only, each with its ELF machine.
const DIRECTORIES: &[(u16, &str)] = &[
    // Containers, and the container that brings the driver to its host.
    (ANY, "/usr/local/nvidia/lib64"),
    (ANY, "/usr/local/nvidia/lib"),
    (ANY, "/run/nvidia/driver/usr/lib64"),
    (elf::X86_64, "/run/nvidia/driver/usr/lib/x86_64-linux-gnu"),
    (elf::AARCH64, "/run/nvidia/driver/usr/lib/aarch64-linux-gnu"),
    // Hosts with a read-only system: Google's clusters.
    (ANY, "/home/kubernetes/bin/nvidia/lib64"),
    (ANY, "/var/lib/nvidia/lib64"),
    // WSL, NixOS.
    (ANY, "/usr/lib/wsl/lib"),
    (ANY, "/run/opengl-driver/lib"),
    // Fedora and Red Hat, older Arch, Gentoo.
    (ANY, "/usr/lib64/nvidia"),
    (ANY, "/usr/lib/nvidia"),
    (ANY, "/usr/lib64/opengl/nvidia/lib"),
    (ANY, "/usr/lib/opengl/nvidia/lib"),
    // Tegra.
    (elf::AARCH64, "/usr/lib/aarch64-linux-gnu/nvidia"),
    (elf::AARCH64, "/usr/lib/aarch64-linux-gnu/tegra"),
];
/// Directories with one driver in each child whose name has one of these prefixes: Debian's `current` and `tesla-535`,
/// the drivers that Windows gives to WSL, Ubuntu's before 18.04.
const PARENTS: &[(u16, &str, &[&str])] = &[
    (elf::X86_64, "/usr/lib/x86_64-linux-gnu/nvidia", &[""]),
    (elf::AARCH64, "/usr/lib/aarch64-linux-gnu/nvidia", &[""]),
    (elf::X86_64, "/usr/lib/wsl/drivers", &["nv"]),
    (elf::X86_64, "/usr/lib", &["nvidia-3", "nvidia-4"]),
];

pub(super) fn kernel(look: &mut ScanContext<'_>) -> Option<KernelDriver> {
    look.watch(MODULE);
    look.watch(PROC);
    let (version, from) = version(look.host)?;
    let cuda = knowledge().cuda_of_driver(version);
    Some(KernelDriver {
        version,
        cuda,
        from: PathBuf::from(from),
    })
}

pub(super) fn places(look: &mut ScanContext<'_>) -> Vec<SearchLocation> {
    let machine = look.scope.machine;
    let is_for_us = |given: u16| given == ANY || given == machine;
    let directories = DIRECTORIES.iter().filter(|(given, _)| is_for_us(*given));
    let mut places: Vec<SearchLocation> = directories
        .map(|(_, directory)| SearchLocation::new(*directory, Origin::Driver))
        .collect();
    for (_, parent, prefixes) in PARENTS.iter().filter(|(given, ..)| is_for_us(*given)) {
        let parent = Path::new(parent);
        let is_driver = |name: &String| prefixes.iter().any(|prefix| name.starts_with(prefix));
        let names = look.children_if_there(parent).into_iter().filter(is_driver);
        places.extend(names.map(|name| SearchLocation::new(parent.join(name), Origin::Driver)));
    }
    places
}

pub(super) fn is_there(host: &Host) -> bool {
    version(host).is_some()
}

pub(super) fn version(host: &Host) -> Option<(Version, &'static str)> {
    if let Some(version) = host
        .read_text(Path::new(MODULE))
        .ok()
        .and_then(|text| Version::of_driver(&text))
    {
        return Some((version, MODULE));
    }
    let text = host.read_text(Path::new(PROC)).ok()?;
    version_of_proc(&text).map(|version| (version, PROC))
}

/// `NVRM version: NVIDIA UNIX x86_64 Kernel Module  375.74  Wed Jun 14 …` or, for the open module,
/// `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (…)`: in both, two blanks
/// come before and after the version.
fn version_of_proc(text: &str) -> Option<Version> {
    let line = text
        .lines()
        .find(|line| line.starts_with("NVRM version:"))?;
    line.split("  ").skip(1).find_map(Version::of_driver)
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
