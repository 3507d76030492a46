//! Wheels that `cudarun fetch` has brought: each directory of a store is laid out like site-packages.

use super::location::{ScanContext, SearchLocation};
use super::model::Origin;
use super::wheel;

/// It is written last, so an entry that has it is whole.
pub const ABOUT: &str = "meta.toml";

pub(super) fn places(look: &mut ScanContext<'_>) -> Vec<SearchLocation> {
    let mut places = Vec::new();
    for store in &look.scope.stores {
        for name in look
            .children(store)
            .into_iter()
            .filter(|name| !name.starts_with('.'))
        {
            let entry = store.join(name);
            if look.host.is_file(&entry.join(ABOUT)) {
                places.extend(wheel::in_site_packages(look, &entry));
            }
        }
    }
    for place in &mut places {
        place.origin = Origin::Fetched;
    }
    places
}
