//! CUDA toolkits: `/usr/local/cuda*`, `/opt`, and where `CUDA_HOME` and `CUDA_PATH` lead.

use std::path::{Path, PathBuf};

use super::{Notes, Origin, Place, Scope};
use crate::formats::elf;
use crate::host::Host;

const PARENTS: &[&str] = &["/usr/local", "/opt", "/opt/nvidia"];
const VARIABLES: &[&str] = &["CUDA_HOME", "CUDA_PATH"];

pub(super) fn places(host: &Host, scope: &Scope, notes: &mut Notes) -> Vec<Place> {
    let mut roots: Vec<PathBuf> = Vec::new();
    for parent in PARENTS.iter().map(Path::new) {
        notes.watched.insert(parent.to_owned());
        let entries = host.list(parent).unwrap_or_default();
        let is_toolkit = |name: &str| name == "cuda" || name.starts_with("cuda-");
        roots.extend(
            entries
                .iter()
                .filter(|entry| entry.name.to_str().is_some_and(is_toolkit))
                .map(|entry| parent.join(&entry.name)),
        );
    }
    roots.extend(VARIABLES.iter().filter_map(|name| host.env.non_empty(name)).map(PathBuf::from));
    // As they are named, too: a link may lead elsewhere, and what is missing may come.
    notes.watched.extend(roots.iter().map(|root| host.absolute(root)));
    let mut roots: Vec<PathBuf> = roots.iter().filter_map(|root| host.canonical(root).ok()).collect();
    roots.sort();
    roots.dedup();
    notes.watched.extend(roots.iter().cloned());
    roots.iter().flat_map(|root| places_in(root, scope.machine)).collect()
}

fn places_in(root: &Path, machine: u16) -> Vec<Place> {
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
    places.push(Place::new(root.join("compat"), Origin::Compat));
    places
}
