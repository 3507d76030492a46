//! CUDA toolkits: `/usr/local/cuda*`, `/opt`, Debian's, and the directories in variables such as `CUDA_HOME`; and the
//! versions in a toolkit's manifest.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::location::{self, Packaged, ScanContext, SearchLocation};
use super::model::Origin;
use super::parts;
use super::warning::ReadFault;
use crate::catalog::Family;
use crate::formats::{elf, manifest};

const PARENTS: &[&str] = &["/usr/local", "/opt", "/opt/nvidia"];
/// Debian's toolkits, for programs that expect one directory.
const DEBIAN: (&str, [&str; 2]) = ("/usr/lib", ["cuda", "nvidia-cuda-toolkit"]);
const VARIABLES: &[&str] = &[
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_ROOT",
    "CUDA_TOOLKIT_ROOT_DIR",
    "CUDAToolkit_ROOT",
];
/// Variables with the directory of unpacked libraries, or with its parent.
const LIBRARY_VARIABLES: &[&str] = &[
    "CUDNN_HOME",
    "CUDNN_PATH",
    "CUDNN_ROOT",
    "CUDNN_ROOT_DIR",
    "CUTENSOR_ROOT",
    "NCCL_HOME",
    "NCCL_ROOT",
    "NCCL_ROOT_DIR",
];
/// Shared directories: a user without a toolkit may name one of them.
const SHARED: [&str; 4] = ["/", "/opt", "/usr", "/usr/local"];
/// A manifest has a few thousand bytes.
const MANIFEST_LIMIT: u64 = 1 << 20;

pub(super) fn places(look: &mut ScanContext<'_>) -> Vec<SearchLocation> {
    let mut places = Vec::new();
    for (root, is_named) in roots(look) {
        let mut below = places_in(look, &root);
        // Debian's toolkit has links to the directory of all libraries.
        if root.starts_with(DEBIAN.0) {
            let is_own = |real: PathBuf| real.starts_with(&root);
            below.retain(|place| look.host.canonical(&place.directory).is_ok_and(is_own));
        }
        places.extend(if is_named {
            location::named(below)
        } else {
            below
        });
    }
    let unpacked = named(look, LIBRARY_VARIABLES).into_iter();
    places.extend(unpacked.map(|directory| SearchLocation {
        is_named: true,
        ..SearchLocation::new(directory, Origin::Loose)
    }));
    places
}

/// Returns the directories of toolkits, links resolved, each with true if a variable names it.
pub(super) fn roots(look: &mut ScanContext<'_>) -> BTreeMap<PathBuf, bool> {
    let host = look.host;
    let mut roots: Vec<PathBuf> = Vec::new();
    for parent in PARENTS.iter().map(Path::new) {
        let is_toolkit = |name: &String| name == "cuda" || name.starts_with("cuda-");
        roots.extend(
            look.children(parent)
                .into_iter()
                .filter(is_toolkit)
                .map(|name| parent.join(name)),
        );
    }
    let (parent, names) = DEBIAN;
    look.watch(parent);
    let debian = names.map(|name| Path::new(parent).join(name));
    roots.extend(debian.into_iter().filter(|root| host.is_directory(root)));
    let named = [named(look, VARIABLES), named(look, LIBRARY_VARIABLES)].concat();
    roots.extend(named.iter().cloned());
    // Unresolved as well: a link may change, and a missing directory may appear.
    look.watched.extend(roots.iter().cloned());
    let (roots, named) = (look.real(roots), look.real(named));
    look.watched.extend(roots.iter().cloned());
    roots
        .into_iter()
        .map(|root| (root.clone(), named.contains(&root)))
        .collect()
}

fn named(look: &ScanContext<'_>, variables: &[&str]) -> Vec<PathBuf> {
    variables
        .iter()
        .filter_map(|variable| look.named(variable))
        .collect()
}

/// The directories of one toolkit.
pub(super) fn places_in(look: &mut ScanContext<'_>, root: &Path) -> Vec<SearchLocation> {
    if SHARED.iter().any(|shared| root == Path::new(shared)) {
        return Vec::new();
    }
    let targets: &[&str] = match look.scope.machine {
        elf::AARCH64 => &["targets/sbsa-linux/lib", "targets/aarch64-linux/lib"],
        _ => &["targets/x86_64-linux/lib"],
    };
    let libraries = ["lib64", "lib"]
        .iter()
        .chain(targets)
        .copied()
        .chain(["extras/CUPTI/lib64", "nvvm/lib64"]);
    let manifest = manifest(look, root);
    let mut places = Vec::new();
    for below in libraries {
        let directory = root.join(below);
        places.push(SearchLocation::new(directory.join("stubs"), Origin::Stub));
        places.push(match &manifest {
            Some(manifest) => parts::place(look, directory, Origin::Toolkit, &|family| {
                said(manifest, family)
            }),
            None => SearchLocation::new(directory, Origin::Toolkit),
        });
    }
    places
}

fn manifest(look: &mut ScanContext<'_>, root: &Path) -> Option<manifest::Manifest> {
    let path = root.join("version.json");
    look.watch(&path);
    let bytes = look.host.read_start(&path, MANIFEST_LIMIT).ok()?;
    match manifest::manifest(&bytes) {
        Ok(manifest) => manifest,
        Err(error) => {
            look.warn(path, ReadFault::bad_json(&error));
            None
        }
    }
}

/// Returns the manifest's record for the files of a family; none for a library that was added, such as cuDNN.
fn said(manifest: &manifest::Manifest, family: &Family) -> Option<Packaged> {
    let (_, version) = manifest
        .parts
        .iter()
        .find(|(name, _)| parts::family(name).is_some_and(|part| part.name == family.name))?;
    let package = format!("cuda-toolkit {}", manifest.toolkit);
    Some(Packaged {
        package,
        version: Some(*version),
        size: None,
    })
}
