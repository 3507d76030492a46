//! Environment modules, in Tcl and in Lua: the directories of loaded modules and, if the whole machine is scanned, of
//! available ones. No module is executed.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::location::{self, ScanContext, SearchLocation};
use super::model::Origin;
use super::{compat, hpc_sdk, toolkit};
use crate::formats::modulefile::{self, Modulefile};
use crate::host::{Host, Kind};
use crate::variables;

/// Parts of the names of modules with NVIDIA's libraries.
const NAMES: &[&str] = &[
    "cublas",
    "cuda",
    "cudnn",
    "cudss",
    "cusparselt",
    "cutensor",
    "hpc-sdk",
    "hpc_sdk",
    "hpcsdk",
    "nccl",
    "nvhpc",
    "nvidia",
    "nvshmem",
    "tensorrt",
];
/// Endings of variables that name the root of such libraries: `CUDNN_ROOT`; besides `EBROOTCUDA` and `NVHPC`.
const ROOTS: &[&str] = &["_BASE", "_DIR", "_HOME", "_PATH", "_ROOT"];
const SEARCHED: [&str; 2] = [variables::LIBRARY_PATH, "LIBRARY_PATH"];
/// Directories that a module may name, but that do not belong to it.
const SYSTEM: [&str; 4] = ["/lib", "/lib64", "/usr/lib", "/usr/lib64"];
/// The usual directories of modules.
pub const MODULE_DIRECTORIES: [&str; 3] = [
    "/etc/modulefiles",
    "/usr/share/modulefiles",
    "/usr/share/modules/modulefiles",
];
/// In bytes. A module has a few thousand.
const SIZE_LIMIT: u64 = 256 << 10;
/// `compiler/gcc/12/cuda/12.4.lua`, and some room.
const DEPTH: usize = 6;
/// More than the largest sites have.
const ENTRIES: usize = 50_000;

/// Loaded modules. Their directories are in `LD_LIBRARY_PATH` too; this source gives them their origin.
pub(super) fn loaded(look: &mut ScanContext<'_>) -> Vec<SearchLocation> {
    let listed = list(look, "_LMFILES_");
    let files = if listed.is_empty() {
        by_name(look)
    } else {
        listed
    };
    let mut places = Vec::new();
    for file in files {
        if is_of_interest(&file) {
            look.watch(&file);
            places.extend(places_of(look, &file));
        }
    }
    location::named(places)
}

/// Available modules.
pub(super) fn available(look: &mut ScanContext<'_>) -> Vec<SearchLocation> {
    let mut tops = list(look, "MODULEPATH");
    tops.extend(MODULE_DIRECTORIES.iter().map(PathBuf::from));
    look.watched.extend(tops.iter().cloned());
    let mut places = Vec::new();
    for file in files_below(look.host, tops) {
        look.watched.extend(file.parent().map(Path::to_owned));
        places.extend(places_of(look, &file));
    }
    places
}

/// The absolute paths in a variable with a list of paths.
fn list(look: &ScanContext<'_>, variable: &str) -> Vec<PathBuf> {
    let value = look
        .host
        .env
        .non_empty(variable)
        .map(OsStr::as_bytes)
        .unwrap_or_default();
    let paths = value
        .split(|byte| *byte == b':')
        .map(|path| PathBuf::from(OsStr::from_bytes(path)));
    paths.filter(|path| path.is_absolute()).collect()
}

/// Returns the files of loaded modules by their names, for machines that do not list files.
fn by_name(look: &mut ScanContext<'_>) -> Vec<PathBuf> {
    let names = look
        .host
        .env
        .non_empty("LOADEDMODULES")
        .and_then(OsStr::to_str)
        .unwrap_or_default();
    let names: Vec<&str> = names
        .split(':')
        .filter(|name| is_of_interest(Path::new(name)))
        .collect();
    let tops = list(look, "MODULEPATH");
    // The first directory with the module counts, so that a new module may change the result.
    if !names.is_empty() {
        look.watched.extend(tops.iter().cloned());
    }
    let find = |name: &&str| {
        let files = tops
            .iter()
            .flat_map(|top| ["", ".lua"].map(|end| top.join(format!("{name}{end}"))));
        files.into_iter().find(|file| look.host.is_file(file))
    };
    names.iter().filter_map(find).collect()
}

