//! The version of the driver that the kernel runs.

use std::path::{Path, PathBuf};

use super::location::ScanContext;
use super::machine::KernelDriver;
use crate::catalog::knowledge;
use crate::host::Host;
use crate::version::Version;

const MODULE: &str = "/sys/module/nvidia/version";
const PROC: &str = "/proc/driver/nvidia/version";

pub(super) fn kernel(scan: &mut ScanContext<'_>) -> Option<KernelDriver> {
    scan.watch(MODULE);
    scan.watch(PROC);
    let (version, from) = version(scan.host)?;
    let cuda = knowledge().cuda_of_driver(version);
    Some(KernelDriver {
        version,
        cuda,
        from: PathBuf::from(from),
    })
}

pub(super) fn is_there(host: &Host) -> bool {
    version(host).is_some()
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
}
