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
pub(super) fn loaded(look: &mut ScanContext<'_>) -> Vec<SearchLocation> {
    let mut places = Vec::new();
    for file in list(look, "_LMFILES_") {
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
    let mut known = HashSet::new();
    tops.retain(|top| known.insert(top.clone()));
    look.watched.extend(tops.iter().cloned());
    let is_hidden = |name: &OsStr| name.as_bytes().starts_with(b".");
    let is_wanted = |top: &Path, file: &Path| {
        let below = file.strip_prefix(top).unwrap_or(file);
        let is_file_hidden = below.file_name().is_some_and(is_hidden);
        !is_file_hidden && below.iter().filter_map(OsStr::to_str).any(is_name)
    };
    let mut places = Vec::new();
    for top in tops {
        for file in look.host.walk(&top, &is_hidden).iter().take(ENTRIES) {
            if is_wanted(&top, file) {
                look.watched.extend(file.parent().map(Path::to_owned));
                places.extend(places_of(look, file));
            }
        }
    }
    places
}

/// The absolute paths in a variable with a list of paths.
fn list(look: &ScanContext<'_>, variable: &str) -> Vec<PathBuf> {
    let value = look.host.env.non_empty(variable).unwrap_or_default();
    std::env::split_paths(value)
        .filter(|path| path.is_absolute())
        .collect()
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
        let kinds = [Holds::ToolkitRoot, Holds::HpcSdkRoot, Holds::CompatRoot];
        let mut below: Vec<SearchLocation> = kinds
            .into_iter()
            .flat_map(|kind| places::below(look, root, kind))
            .collect();
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
