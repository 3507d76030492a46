//! NVIDIA's HPC SDK: several toolkits side by side, with mathematical and communication libraries beside them.

use std::path::{Path, PathBuf};

use super::location::{self, ScanContext, SearchLocation};
use super::model::Origin;
use super::{compat, toolkit};
use crate::formats::elf;

const HOME: &str = "/opt/nvidia/hpc_sdk";
/// One version of it.
const ROOT: &str = "NVHPC_ROOT";
/// The directory of all versions, as `HOME`; some sites set it to one version.
const BASE: &str = "NVHPC";

pub(super) fn places(look: &mut ScanContext<'_>) -> Vec<SearchLocation> {
    let platform = match look.scope.machine {
        elf::AARCH64 => "Linux_aarch64",
        _ => "Linux_x86_64",
    };
    let base = look.named(BASE);
    let mut named: Vec<PathBuf> = base.iter().cloned().chain(look.named(ROOT)).collect();
    look.watched.extend(named.iter().cloned());
    let versions = |look: &mut ScanContext<'_>, base: &Path| -> Vec<PathBuf> {
        let versions = base.join(platform);
        look.children_if_there(&versions)
            .into_iter()
            .map(|version| versions.join(version))
            .collect()
    };
    named.extend(base.iter().flat_map(|base| versions(look, base)));
    let roots = [named.clone(), versions(look, Path::new(HOME))].concat();
    let (named, roots) = (look.real(named), look.real(roots));
    look.watched.extend(roots.iter().cloned());
    let mut places = Vec::new();
    for root in &roots {
        let below = places_in(look, root);
        places.extend(if named.contains(root) {
            location::named(below)
        } else {
            below
        });
    }
    places
}

/// The directories of one version.
pub(super) fn places_in(look: &mut ScanContext<'_>, root: &Path) -> Vec<SearchLocation> {
    let mut places = Vec::new();
    for part in ["cuda", "math_libs", "comm_libs"] {
        let part = root.join(part);
        // One for each CUDA version, and links to the newest.
        for root in numbered(look, &part).into_iter().chain([part.clone()]) {
            if part.ends_with("comm_libs") {
                for library in ["nccl", "nvshmem"] {
                    places.push(SearchLocation::new(
                        root.join(library).join("lib"),
                        Origin::Toolkit,
                    ));
                }
                continue;
            }
            places.extend(toolkit::places_in(look, &root));
            if part.ends_with("cuda") {
                places.extend(compat::places_in(&root));
            }
        }
    }
    places.push(SearchLocation::new(
        root.join("compilers/lib"),
        Origin::Bundled,
    ));
    places
}

fn numbered(look: &mut ScanContext<'_>, directory: &Path) -> Vec<PathBuf> {
    let names = look.children_if_there(directory).into_iter();
    names
        .filter(|name| name.starts_with(|c: char| c.is_ascii_digit()))
        .map(|name| directory.join(name))
        .collect()
}
