//! The order in which glibc searches for a name: DT_RPATH of the requester and of the objects that loaded it,
//! `LD_LIBRARY_PATH`, DT_RUNPATH of the requester, `/etc/ld.so.cache`, the default directories.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use serde::{Serialize, Serializer};

pub use super::object::Object;
use super::object::{self, EACCES, ENOENT, ENOTDIR, PathRefusal};
pub use super::overlay::Overlay;
use super::overlay::Position;
use super::paths::{LoaderEnvironment, OrderedDirectories, PathKind, SearchPaths};
use super::rules::{self, Release, Rules};
pub use super::rules::{Tokens, default_directories};
use crate::environment::Environment;
use crate::formats::ldcache::LdCache;
use crate::host::Host;

const PRELOAD: &str = "/etc/ld.so.preload";
/// Before this release, a file in the place of a relative directory ends its search path.
const PASSES_FILES: Release = (2, 39);

/// The reason why the loader took a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "rule", rename_all = "kebab-case")]
pub enum FoundBy {
    Executable,
    Interpreter,
    Preload,
    /// The name is a path.
    Path,
    /// DT_RPATH of the file `of`.
    Rpath {
        #[serde(serialize_with = "as_text")]
        of: PathBuf,
    },
    /// `element` as it is written in `LD_LIBRARY_PATH`.
    LibraryPath {
        #[serde(serialize_with = "as_text")]
        element: OsString,
    },
    Runpath,
    Cache,
    Default,
    /// An audit module answered.
    Pinned,
}

/// The loader of one machine in one environment. A clone shares everything that was read.
#[derive(Clone)]
pub struct Searcher<'h> {
    shared: Rc<SharedState<'h>>,
    paths: Rc<SearchPaths<'h>>,
    found: Rc<FoundFiles>,
}

/// The part that every environment shares.
struct SharedState<'h> {
    host: &'h Host,
    machine: u16,
    cache: LdCache,
    /// The names in `/etc/ld.so.preload`, which every program gets.
    preload: Vec<String>,
    /// By path, as text, which compares faster than the parts of a path.
    files: RefCell<HashMap<OsString, Reading>>,
}

/// The files that were found in one environment.
#[derive(Default)]
struct FoundFiles {
    links: RefCell<HashMap<OsString, Reading>>,
    /// By name, for requesters without search paths of their own.
    common: RefCell<HashMap<String, (Arc<Object>, FoundBy)>>,
    /// True if `LD_LIBRARY_PATH` has equal directories for every program.
    is_common: bool,
}

type Reading = Result<Arc<Object>, PathRefusal>;

/// A file at which the loader ends the program.
#[derive(Debug)]
pub(super) struct Bad {
    pub(super) path: PathBuf,
    pub(super) why: &'static str,
}

impl<'h> Searcher<'h> {
    /// Makes a searcher for programs of this machine in the host's environment.
    pub fn new(host: &'h Host, machine: u16) -> Searcher<'h> {
        let mut cache = LdCache::default();
        if let Ok(bytes) = host.read(Path::new("/etc/ld.so.cache")) {
            cache = LdCache::parse(&bytes, machine).unwrap_or_default();
        }
        let shared = SharedState {
            host,
            machine,
            cache,
            preload: preloaded(&host.read_text(Path::new(PRELOAD)).unwrap_or_default()),
            files: RefCell::default(),
        };
        let rules = Rules::read(host, machine, rules::standard_loader(machine));
        let environment = LoaderEnvironment::new(rules, &host.env, host.cwd.clone(), None);
        Searcher::from_parts(Rc::new(shared), environment)
    }

    fn from_parts(shared: Rc<SharedState<'h>>, environment: LoaderEnvironment) -> Searcher<'h> {
        let is_common = !environment
            .library_path
            .iter()
            .any(|element| element.as_bytes().contains(&b'$'));
        let paths = Rc::new(SearchPaths::new(shared.host, environment));
        Searcher {
            shared,
            paths,
            found: Rc::new(FoundFiles {
                is_common,
                ..FoundFiles::default()
            }),
        }
    }

    fn environment(&self) -> &LoaderEnvironment {
        &self.paths.environment
    }

    fn in_environment(&self, environment: LoaderEnvironment) -> Searcher<'h> {
        Searcher::from_parts(self.shared.clone(), environment)
    }

    /// A searcher for another environment of the machine.
    pub fn within(&self, env: &Environment, overlay: Option<Overlay>) -> Searcher<'h> {
        let LoaderEnvironment {
            rules, directory, ..
        } = self.environment().clone();
        self.in_environment(LoaderEnvironment::new(rules, env, directory, overlay))
    }

