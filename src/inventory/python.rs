//! Environments of Python other than the target's: those in effect, and, where the whole machine is looked at, those
//! of projects and tools.

use std::path::{Path, PathBuf};

use super::place::{Look, Place};
use super::wheel;

/// The environment that is in effect, whatever the target is.
pub(super) fn active(look: &mut Look<'_>) -> Vec<Place> {
    let root = look.host.env.non_empty("VIRTUAL_ENV").map(PathBuf::from);
    in_environments(look, root)
}

/// The site-packages directories below the root of an environment: `lib/python3.12/site-packages`.
pub(super) fn site_packages(look: &mut Look<'_>, root: &Path) -> Vec<PathBuf> {
    let library = root.join("lib");
    let is_python = |name: &String| name.starts_with("python3");
    let pythons = look.children(&library).into_iter().filter(is_python);
    pythons.map(|python| library.join(python).join("site-packages")).collect()
}

fn in_environments(look: &mut Look<'_>, roots: impl IntoIterator<Item = PathBuf>) -> Vec<Place> {
    let mut places = Vec::new();
    for root in roots {
        for site in site_packages(look, &root) {
            places.extend(wheel::in_site_packages(look, &site));
        }
    }
    places
}
