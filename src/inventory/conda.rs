//! Environments of conda: what stands in their `lib`, and which package brought it.

use std::path::{Path, PathBuf};

use super::Origin;
use super::place::{Look, Place};

/// The environment that is in effect.
pub(super) fn active(look: &mut Look<'_>) -> Vec<Place> {
    let Some(root) = look.host.env.non_empty("CONDA_PREFIX").map(PathBuf::from) else { return Vec::new() };
    environment(look, &root)
}

/// What stands in one environment; nothing where there is none.
pub(super) fn environment(look: &mut Look<'_>, root: &Path) -> Vec<Place> {
    let records = root.join("conda-meta");
    if !look.host.is_directory(&records) {
        return Vec::new();
    }
    look.watch(&records);
    vec![Place::new(root.join("lib"), Origin::Conda), Place::new(root.join("lib/stubs"), Origin::Stub)]
}
