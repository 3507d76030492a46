//! What search paths are made of: elements with their tokens put in, directories with the sub-directories that
//! are there. Each is looked at once.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

use super::object::Object;
use super::overlay::Place;
use super::search::Searcher;

/// Each directory with the element that stands for it.
pub(super) type SearchPath = Rc<[(Rc<Directory>, OsString)]>;

/// Whose elements a search path is made of, beside the path of that object.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Rpath,
    LibraryPath,
    Runpath,
    Default,
}

/// A directory of a search path.
pub(super) struct Directory {
    pub(super) path: PathBuf,
    /// Its sub-directories for this processor as far as they are there, then itself.
    pub(super) within: Vec<PathBuf>,
    /// Whether what goes wrong in it counts: it is there, or could be.
    pub(super) counts: bool,
}

impl Searcher<'_> {
    /// A search path of `object`: its own, or that of a program in this environment.
    pub(super) fn path(&self, kind: Kind, object: Option<&Object>) -> SearchPath {
        let has_none = match kind {
            Kind::Rpath => object.is_none_or(|object| object.rpath.is_none() || object.runpath.is_some()),
            Kind::Runpath => object.is_none_or(|object| object.runpath.is_none()),
            Kind::LibraryPath => self.setting.library_path.is_empty(),
            Kind::Default => false,
        };
        if has_none {
            return self.setting.known.nothing.clone();
        }
        let key = (kind, object.map(|object| object.path.clone().into_os_string()).unwrap_or_default());
        if let Some(known) = self.setting.known.paths.borrow().get(&key) {
            return known.clone();
        }
        let mut path: Vec<(Rc<Directory>, OsString)> = Vec::new();
        for element in self.elements(kind, object) {
            let Some(directory) = self.directory(&element, object) else { continue };
            if !path.iter().any(|(known, _)| Rc::ptr_eq(known, &directory)) {
                path.push((directory, element));
            }
        }
        let path: SearchPath = path.into();
        self.setting.known.paths.borrow_mut().insert(key, path.clone());
        path
    }

    fn elements(&self, kind: Kind, object: Option<&Object>) -> Vec<OsString> {
        let list = match kind {
            Kind::LibraryPath => return self.setting.library_path.clone(),
            Kind::Default => return self.setting.rules.defaults.iter().map(OsString::from).collect(),
            Kind::Rpath => object.and_then(|object| object.rpath.as_ref()),
            Kind::Runpath => object.and_then(|object| object.runpath.as_ref()),
        };
        // A list that is empty as a whole has no element.
        let list = list.filter(|list| !list.is_empty()).map(|list| list.split(|byte| *byte == b':'));
        list.into_iter().flatten().map(|element| OsString::from_vec(element.to_vec())).collect()
    }

    /// What an element of a search path stands for; an empty one is the current directory, as is a relative
    /// one's start.
    fn directory(&self, element: &OsStr, object: Option<&Object>) -> Option<Rc<Directory>> {
        let expanded = match object {
            Some(object) if !element.is_empty() => self.expand(element.as_bytes(), object)?.into_os_string(),
            _ => element.to_owned(),
        };
        if expanded.is_empty() && !element.is_empty() {
            return None;
        }
        if let Some(known) = self.setting.known.directories.borrow().get(&expanded) {
            return Some(known.clone());
        }
        let directory = Rc::new(self.look_at(Path::new(&expanded)));
        self.setting.known.directories.borrow_mut().insert(expanded, directory.clone());
        Some(directory)
    }

    fn look_at(&self, directory: &Path) -> Directory {
        // Without the slashes at its end, which would make a directory of what is none.
        let path: PathBuf = self.absolute(directory).components().collect();
        let is_there = self.is_directory(&path);
        // The loader does not ask whether a relative one is there.
        let counts = is_there || directory.is_relative();
        let mut within = Vec::new();
        if is_there {
            let subdirectories = self.setting.rules.subdirectories.iter().map(|below| path.join(below));
            within.extend(subdirectories.filter(|below| self.is_directory(below)));
        }
        within.extend(counts.then(|| path.clone()));
        Directory { path, within, counts }
    }

    fn is_directory(&self, path: &Path) -> bool {
        let host = self.machine.host;
        match self.setting.overlay.as_ref().map(|overlay| overlay.place(path)) {
            None => host.is_directory(path),
            Some(Place::Outside(real)) => host.is_directory(&real),
            Some(Place::Itself) => true,
            Some(Place::Name(_) | Place::Nowhere) => false,
        }
    }

    /// A text with its tokens put in, for this object; none where the loader leaves it out.
    pub(super) fn expand(&self, text: &[u8], object: &Object) -> Option<PathBuf> {
        let expanded = self.setting.rules.tokens.expand(text, object.path.parent())?;
        (!self.setting.is_secure || self.is_trusted(text, &expanded, object)).then_some(expanded)
    }

    /// With more rights, `$ORIGIN` counts only as the start of a path, and for a program only where that leads
    /// into the default directories.
    fn is_trusted(&self, text: &[u8], expanded: &Path, object: &Object) -> bool {
        if memchr::memmem::find(text, b"ORIGIN").is_none() || !text.contains(&b'$') {
            return true;
        }
        let after = text.strip_prefix(b"$ORIGIN").or_else(|| text.strip_prefix(b"${ORIGIN}"));
        let is_start = after.is_some_and(|after| matches!(after, [] | [b'/', ..]) && !after.contains(&b'$'));
        let mut plain = PathBuf::new();
        for component in expanded.components() {
            match component {
                Component::ParentDir => _ = plain.pop(),
                other => plain.push(other),
            }
        }
        let defaults = &self.setting.rules.defaults;
        is_start && (!object.is_program || defaults.iter().any(|default| plain.starts_with(default)))
    }
}
