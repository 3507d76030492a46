//! A view that is planned: its names as the loader would see them, before they are on the disk.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

/// A view that may not exist yet. Names in `directory` are links or empty files, regardless of the disk.
#[derive(Clone, Debug, Default)]
pub struct Overlay {
    pub directory: PathBuf,
    pub links: BTreeMap<String, PathBuf>,
    pub empty: BTreeSet<String>,
    /// An audit module answers each look-up whose base name is one of these with `directory/name`.
    pub answers: bool,
}

/// The target of a path, seen from an overlay.
pub(super) enum Position<'p> {
    /// An equal path that does not pass through the overlay, whose directory may not exist yet.
    Outside(Cow<'p, Path>),
    Itself,
    Name(&'p str),
    Nowhere,
}

impl Position<'_> {
    fn of_name(name: Option<&OsStr>) -> Position<'_> {
        match name.and_then(OsStr::to_str) {
            Some(name) => Position::Name(name),
            None => Position::Nowhere,
        }
    }
}

impl Overlay {
    pub(super) fn position<'p>(&self, path: &'p Path) -> Position<'p> {
        let Ok(relative) = path.strip_prefix(&self.directory) else {
            return Position::Outside(Cow::Borrowed(path));
        };
        let mut components = relative.components();
        match (components.next(), components.as_path()) {
            (None, _) => Position::Itself,
            (Some(Component::ParentDir), rest) => {
                let real = self.directory.parent().unwrap_or(Path::new("/")).join(rest);
                match self.position(&real) {
                    Position::Outside(real) => Position::Outside(Cow::Owned(real.into_owned())),
                    Position::Itself => Position::Itself,
                    Position::Name(_) => Position::of_name(path.file_name()),
                    Position::Nowhere => Position::Nowhere,
                }
            }
            (Some(Component::Normal(name)), rest) if rest.as_os_str().is_empty() => {
                Position::of_name(Some(name))
            }
            _ => Position::Nowhere,
        }
    }

    /// The audit module's answer to a look-up of this name.
    pub(super) fn answer(&self, name: &str) -> Option<PathBuf> {
        let base = name.rsplit('/').next()?;
        let is_known = self.links.contains_key(base) || self.empty.contains(base);
        (self.answers && is_known).then(|| self.directory.join(base))
    }
}
