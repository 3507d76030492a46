//! Libraries of newer drivers for older kernels: the `compat` directories of toolkits and packages. Whether one may
//! stand in for the kernel's own is said by its ELF note.

use std::path::{Path, PathBuf};

use super::location::{self, ScanContext, SearchLocation};
use super::model::Origin;
use super::toolkit;

/// Below a toolkit: `compat` itself, `compat/lib` in containers, `compat_orin` on Tegra.
const BELOW: [&str; 3] = ["compat", "compat/lib", "compat_orin"];

pub(super) fn places(look: &mut ScanContext<'_>) -> Vec<SearchLocation> {
    let below = |(root, is_named): (PathBuf, bool)| {
        let places = places_in(&root).into();
        if is_named { location::named(places) } else { places }
    };
    toolkit::roots(look).into_iter().flat_map(below).collect()
}

/// What stands below one toolkit.
pub(super) fn places_in(root: &Path) -> [SearchLocation; 3] {
    BELOW.map(|below| SearchLocation::new(root.join(below), Origin::Compat))
}
