//! A view that is planned: what its names would be to the loader, before anything is on the disk.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

/// A view that is planned and perhaps not there yet: names in `directory` are links or empty files, whatever
/// the disk says.
#[derive(Clone, Debug, Default)]
pub struct Overlay {
    pub directory: PathBuf,
    pub links: BTreeMap<String, PathBuf>,
    pub empty: BTreeSet<String>,
    /// An audit module answers each look-up whose base name is one of these with `directory/name`.
    pub answers: bool,
}

/// Where a path leads, as far as an overlay has a part in it.
pub(super) enum Place<'p> {
    /// The same place without a way through the overlay, whose directory may not be there yet.
    Outside(Cow<'p, Path>),
    Itself,
    Name(&'p str),
    Nowhere,
}

impl Overlay {
    pub(super) fn place<'p>(&self, path: &'p Path) -> Place<'p> {
        let Ok(below) = path.strip_prefix(&self.directory) else {
            return Place::Outside(Cow::Borrowed(path));
        };
        let mut components = below.components();
        match (components.next(), components.as_path()) {
            (None, _) => Place::Itself,
            (Some(Component::ParentDir), rest) => {
                let real = self.directory.parent().unwrap_or(Path::new("/")).join(rest);
                match self.place(&real) {
                    Place::Outside(real) => Place::Outside(Cow::Owned(real.into_owned())),
                    Place::Itself => Place::Itself,
                    Place::Name(_) => {
                        path.file_name().and_then(OsStr::to_str).map_or(Place::Nowhere, Place::Name)
                    }
                    Place::Nowhere => Place::Nowhere,
                }
            }
            (Some(Component::Normal(name)), rest) if rest.as_os_str().is_empty() => {
                name.to_str().map_or(Place::Nowhere, Place::Name)
            }
            _ => Place::Nowhere,
        }
    }

    /// What the audit module answers when this name is looked up.
    pub(super) fn answer(&self, name: &str) -> Option<PathBuf> {
        let base = name.rsplit('/').next()?;
        let is_known = self.links.contains_key(base) || self.empty.contains(base);
        (self.answers && is_known).then(|| self.directory.join(base))
    }
}
