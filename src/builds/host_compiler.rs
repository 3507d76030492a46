//! The C++ compilers that nvcc could start. None is started: the name of the file tells the version, or else its bytes.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::build::HostCompiler;
use super::view::has_blank;
use crate::formats::toolchain;
use crate::host::Host;
use crate::program;

/// Variables by which a person has chosen the compiler for nvcc.
const CHOSEN: [&str; 2] = ["CUDAHOSTCXX", "NVCC_CCBIN"];
/// Flags of nvcc that a person may have set.
const FLAGS: [&str; 2] = ["NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"];
/// nvcc compiles with the first and links with the second.
const DEFAULTS: [&str; 2] = ["gcc", "g++"];
/// Releases of GCC whose names are looked for.
const MAJORS: std::ops::RangeInclusive<u32> = 7..=30;

/// Returns the newer one of the default compilers and then the others, newest first; none if a person has chosen one, or nvcc
/// finds none. Watches what they are read from.
pub(super) fn compilers(host: &Host, watched: &mut BTreeSet<PathBuf>) -> Vec<HostCompiler> {
    if is_chosen(host) {
        return Vec::new();
    }
    let [compiler, linker] = DEFAULTS.map(|name| {
        let files = files_in_path(host, name);
        Some(HostCompiler {
            gcc: gcc(host, name, &files),
            path: files.into_iter().next()?,
        })
    });
    for file in program::candidates(host, OsStr::new(DEFAULTS[1])) {
        watched.extend(file.parent().map(Path::to_owned));
    }
    for found in [&compiler, &linker].into_iter().flatten() {
        watched.insert(found.path.clone());
    }
    let Some(linker) = linker else {
        return Vec::new();
    };
    let newer = compiler
        .filter(|compiler| compiler.gcc > linker.gcc)
        .unwrap_or_else(|| linker.clone());
    let mut others = vec![linker];
    for major in MAJORS.rev() {
        let files = files_in_path(host, &format!("{}-{major}", DEFAULTS[1]));
        others.extend(files.into_iter().next().map(|path| HostCompiler {
            path,
            gcc: Some(major),
        }));
    }
    // nvcc splits the variable with its flags at blanks.
    others.retain(|other| !has_blank(&other.path));
    others.insert(0, newer);
    others
}

/// True if a person has chosen the compiler for nvcc, by a variable or a flag.
fn is_chosen(host: &Host) -> bool {
    let mut flags = FLAGS.iter().filter_map(|name| host.env.non_empty(name));
    let mut chosen = CHOSEN.iter();
    chosen.any(|name| host.env.non_empty(name).is_some())
        || flags.any(|flags| {
            let flags = flags.to_string_lossy();
            flags.contains("-ccbin") || flags.contains("--compiler-bindir")
        })
}

fn files_in_path(host: &Host, name: &str) -> Vec<PathBuf> {
    program::candidates(host, OsStr::new(name))
        .filter(|file| host.is_executable(file))
        .collect()
}

/// Returns the major of the first GCC among files of one name: `x86_64-linux-gnu-g++-12` at the end of its links, or its bytes. A
/// wrapper such as ccache has neither, and starts the next one; clang is another compiler.
fn gcc(host: &Host, name: &str, files: &[PathBuf]) -> Option<u32> {
    for file in files {
        let Ok(real) = host.canonical(file) else {
            continue;
        };
        if real.to_string_lossy().contains("clang") {
            return None;
        }
        if let Some(major) = gcc_of_file(host, name, &real) {
            return Some(major);
        }
    }
    None
}

fn gcc_of_file(host: &Host, name: &str, file: &Path) -> Option<u32> {
    let file_name = file.file_name()?.to_str()?;
    if !file_name.contains(name) {
        return None;
    }
    let number = file_name.rsplit('-').next()?;
    if let Ok(major) = number.split('.').next()?.parse() {
        return Some(major);
    }
    Some(toolchain::gcc(&host.map(file).ok()?)?.major())
}
