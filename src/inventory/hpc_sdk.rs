//! NVIDIA's HPC SDK: several toolkits side by side, with mathematical and communication libraries beside them.

use std::path::{Path, PathBuf};

use super::place::{Look, Place};
use super::{Origin, compat, toolkit};
use crate::formats::elf;

const HOME: &str = "/opt/nvidia/hpc_sdk";
/// One version of it.
const ROOT: &str = "NVHPC_ROOT";
/// Where all of them stand, as `HOME`; some sites have it lead to one.
const BASE: &str = "NVHPC";

pub(super) fn places(look: &mut Look<'_>) -> Vec<Place> {
    let platform = match look.scope.machine {
        elf::AARCH64 => "Linux_aarch64",
        _ => "Linux_x86_64",
    };
    let mut roots = Vec::new();
    let named = look.named(BASE);
    for base in named.iter().map(PathBuf::as_path).chain([Path::new(HOME)]) {
        let versions = base.join(platform);
        roots.extend(look.children_if_there(&versions).into_iter().map(|version| versions.join(version)));
    }
    for root in named.into_iter().chain(look.named(ROOT)) {
        look.watch(&root);
        roots.push(root);
    }
    let roots = look.real(roots);
    look.watched.extend(roots.iter().cloned());
    roots.iter().flat_map(|root| places_in(look, root)).collect()
}

/// What stands below one version.
pub(super) fn places_in(look: &mut Look<'_>, root: &Path) -> Vec<Place> {
    let mut places = Vec::new();
    for part in ["cuda", "math_libs", "comm_libs"] {
        let part = root.join(part);
        // For each CUDA version, and what is linked for the newest of them.
        for root in numbered(look, &part).into_iter().chain([part.clone()]) {
            if part.ends_with("comm_libs") {
                for library in ["nccl", "nvshmem"] {
                    places.push(Place::new(root.join(library).join("lib"), Origin::Toolkit));
                }
                continue;
            }
            places.extend(toolkit::places_in(look, &root));
            if part.ends_with("cuda") {
                places.extend(compat::places_in(&root));
            }
        }
    }
    places.push(Place::new(root.join("compilers/lib"), Origin::Bundled));
    places
}

/// The children that are called by a number.
fn numbered(look: &mut Look<'_>, directory: &Path) -> Vec<PathBuf> {
    let names = look.children_if_there(directory).into_iter();
    names
        .filter(|name| name.starts_with(|c: char| c.is_ascii_digit()))
        .map(|name| directory.join(name))
        .collect()
}
