//! The stores of Nix and Guix, read by the names of their packages.

use std::path::Path;

use super::location::{ScanContext, SearchLocation};
use super::model::Origin;
use super::parts;
use crate::formats::store;

const STORES: [&str; 2] = ["/nix/store", "/gnu/store"];
/// Prefixes of the names of packages with several families.
const TOOLKITS: [&str; 3] = ["cuda", "cudnn", "tensorrt"];

pub(super) fn places(look: &mut ScanContext<'_>) -> Vec<SearchLocation> {
    let mut places = Vec::new();
    for top in STORES.iter().map(Path::new) {
        for entry in look.children(top) {
            let Some((name, version)) = store::package(&entry) else {
                continue;
            };
            if parts::family(name).is_none()
                && !TOOLKITS.iter().any(|toolkit| name.starts_with(toolkit))
            {
                continue;
            }
            let package = format!("{name} {version}").trim_end().to_owned();
            let says = parts::says(package, name, version);
            for library in ["lib", "lib64"] {
                let directory = top.join(&entry).join(library);
                // Many packages have no libraries.
                if !look.host.is_directory(&directory) {
                    continue;
                }
                places.push(SearchLocation::new(directory.join("stubs"), Origin::Stub));
                places.push(parts::place(look, directory, Origin::Store, &says));
            }
        }
    }
    places
}
