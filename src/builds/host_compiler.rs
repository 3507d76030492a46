//! The C++ compilers that nvcc could start. None is started: the name of the file tells the version, or else its bytes.

use std::ffi::OsStr;
use std::path::Path;

use super::model::HostCompiler;
use crate::formats::toolchain;
use crate::host::Host;
use crate::program;

/// Variables by which a person has chosen the compiler for nvcc.
const CHOSEN: [&str; 2] = ["CUDAHOSTCXX", "NVCC_CCBIN"];
/// Flags of nvcc that a person may have set.
const FLAGS: [&str; 2] = ["NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"];
/// nvcc starts this one itself.
const DEFAULT: &str = "g++";
/// Releases of GCC whose names are looked for.
const MAJORS: std::ops::RangeInclusive<u32> = 7..=30;

/// Returns the default compiler and then the others, newest first; none if a person has chosen one, or there is none.
pub(super) fn compilers(host: &Host) -> Vec<HostCompiler> {
    let has_flag = |name: &str| {
        let flags = host.env.non_empty(name).unwrap_or_default().to_string_lossy().into_owned();
        flags.contains("-ccbin") || flags.contains("--compiler-bindir")
    };
    if CHOSEN.iter().any(|name| host.env.non_empty(name).is_some()) || FLAGS.iter().any(|name| has_flag(name))
    {
        return Vec::new();
    }
    let which = |name: &str| program::locate(host, OsStr::new(name)).ok();
    let Some(default) = which(DEFAULT) else { return Vec::new() };
    let mut found = vec![HostCompiler { gcc: gcc(host, &default), path: default }];
    for major in MAJORS.rev() {
        if let Some(path) = which(&format!("{DEFAULT}-{major}")) {
            found.push(HostCompiler { path, gcc: Some(major) });
        }
    }
    found
}

/// Returns the major of a GCC: `x86_64-linux-gnu-g++-12` at the end of its links.
fn gcc(host: &Host, path: &Path) -> Option<u32> {
    let real = host.canonical(path).ok()?;
    let name = real.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let number = name.rsplit('-').next().filter(|_| name.contains(DEFAULT))?;
    let from_name = number.split('.').next().and_then(|major| major.parse().ok());
    from_name.or_else(|| Some(toolchain::gcc(&host.map(&real).ok()?)?.major()))
}
