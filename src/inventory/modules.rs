//! Environment modules, in Tcl and in Lua: the directories of loaded modules and, if the whole machine is scanned, of
//! available ones. No module is executed.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::installation::Origin;
use super::location::{self, ScanContext, SearchLocation};
use super::places;
use crate::catalog::Holds;
use crate::formats::modulefile::{self, Modulefile};
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
const MODULE_DIRECTORIES: [&str; 3] = [
    "/etc/modulefiles",
    "/usr/share/modulefiles",
    "/usr/share/modules/modulefiles",
];
/// In bytes. A module has a few thousand.
const SIZE_LIMIT: u64 = 256 << 10;
/// More than the largest sites have.
const ENTRIES: usize = 50_000;

/// Loaded modules. Their directories are in `LD_LIBRARY_PATH` too; this source gives them their origin.
pub(super) fn loaded(scan: &mut ScanContext<'_>) -> Vec<SearchLocation> {
    let mut locations = Vec::new();
    for file in scan.named_list("_LMFILES_") {
        if is_of_interest(&file) {
            scan.watch(&file);
            locations.extend(locations_of(scan, &file));
        }
    }
    location::named(locations)
}

/// Available modules.
pub(super) fn available(scan: &mut ScanContext<'_>) -> Vec<SearchLocation> {
    let mut roots = scan.named_list("MODULEPATH");
    roots.extend(MODULE_DIRECTORIES.iter().map(PathBuf::from));
    let mut seen = HashSet::new();
    roots.retain(|root| seen.insert(root.clone()));
    scan.watched.extend(roots.iter().cloned());
    let mut locations = Vec::new();
    for root in roots {
        for file in scan.host.walk(&root, &is_hidden).iter().take(ENTRIES) {
            let path = file.strip_prefix(&root).unwrap_or(file);
            if !path.file_name().is_some_and(is_hidden)
                && path.iter().filter_map(OsStr::to_str).any(is_name)
            {
                scan.watched.extend(file.parent().map(Path::to_owned));
                locations.extend(locations_of(scan, file));
            }
        }
    }
    locations
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b".")
}

/// True by the last parts of its path: a parent, the module and its version.
fn is_of_interest(file: &Path) -> bool {
    let last = file.components().rev().take(3);
    last.filter_map(|component| component.as_os_str().to_str())
        .any(is_name)
}

fn is_name(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    NAMES.iter().any(|name| text.contains(name))
}

/// The directories that one module names.
fn locations_of(scan: &mut ScanContext<'_>, file: &Path) -> Vec<SearchLocation> {
    let Ok(bytes) = scan.host.read_start(file, SIZE_LIMIT) else {
        return Vec::new();
    };
    let text = String::from_utf8_lossy(&bytes);
    let (searched, roots) = named(file, &text);
    let mut locations = Vec::new();
    for directory in searched {
        locations.push(SearchLocation::new(directory, Origin::Module));
    }
    for (_, root) in roots {
        for holds in [Holds::ToolkitRoot, Holds::HpcSdkRoot, Holds::CompatRoot] {
            for mut location in places::below(scan, Path::new(&root), holds) {
                if location.origin == Origin::Toolkit {
                    location.origin = Origin::Module;
                }
                locations.push(location);
            }
        }
    }
    locations
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
    let mut searched = Vec::new();
    for (variable, directory) in added {
        let mut system = SYSTEM.iter();
        if SEARCHED.contains(&variable.as_str())
            && !system.any(|system| Path::new(&directory).starts_with(system))
        {
            searched.push(directory);
        }
    }
    let mut roots = set;
    roots.retain(|(variable, root)| is_root(variable) && root.starts_with('/'));
    (searched, roots)
}

fn is_root(variable: &str) -> bool {
    let is_called_so = variable.starts_with("EBROOT") || variable == "NVHPC";
    is_name(variable) && (is_called_so || ROOTS.iter().any(|end| variable.ends_with(end)))
}
