//! Libraries of newer drivers for older kernels: the `compat` directories of toolkits and packages. The ELF note of one
//! tells which kernel drivers it supports.

use std::path::Path;

use super::location::{ScanContext, SearchLocation};
use super::model::Origin;
use super::toolkit;

/// Below a toolkit: `compat` itself, `compat/lib` in containers, `compat_orin` on Tegra.
const BELOW: [&str; 3] = ["compat", "compat/lib", "compat_orin"];

pub(super) fn places(look: &mut ScanContext<'_>) -> Vec<SearchLocation> {
    let mut places = Vec::new();
    for (root, is_named) in toolkit::roots(look) {
        places.extend(places_in(&root).map(|place| SearchLocation { is_named, ..place }));
    }
    places
}

/// The directories of one toolkit.
pub(super) fn places_in(root: &Path) -> [SearchLocation; 3] {
    BELOW.map(|below| SearchLocation::new(root.join(below), Origin::Compat))
}
