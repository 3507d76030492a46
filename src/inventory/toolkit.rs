//! CUDA toolkits: `/usr/local/cuda*`, `/opt`, and where `CUDA_HOME` and `CUDA_PATH` lead.

use std::path::{Path, PathBuf};

use super::Origin;
use super::place::{Look, Place};
use crate::formats::elf;

const PARENTS: &[&str] = &["/usr/local", "/opt", "/opt/nvidia"];
const VARIABLES: &[&str] = &["CUDA_HOME", "CUDA_PATH"];

pub(super) fn places(look: &mut Look<'_>) -> Vec<Place> {
    let machine = look.scope.machine;
    roots(look).iter().flat_map(|root| places_in(root, machine)).collect()
}

/// The directories in which toolkits stand, links resolved.
pub(super) fn roots(look: &mut Look<'_>) -> Vec<PathBuf> {
    let host = look.host;
    let mut roots: Vec<PathBuf> = Vec::new();
    for parent in PARENTS.iter().map(Path::new) {
        let is_toolkit = |name: &String| name == "cuda" || name.starts_with("cuda-");
        roots.extend(look.children(parent).into_iter().filter(is_toolkit).map(|name| parent.join(name)));
    }
    roots.extend(VARIABLES.iter().filter_map(|name| host.env.non_empty(name)).map(PathBuf::from));
    // As they are named, too: a link may lead elsewhere, and what is missing may come.
    look.watched.extend(roots.iter().map(|root| host.absolute(root)));
    let mut roots: Vec<PathBuf> = roots.iter().filter_map(|root| host.canonical(root).ok()).collect();
    roots.sort();
    roots.dedup();
    look.watched.extend(roots.iter().cloned());
    roots
}

/// What stands below one toolkit.
pub(super) fn places_in(root: &Path, machine: u16) -> Vec<Place> {
    let targets: &[&str] = match machine {
        elf::AARCH64 => &["targets/sbsa-linux/lib", "targets/aarch64-linux/lib"],
        _ => &["targets/x86_64-linux/lib"],
    };
    let libraries =
        ["lib64", "lib"].iter().chain(targets).copied().chain(["extras/CUPTI/lib64", "nvvm/lib64"]);
    let mut places = Vec::new();
    for below in libraries {
        places.push(Place::new(root.join(below), Origin::Toolkit));
        places.push(Place::new(root.join(below).join("stubs"), Origin::Stub));
    }
    places
}
