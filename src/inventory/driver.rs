//! The version of the driver that the kernel runs.

use std::path::{Path, PathBuf};

use super::location::ScanContext;
use super::machine::{KernelDriver, TEGRA_RELEASE};
use crate::catalog::knowledge;
use crate::host::Host;
use crate::version::{CudaVersion, Version};

const MODULE: &str = "/sys/module/nvidia/version";
const PROC: &str = "/proc/driver/nvidia/version";
/// The memory manager of Jetson's kernels: the release alone may be that of an image.
const TEGRA_NODE: &str = "/dev/nvmap";
/// Jetson's kernels may give their own release, such as 35.3.1, as the driver's number: all drivers are newer.
const OLDEST: u32 = 100;

pub(super) fn kernel(scan: &mut ScanContext<'_>) -> Option<KernelDriver> {
    scan.watch(MODULE);
    scan.watch(PROC);
    scan.watch(TEGRA_NODE);
    if is_tegra(scan.host) {
        scan.watch(TEGRA_RELEASE);
    }
    of_host(scan.host)
}

/// True on a Jetson, and in a container there that may use its GPU.
pub(super) fn is_tegra(host: &Host) -> bool {
    host.stat(Path::new(TEGRA_NODE)).is_ok()
}

pub(super) fn is_there(host: &Host) -> bool {
    of_host(host).is_some()
}

/// Where a Jetson's kernel does not number its driver as elsewhere, the one that elsewhere came with the same CUDA stands
/// for it.
fn of_host(host: &Host) -> Option<KernelDriver> {
    let cuda = cuda_of_tegra(host);
    let stand_in = cuda.and_then(|cuda| knowledge().driver_of_cuda(cuda));
    let numbered = version(host);
    let (version, from) = numbered
        .filter(|(version, _)| version.major() >= OLDEST)
        .or(stand_in.map(|version| (version, TEGRA_RELEASE)))
        .or(numbered)?;
    Some(KernelDriver {
        version,
        cuda: knowledge().cuda_of_driver(version).or(cuda),
        from: PathBuf::from(from),
    })
}

/// The CUDA version of a Jetson's driver, by the release of its system.
fn cuda_of_tegra(host: &Host) -> Option<CudaVersion> {
    if !is_tegra(host) {
        return None;
    }
    let text = host.read_text(Path::new(TEGRA_RELEASE)).ok()?;
    knowledge().cuda_of_tegra(l4t(&text)?)
}

/// `# R36 (release), REVISION: 4.3, GCID: …`: 36.4.3.
fn l4t(text: &str) -> Option<Version> {
    let (major, rest) = text.strip_prefix("# R")?.split_once(' ')?;
    let (_, rest) = rest.split_once("REVISION: ")?;
    let (minor, _) = rest.split_once(',')?;
    format!("{major}.{minor}").parse().ok()
}

fn version(host: &Host) -> Option<(Version, &'static str)> {
    if let Ok(text) = host.read_text(Path::new(MODULE))
        && let Some(version) = Version::of_driver(&text)
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
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (x@y)  \nGCC version:  gcc version 15.3.0\n";
        let closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  375.74  Wed Jun 14 01:39:39 PDT 2017\n";
        assert_eq!(version_of_proc(open).unwrap().to_string(), "580.159.04");
        assert_eq!(version_of_proc(closed).unwrap().to_string(), "375.74");
        assert_eq!(version_of_proc("NVRM version: nothing\n"), None);
        assert_eq!(version_of_proc(""), None);
    }

    #[test]
    fn reads_the_release_of_jetsons_system() {
        let release = |text| l4t(text).map(|version| version.to_string());
        let orin = "# R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic\n# KERNEL_VARIANT: oot\n";
        assert_eq!(release(orin).as_deref(), Some("36.4.3"));
        for other in [
            "",
            "# R36",
            "# R (release), REVISION: ,",
            "R36 (release), REVISION: 4.3,",
        ] {
            assert_eq!(release(other), None, "{other:?}");
        }
    }
}