    /// A searcher for a program that starts in another directory.
    pub fn in_directory(&self, env: &Environment, directory: &Path) -> Searcher<'h> {
        let rules = self.environment().rules.clone();
        let directory = directory.to_owned();
        self.in_environment(LoaderEnvironment::new(rules, env, directory, None))
    }

    /// Joins a path to the directory that the program starts in. Links are not resolved.
    pub(super) fn absolute(&self, path: &Path) -> PathBuf {
        self.environment().directory.join(path)
    }

    /// The paths that answers depend on besides the directories of search paths: their sub-directories for
    /// processors, and `/etc/ld.so.preload`.
    pub fn depends_on(&self) -> Vec<PathBuf> {
        let mut paths = Vec::new();
        for directory in self.paths.directories.borrow().values() {
            if directory.searched.is_empty() {
                continue;
            }
            for searched in &directory.searched {
                if *searched != directory.path {
                    paths.push(searched.clone());
                }
            }
            paths.push(directory.path.join("glibc-hwcaps"));
        }
        if let Some(overlay) = &self.environment().overlay {
            paths.retain(|path| !path.starts_with(&overlay.directory));
        }
        paths.push(PathBuf::from(PRELOAD));
        paths
    }

    /// None if neither the loader nor its C library names one.
    pub fn release(&self) -> Option<Release> {
        self.environment().rules.release
    }

    /// A searcher by the loader of this program.
    pub fn of_program(&self, executable: &Path) -> Searcher<'h> {
        let object = self.object(executable);
        let loader = object.and_then(|object| object.interpreter.clone());
        let Some(loader) = loader.filter(|loader| loader != self.loader()) else {
            return self.clone();
        };
        self.in_environment(LoaderEnvironment {
            rules: Rules::read(self.shared.host, self.shared.machine, &loader),
            ..self.environment().clone()
        })
    }

    /// Replaces the tokens of a text for this object; nothing where the loader skips the text.
    pub(super) fn expand(&self, text: &[u8], object: &Object) -> Option<PathBuf> {
        self.paths.expand(text, object)
    }

    pub(super) fn host(&self) -> &'h Host {
        self.shared.host
    }

    pub(super) fn loader(&self) -> &'static Path {
        rules::standard_loader(self.shared.machine)
    }

    pub(super) fn is_at_least(&self, release: Release) -> bool {
        self.environment().rules.is_at_least(release)
    }

    /// The names that are preloaded: those of `LD_PRELOAD`, then those of `/etc/ld.so.preload`.
    pub(super) fn preload(&self) -> impl Iterator<Item = String> {
        let variable = self.environment().preload.iter();
        variable
            .map(|name| name.to_string_lossy().into_owned())
            .chain(self.shared.preload.iter().cloned())
    }

    /// Reads a file as the loader would; nothing if it is no object for this machine.
    pub fn object(&self, path: &Path) -> Option<Arc<Object>> {
        self.read(path).ok()
    }

    /// The file that the loader takes for `name`. The first object of `chain` requests it; each one was loaded by the
    /// next, up to the executable.
    pub fn find(&self, name: &str, chain: &[Arc<Object>]) -> Option<(Arc<Object>, FoundBy)> {
        self.search(name, chain, &mut Vec::new()).ok().flatten()
    }

    /// Like `find`, but fails where the loader ends the program. Adds the paths without a usable file to `tried`.
    pub(super) fn search(
        &self,
        name: &str,
        chain: &[Arc<Object>],
        tried: &mut Vec<PathBuf>,
    ) -> Result<Option<(Arc<Object>, FoundBy)>, Bad> {
        let [requester, ..] = chain else {
            return Ok(None);
        };
        if let Some(overlay) = &self.environment().overlay
            && let Some(answer) = overlay.answer(name)
        {
            let object = self.take(answer, tried)?;
            return Ok(object.map(|object| (object, FoundBy::Pinned)));
        }
        if name.contains('/') {
            let Some(path) = self.paths.expand(name.as_bytes(), requester) else {
                return Ok(None);
            };
            let object = self.take(self.absolute(&path), tried)?;
            return Ok(object.map(|object| (object, FoundBy::Path)));
        }
        // Most objects have no search path of their own, so they find equal files.
        let is_common = self.found.is_common
            && !requester.no_defaults
            && chain
                .iter()
                .all(|object| object.rpath.is_none() && object.runpath.is_none());
        if !is_common {
            return self.search_paths(name, requester, chain, tried);
        }
        if let Some(found) = self.found.common.borrow().get(name) {
            return Ok(Some(found.clone()));
        }
        let found = self.search_paths(name, requester, chain, tried)?;
        if let Some(found) = &found {
            let mut common = self.found.common.borrow_mut();
            common.insert(name.to_owned(), found.clone());
        }
        Ok(found)
    }

    /// Searches for a name in every search path, one after the other.
    fn search_paths(
        &self,
        name: &str,
        requester: &Object,
        chain: &[Arc<Object>],
        tried: &mut Vec<PathBuf>,
    ) -> Result<Option<(Arc<Object>, FoundBy)>, Bad> {
        if requester.runpath.is_none() {
            for object in chain {
                let path = self.paths.path(PathKind::Rpath, Some(object));
                if let Some((found, _)) = self.scan(name, &path, tried)? {
                    let of = object.path.clone();
                    return Ok(Some((found, FoundBy::Rpath { of })));
                }
            }
        }
        let executable = chain.last().map(AsRef::as_ref);
        let path = self.paths.path(PathKind::LibraryPath, executable);
        if let Some((found, element)) = self.scan(name, &path, tried)? {
            return Ok(Some((found, FoundBy::LibraryPath { element })));
        }
        let path = self.paths.path(PathKind::Runpath, Some(requester));
        if let Some((found, _)) = self.scan(name, &path, tried)? {
            return Ok(Some((found, FoundBy::Runpath)));
        }
        let mut defaults = self.environment().rules.defaults.iter();
        if let Some(path) = self.shared.cache.get(name)
            && !(requester.no_defaults && defaults.any(|default| path.starts_with(default)))
            && let Some(found) = self.take(path.clone(), tried)?
        {
            return Ok(Some((found, FoundBy::Cache)));
        }
        if requester.no_defaults {
            return Ok(None);
        }
        let path = self.paths.path(PathKind::Default, None);
        let found = self.scan(name, &path, tried)?;
        Ok(found.map(|(found, _)| (found, FoundBy::Default)))
    }

    /// The directories that come before `LD_LIBRARY_PATH` for requests of the first object of `chain`. A DT_RUNPATH of
    /// the requester disables every DT_RPATH.
    pub fn rpath_directories(&self, chain: &[Arc<Object>]) -> Vec<PathBuf> {
        let mut directories = Vec::new();
        if chain
            .first()
            .is_some_and(|requester| requester.runpath.is_some())
        {
            return directories;
        }
        for object in chain {
            for (directory, _) in self.paths.path(PathKind::Rpath, Some(object)).iter() {
                if !directories.contains(&directory.path) {
                    directories.push(directory.path.clone());
                }
            }
        }
        directories
    }

    /// The directories of an object's own DT_RUNPATH, which come after `LD_LIBRARY_PATH`.
    pub fn runpath_directories(&self, object: &Object) -> Vec<PathBuf> {
        self.paths
            .path(PathKind::Runpath, Some(object))
            .iter()
            .map(|(directory, _)| directory.path.clone())
            .collect()
    }

    pub(super) fn read(&self, path: &Path) -> Reading {
        let Some(overlay) = &self.environment().overlay else {
            return self.read_file(path);
        };
        let target = match overlay.position(path) {
            Position::Outside(real) if real == path => return self.read_file(path),
            Position::Outside(real) => real,
            Position::Itself => return Err(PathRefusal::Bad("a directory")),
            Position::Name(name) if overlay.empty.contains(name) => {
                return Err(PathRefusal::Bad("an empty file"));
            }
            Position::Name(name) => match overlay.links.get(name) {
                Some(target) => Cow::Owned(overlay.directory.join(target)),
                None => return Err(PathRefusal::Absent(ENOENT)),
            },
            Position::Nowhere => return Err(PathRefusal::Absent(ENOENT)),
        };
        if let Some(reading) = self.found.links.borrow().get(path.as_os_str()) {
            return reading.clone();
        }
        let reading = self.read_file(&target).map(|object| {
            Arc::new(Object {
                path: path.to_owned(),
                ..(*object).clone()
            })
        });
        let mut links = self.found.links.borrow_mut();
        links.insert(path.into(), reading.clone());
        reading
    }

    fn read_file(&self, path: &Path) -> Reading {
        if let Some(reading) = self.shared.files.borrow().get(path.as_os_str()) {
            return reading.clone();
        }
        let host = self.shared.host;
        let reading = if host.is_unlisted(path) {
            Err(PathRefusal::Absent(ENOENT))
        } else {
            object::read(host, self.shared.machine, path).map(Arc::new)
        };
        let mut files = self.shared.files.borrow_mut();
        files.insert(path.into(), reading.clone());
        reading
    }

    /// Reads one path. Fails where the loader ends the program.
    fn take(&self, path: PathBuf, tried: &mut Vec<PathBuf>) -> Result<Option<Arc<Object>>, Bad> {
        match self.read(&path) {
            Ok(object) => Ok(Some(object)),
            Err(PathRefusal::Bad(why)) => Err(Bad { path, why }),
            Err(_) => {
                tried.push(path);
                Ok(None)
            }
        }
    }

    /// The first object of this name, and the element that led to it.
    fn scan(
        &self,
        name: &str,
        path: &OrderedDirectories,
        tried: &mut Vec<PathBuf>,
    ) -> Result<Option<(Arc<Object>, OsString)>, Bad> {
        for (directory, element) in path.iter() {
            let mut last = ENOENT;
            for searched in &directory.searched {
                let path = searched.join(name);
                last = match self.read(&path) {
                    Ok(object) => return Ok(Some((object, element.clone()))),
                    Err(PathRefusal::Bad(why)) => return Err(Bad { path, why }),
                    Err(PathRefusal::Foreign) => ENOENT,
                    Err(PathRefusal::Absent(error)) => error,
                };
                tried.push(path);
            }
            if directory.searched.is_empty() {
                tried.push(directory.path.join(name));
            }
            // Other errors, such as a loop of links, end this search path.
            let continues = matches!(last, ENOENT | EACCES)
                || last == ENOTDIR && self.is_at_least(PASSES_FILES);
            if directory.counts && !continues {
                return Ok(None);
            }
        }
        Ok(None)
    }
}

/// The names in `/etc/ld.so.preload`, which may have comments.
fn preloaded(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let parts = line.split([' ', '\t', ':']);
        names.extend(parts.filter(|name| !name.is_empty()).map(str::to_owned));
    }
    names
}

fn as_text<S: Serializer>(text: &impl AsRef<OsStr>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&text.as_ref().to_string_lossy())
}
