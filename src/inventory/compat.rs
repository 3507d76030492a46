//! Libraries of newer drivers for older kernels: the `compat` directories of toolkits and packages. Whether one may
//! stand in for the kernel's own is said by its ELF note.

use super::place::{Look, Place};
use super::{Origin, toolkit};

/// Below a toolkit: `compat` itself, `compat/lib` in containers, `compat_orin` on Tegra.
const BELOW: [&str; 3] = ["compat", "compat/lib", "compat_orin"];

pub(super) fn places(look: &mut Look<'_>) -> Vec<Place> {
    let roots = toolkit::roots(look);
    let below = |root: &std::path::PathBuf| BELOW.map(|below| Place::new(root.join(below), Origin::Compat));
    roots.iter().flat_map(below).collect()
}
