//! The C++ compilers that nvcc could start. None is started: the name of the file tells the version, or else its bytes.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::PathBuf;

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
    let has_flag = |name: &str| {
        let flags = host
            .env
            .non_empty(name)
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        flags.contains("-ccbin") || flags.contains("--compiler-bindir")
    };
    if CHOSEN.iter().any(|name| host.env.non_empty(name).is_some())
        || FLAGS.iter().any(|name| has_flag(name))
    {
        return Vec::new();
    }
    let in_path = |name: &str| {
        let files = program::candidates(host, OsStr::new(name));
        files
            .filter(|file| host.is_executable(file))
            .collect::<Vec<PathBuf>>()
    };
    let [compiler, linker] = DEFAULTS.map(|name| {
        let files = in_path(name);
        Some(HostCompiler {
            gcc: gcc(host, name, &files),
            path: files.into_iter().next()?,
        })
    });
    let directories = program::candidates(host, OsStr::new(DEFAULTS[1]));
    watched.extend(directories.filter_map(|file| Some(file.parent()?.to_owned())));
    watched.extend(
        compiler
            .iter()
            .chain(&linker)
            .map(|found| found.path.clone()),
    );
    let Some(linker) = linker else {
        return Vec::new();
    };
    let newer = compiler
        .filter(|compiler| compiler.gcc > linker.gcc)
        .unwrap_or_else(|| linker.clone());
    let others = MAJORS.rev().filter_map(|major| {
        let path = in_path(&format!("{}-{major}", DEFAULTS[1]))
            .into_iter()
            .next()?;
        Some(HostCompiler {
            path,
            gcc: Some(major),
        })
    });
    // nvcc splits the variable with its flags at blanks.
    let named = std::iter::once(linker)
        .chain(others)
        .filter(|other| !has_blank(&other.path));
    std::iter::once(newer).chain(named).collect()
}

/// Returns the major of the first GCC among files of one name: `x86_64-linux-gnu-g++-12` at the end of its links, or its bytes. A
/// wrapper such as ccache has neither, and starts the next one; clang is another compiler.
fn gcc(host: &Host, name: &str, files: &[PathBuf]) -> Option<u32> {
    let reals = files.iter().filter_map(|file| host.canonical(file).ok());
    reals
        .take_while(|real| !real.to_string_lossy().contains("clang"))
        .find_map(|real| {
            let file_name = real
                .file_name()?
                .to_str()
                .filter(|file_name| file_name.contains(name))?;
            let number = file_name.rsplit('-').next()?;
            let from_name = number
                .split('.')
                .next()
                .and_then(|major| major.parse().ok());
            from_name.or_else(|| Some(toolchain::gcc(&host.map(&real).ok()?)?.major()))
        })
}
