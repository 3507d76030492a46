//! Search paths: elements with their tokens replaced, and directories with the sub-directories that exist. Each
//! directory is read once.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::object::Object;
use super::overlay::{Overlay, Position};
use super::rules::Rules;
use crate::environment::{Environment, library_path_elements, preload_elements};
use crate::host::Host;
use crate::variables;

/// Each directory with the element that leads to it.
pub(super) type OrderedDirectories = Rc<[(Rc<Directory>, OsString)]>;

/// The source of a search path's elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum PathKind {
    Rpath,
    LibraryPath,
    Runpath,
    Default,
}

/// A directory of a search path.
pub(super) struct Directory {
    pub(super) path: PathBuf,
    /// Its sub-directories for this processor as far as they exist, then itself.
    pub(super) searched: Vec<PathBuf>,
    /// True if an error in it can end the search: it exists, or the loader does not check that.
    pub(super) counts: bool,
}

/// A loader and the environment of its programs.
#[derive(Clone)]
pub(super) struct LoaderEnvironment {
    pub(super) rules: Rules,
    pub(super) library_path: Vec<OsString>,
    pub(super) preload: Vec<OsString>,
    /// The directory that relative paths start from.
    pub(super) directory: PathBuf,
    pub(super) overlay: Option<Overlay>,
}

/// The search paths in one environment.
pub(super) struct SearchPaths<'h> {
    host: &'h Host,
    pub(super) environment: LoaderEnvironment,
    pub(super) directories: RefCell<HashMap<OsString, Rc<Directory>>>,
    paths: RefCell<HashMap<(PathKind, OsString), OrderedDirectories>>,
    nothing: OrderedDirectories,
}

impl LoaderEnvironment {
    pub(super) fn new(
        rules: Rules,
        env: &Environment,
        directory: PathBuf,
        overlay: Option<Overlay>,
    ) -> LoaderEnvironment {
        LoaderEnvironment {
            rules,
            library_path: env
                .get(variables::LIBRARY_PATH)
                .map(library_path_elements)
                .unwrap_or_default(),
            preload: env
                .get(variables::PRELOAD)
                .map(preload_elements)
                .unwrap_or_default(),
            directory,
            overlay,
        }
    }
}

impl<'h> SearchPaths<'h> {
    pub(super) fn new(host: &'h Host, environment: LoaderEnvironment) -> SearchPaths<'h> {
        SearchPaths {
            host,
            environment,
            directories: RefCell::default(),
            paths: RefCell::default(),
            nothing: OrderedDirectories::default(),
        }
    }

    /// A search path of `object`: its own, or that of a program in this environment.
    pub(super) fn path(&self, kind: PathKind, object: Option<&Object>) -> OrderedDirectories {
        let has_none = match kind {
            PathKind::Rpath => {
                object.is_none_or(|object| object.rpath.is_none() || object.runpath.is_some())
            }
            PathKind::Runpath => object.is_none_or(|object| object.runpath.is_none()),
            PathKind::LibraryPath => self.environment.library_path.is_empty(),
            PathKind::Default => false,
        };
        if has_none {
            return self.nothing.clone();
        }
        let object_path = object.map(|object| object.path.clone().into_os_string());
        let key = (kind, object_path.unwrap_or_default());
        if let Some(path) = self.paths.borrow().get(&key) {
            return path.clone();
        }
        let mut path: Vec<(Rc<Directory>, OsString)> = Vec::new();
        for element in self.elements(kind, object) {
            let Some(directory) = self.directory(kind, &element, object) else {
                continue;
            };
            if !path.iter().any(|(other, _)| Rc::ptr_eq(other, &directory)) {
                path.push((directory, element));
            }
        }
        let path: OrderedDirectories = path.into();
        self.paths.borrow_mut().insert(key, path.clone());
        path
    }

    fn elements(&self, kind: PathKind, object: Option<&Object>) -> Vec<OsString> {
        let list = match kind {
            PathKind::LibraryPath => return self.environment.library_path.clone(),
            PathKind::Default => {
                let defaults = &self.environment.rules.defaults;
                return defaults.iter().map(OsString::from).collect();
            }
            PathKind::Rpath => object.and_then(|object| object.rpath.as_ref()),
            PathKind::Runpath => object.and_then(|object| object.runpath.as_ref()),
        };
        match list {
            // An empty list has no element.
            Some(list) if !list.is_empty() => list
                .split(|byte| *byte == b':')
                .map(|element| OsString::from_vec(element.to_vec()))
                .collect(),
            _ => Vec::new(),
        }
    }

    /// The directory of an element. An empty one is the current directory, where relative ones start.
    fn directory(
        &self,
        kind: PathKind,
        element: &OsStr,
        object: Option<&Object>,
    ) -> Option<Rc<Directory>> {
        let expanded = match object {
            Some(object) if !element.is_empty() => {
                self.expand(element.as_bytes(), object)?.into_os_string()
            }
            _ => element.to_owned(),
        };
        if expanded.is_empty() && !element.is_empty() {
            return None;
        }
        if let Some(directory) = self.directories.borrow().get(&expanded) {
            return Some(directory.clone());
        }
        let directory = Rc::new(self.read_directory(Path::new(&expanded), kind));
        self.directories
            .borrow_mut()
            .insert(expanded, directory.clone());
        Some(directory)
    }

    fn read_directory(&self, directory: &Path, kind: PathKind) -> Directory {
        // A file with a slash at its end would not be found. `components` removes the slash.
        let path: PathBuf = self
            .environment
            .directory
            .join(directory)
            .components()
            .collect();
        // Most of the names that are sought in a directory are not there, and a listing shows that for all of them. Other
        // directories may have thousands of files.
        let is_listed = matches!(kind, PathKind::Rpath | PathKind::Runpath)
            && self.can_list(&path)
            && self.host.listing(&path).is_some();
        let exists = is_listed || self.is_directory(&path);
        // The loader does not check that a relative directory exists.
        let counts = exists || directory.is_relative();
        let mut searched = Vec::new();
        if exists {
            for relative in &self.environment.rules.subdirectories {
                let first = path.join(relative.iter().next().unwrap_or_default());
                let subdirectory = path.join(relative);
                let is_unlisted = is_listed && self.host.is_unlisted(&first);
                if !is_unlisted && self.is_directory(&subdirectory) {
                    searched.push(subdirectory);
                }
            }
        }
        if counts {
            searched.push(path.clone());
        }
        Directory {
            path,
            searched,
            counts,
        }
    }

    /// True if a directory may be listed: it is on this machine, and not in a view that is only planned.
    fn can_list(&self, path: &Path) -> bool {
        if self.host.is_rerooted() {
            // A description of the machine would hold all files in it.
            return false;
        }
        matches!(self.position(path), Position::Outside(real) if real == path)
    }

    fn is_directory(&self, path: &Path) -> bool {
        match self.position(path) {
            Position::Outside(real) => self.host.is_directory(&real),
            Position::Itself => true,
            Position::Name(_) | Position::Nowhere => false,
        }
    }

    fn position<'p>(&self, path: &'p Path) -> Position<'p> {
        match &self.environment.overlay {
            Some(overlay) => overlay.position(path),
            None => Position::Outside(Cow::Borrowed(path)),
        }
    }

    /// Replaces the tokens of a text for this object; nothing where the loader skips the text.
    pub(super) fn expand(&self, text: &[u8], object: &Object) -> Option<PathBuf> {
        self.environment
            .rules
            .tokens
            .expand(text, object.path.parent())
    }
}
