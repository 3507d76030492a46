//! The files by which other programs start theirs through cudarun: a kernel of Jupyter's, a drop-in of systemd's. Each file
//! says that it is cudarun's and how many directories were made for it; no other file is replaced or removed.

pub mod jupyter;
pub mod systemd;
pub mod unit;

use std::path::{Path, PathBuf};

use crate::host::Host;

/// cudarun is in a cache, which a tool or a person clears.
#[derive(Debug)]
pub struct InCache {
    pub own: PathBuf,
}

/// Refuses a cudarun in a cache, where `uvx` and `pipx run` put theirs: what starts with it would not start once that is cleared.
pub fn must_not_be_in_cache(host: &Host, own: &Path) -> Result<(), InCache> {
    let uv = host.env.non_empty("UV_CACHE_DIR").map(Path::new);
    let caches = host.user_cache().into_iter();
    let mut caches = caches.chain(uv.map(|cache| host.absolute(cache)));
    let is_in = |cache: PathBuf| own.starts_with(host.canonical(&cache).unwrap_or(cache));
    // Another user's cache has this name, too.
    if caches.any(is_in) || own.iter().any(|name| name == ".cache") {
        return Err(InCache {
            own: own.to_owned(),
        });
    }
    Ok(())
}