/// True by the last parts of its path: a parent, the module and its version.
fn is_of_interest(file: &Path) -> bool {
    let last = file
        .components()
        .rev()
        .take(3)
        .filter_map(|component| component.as_os_str().to_str());
    last.into_iter().any(is_name)
}

fn is_name(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    NAMES.iter().any(|name| text.contains(name))
}

/// Returns the directories that one module names.
fn places_of(look: &mut ScanContext<'_>, file: &Path) -> Vec<SearchLocation> {
    let Ok(bytes) = look.host.read_start(file, SIZE_LIMIT) else {
        return Vec::new();
    };
    let text = String::from_utf8_lossy(&bytes);
    let (searched, roots) = named(file, &text);
    let mut places: Vec<SearchLocation> = searched
        .into_iter()
        .map(|directory| SearchLocation::new(directory, Origin::Module))
        .collect();
    for (_, root) in roots {
        let root = Path::new(&root);
        let mut below = toolkit::places_in(look, root);
        below.extend(hpc_sdk::places_in(look, root));
        below.extend(compat::places_in(root));
        for place in &mut below {
            if place.origin == Origin::Toolkit {
                place.origin = Origin::Module;
            }
        }
        places.extend(below);
    }
    places
}

/// Returns the directories that a module adds to a search path, and the variables that name roots of libraries with their
/// values.
pub fn named(file: &Path, text: &str) -> (Vec<String>, Vec<(String, String)>) {
    let is_lua = file.extension().is_some_and(|extension| extension == "lua");
    let Modulefile { added, set, .. } = if is_lua {
        modulefile::lua(text)
    } else {
        modulefile::tcl(text)
    };
    let is_own = |directory: &str| {
        !SYSTEM
            .iter()
            .any(|system| Path::new(directory).starts_with(system))
    };
    let searched = added
        .into_iter()
        .filter(|(variable, directory)| SEARCHED.contains(&variable.as_str()) && is_own(directory));
    let roots = set
        .into_iter()
        .filter(|(variable, root)| is_root(variable) && root.starts_with('/'));
    (
        searched.map(|(_, directory)| directory).collect(),
        roots.collect(),
    )
}

fn is_root(variable: &str) -> bool {
    let is_called_so = variable.starts_with("EBROOT") || variable == "NVHPC";
    is_name(variable) && (is_called_so || ROOTS.iter().any(|end| variable.ends_with(end)))
}

/// Returns the modules of interest below these directories. Enters each directory once, and reads a limited number of
/// entries, so that links cannot make it endless.
fn files_below(host: &Host, tops: Vec<PathBuf>) -> Vec<PathBuf> {
    let (mut files, mut entered, mut entries) = (Vec::new(), HashSet::new(), 0);
    // Each with its depth, and true if a part of its path is the name of such a module.
    let mut pending: Vec<_> = tops.into_iter().rev().map(|top| (top, false, 0)).collect();
    while let Some((directory, is_named, depth)) = pending.pop() {
        let Ok(stat) = host.stat(&directory) else {
            continue;
        };
        if !stat.is_directory() || !entered.insert(stat.id) {
            continue;
        }
        for entry in host.list(&directory).unwrap_or_default() {
            entries += 1;
            if entries > ENTRIES {
                return files;
            }
            let Some(name) = entry.name.to_str().filter(|name| !name.starts_with('.')) else {
                continue;
            };
            let path = directory.join(name);
            let is_named = is_named || is_name(name);
            let is_directory = match entry.kind {
                Kind::Directory => true,
                Kind::Link => host.is_directory(&path),
                Kind::File | Kind::Other => false,
            };
            if is_directory && depth < DEPTH {
                pending.push((path, is_named, depth + 1));
            } else if !is_directory && is_named && entry.kind != Kind::Other {
                files.push(path);
            }
        }
    }
    files
}
