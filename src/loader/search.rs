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
    machine: Rc<SharedState<'h>>,
    paths: Rc<SearchPaths<'h>>,
    answers: Rc<FoundFiles>,
}

/// The part that every environment shares.
struct SharedState<'h> {
    host: &'h Host,
    number: u16,
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
        let cache = host.read(Path::new("/etc/ld.so.cache")).ok();
        let shared = SharedState {
            host,
            number: machine,
            cache: cache
                .and_then(|bytes| LdCache::parse(&bytes, machine).ok())
                .unwrap_or_default(),
            preload: preloaded(&host.read_text(Path::new(PRELOAD)).unwrap_or_default()),
            files: RefCell::default(),
        };
        let rules = Rules::read(host, machine, rules::standard_loader(machine));
        let setting = LoaderEnvironment::new(rules, &host.env, host.cwd.clone(), None);
        Searcher::of(Rc::new(shared), setting)
    }

    fn of(machine: Rc<SharedState<'h>>, setting: LoaderEnvironment) -> Searcher<'h> {
        let is_common = !setting
            .library_path
            .iter()
            .any(|element| element.as_bytes().contains(&b'$'));
        let paths = Rc::new(SearchPaths::new(machine.host, setting));
        Searcher {
            machine,
            paths,
            answers: Rc::new(FoundFiles {
                is_common,
                ..FoundFiles::default()
            }),
        }
    }

    fn setting(&self) -> &LoaderEnvironment {
        &self.paths.setting
    }

    fn with(&self, setting: LoaderEnvironment) -> Searcher<'h> {
        Searcher::of(self.machine.clone(), setting)
    }

    /// Returns a searcher for another environment of the machine.
    pub fn within(&self, env: &Environment, overlay: Option<Overlay>) -> Searcher<'h> {
        let LoaderEnvironment {
            rules, directory, ..
        } = self.setting().clone();
        self.with(LoaderEnvironment::new(rules, env, directory, overlay))
    }

    /// Returns a searcher for a program that starts in another directory.
    pub fn in_directory(&self, env: &Environment, directory: &Path) -> Searcher<'h> {
        let rules = self.setting().rules.clone();
        self.with(LoaderEnvironment::new(
            rules,
            env,
            directory.to_owned(),
            None,
        ))
    }

    /// Joins a path to the directory that the program starts in. Links are not resolved.
    pub(super) fn absolute(&self, path: &Path) -> PathBuf {
        self.setting().directory.join(path)
    }

    /// Returns the paths that answers depend on besides the directories of search paths: their sub-directories for
    /// processors, and `/etc/ld.so.preload`.
    pub fn depends_on(&self) -> Vec<PathBuf> {
        let directories = self.paths.directories.borrow();
        let existing = directories
            .values()
            .filter(|directory| !directory.within.is_empty());
        let below = existing.flat_map(|directory| {
            let within = directory
                .within
                .iter()
                .filter(|within| **within != directory.path)
                .cloned();
            within.chain([directory.path.join("glibc-hwcaps")])
        });
        let view = self
            .setting()
            .overlay
            .as_ref()
            .map(|overlay| &overlay.directory);
        let below = below.filter(|path| view.is_none_or(|view| !path.starts_with(view)));
        below.chain([PathBuf::from(PRELOAD)]).collect()
    }

    /// Returns the release of this loader; none if neither it nor its C library names one.
    pub fn release(&self) -> Option<Release> {
        self.setting().rules.release
    }

    /// Returns a searcher by the loader of this program.
    pub fn of_program(&self, executable: &Path) -> Searcher<'h> {
        let object = self.object(executable);
        let loader = object.and_then(|object| object.interpreter.clone());
        let Some(loader) = loader.filter(|loader| loader != self.loader()) else {
            return self.clone();
        };
        self.with(LoaderEnvironment {
            rules: Rules::read(self.machine.host, self.machine.number, &loader),
            ..self.setting().clone()
        })
    }

    /// Replaces the tokens of a text for this object; nothing where the loader skips the text.
    pub(super) fn expand(&self, text: &[u8], object: &Object) -> Option<PathBuf> {
        self.paths.expand(text, object)
    }

    pub(super) fn host(&self) -> &'h Host {
        self.machine.host
    }

    pub(super) fn loader(&self) -> &'static Path {
        rules::standard_loader(self.machine.number)
    }

    pub(super) fn is_at_least(&self, release: Release) -> bool {
        self.setting().rules.is_at_least(release)
    }

    /// Returns the names that are preloaded: those of `LD_PRELOAD`, then those of `/etc/ld.so.preload`.
    pub(super) fn preload(&self) -> impl Iterator<Item = String> {
        let own = self
            .setting()
            .preload
            .iter()
            .map(|name| name.to_string_lossy().into_owned());
        own.chain(self.machine.preload.iter().cloned())
    }

    /// Reads a file as the loader would; nothing if it is no object for this machine.
    pub fn object(&self, path: &Path) -> Option<Arc<Object>> {
        self.read(path).ok()
    }

    /// Returns the file that the loader takes for `name`. The first object of `chain` requests it; each one was loaded by the
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
        if let Some(answer) = self
            .setting()
            .overlay
            .as_ref()
            .and_then(|overlay| overlay.answer(name))
        {
            return Ok(self
                .take(answer, tried)?
                .map(|object| (object, FoundBy::Pinned)));
        }
        if name.contains('/') {
            let Some(path) = self.paths.expand(name.as_bytes(), requester) else {
                return Ok(None);
            };
            let path = self.absolute(&path);
            return Ok(self
                .take(path, tried)?
                .map(|object| (object, FoundBy::Path)));
        }
        // Most objects have no search path of their own, so they find equal files.
        let has_no_path = |object: &Arc<Object>| object.rpath.is_none() && object.runpath.is_none();
        let is_common =
            self.answers.is_common && !requester.no_defaults && chain.iter().all(has_no_path);
        if let Some(known) = self.answers.common.borrow().get(name).filter(|_| is_common) {
            return Ok(Some(known.clone()));
        }
        let found = self.search_paths(name, requester, chain, tried)?;
        if let Some(found) = found.as_ref().filter(|_| is_common) {
            self.answers
                .common
                .borrow_mut()
                .insert(name.to_owned(), found.clone());
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
                if let Some((found, _)) =
                    self.scan(name, &self.paths.path(PathKind::Rpath, Some(object)), tried)?
                {
                    return Ok(Some((
                        found,
                        FoundBy::Rpath {
                            of: object.path.clone(),
                        },
                    )));
                }
            }
        }
        let executable = chain.last().map(AsRef::as_ref);
        if let Some((found, element)) = self.scan(
            name,
            &self.paths.path(PathKind::LibraryPath, executable),
            tried,
        )? {
            return Ok(Some((found, FoundBy::LibraryPath { element })));
        }
        if let Some((found, _)) = self.scan(
            name,
            &self.paths.path(PathKind::Runpath, Some(requester)),
            tried,
        )? {
            return Ok(Some((found, FoundBy::Runpath)));
        }
        let rules = &self.setting().rules;
        let is_default = |path: &Path| {
            rules
                .defaults
                .iter()
                .any(|default| path.starts_with(default))
        };
        let cached = self.machine.cache.get(name);
        if let Some(path) = cached.filter(|path| !(requester.no_defaults && is_default(path)))
            && let Some(found) = self.take(path.clone(), tried)?
        {
            return Ok(Some((found, FoundBy::Cache)));
        }
        if requester.no_defaults {
            return Ok(None);
        }
        let found = self.scan(name, &self.paths.path(PathKind::Default, None), tried)?;
        Ok(found.map(|(found, _)| (found, FoundBy::Default)))
    }

    /// Returns the directories that come before `LD_LIBRARY_PATH` for requests of the first object of `chain`. A DT_RUNPATH of
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

    /// Returns the directories of an object's own DT_RUNPATH, which come after `LD_LIBRARY_PATH`.
    pub fn runpath_directories(&self, object: &Object) -> Vec<PathBuf> {
        self.paths
            .path(PathKind::Runpath, Some(object))
            .iter()
            .map(|(directory, _)| directory.path.clone())
            .collect()
    }

    pub(super) fn read(&self, path: &Path) -> Reading {
        let Some(overlay) = &self.setting().overlay else {
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
        if let Some(known) = self.answers.links.borrow().get(path.as_os_str()) {
            return known.clone();
        }
        let read = self.read_file(&target);
        let read = read.map(|object| {
            Arc::new(Object {
                path: path.to_owned(),
                ..(*object).clone()
            })
        });
        self.answers
            .links
            .borrow_mut()
            .insert(path.into(), read.clone());
        read
    }

    fn read_file(&self, path: &Path) -> Reading {
        if let Some(known) = self.machine.files.borrow().get(path.as_os_str()) {
            return known.clone();
        }
        let host = self.machine.host;
        let read = if host.is_unlisted(path) {
            Err(PathRefusal::Absent(ENOENT))
        } else {
            object::read(host, self.machine.number, path).map(Arc::new)
        };
        self.machine
            .files
            .borrow_mut()
            .insert(path.into(), read.clone());
        read
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

    /// Returns the first object of this name, and the element that led to it.
    fn scan(
        &self,
        name: &str,
        path: &OrderedDirectories,
        tried: &mut Vec<PathBuf>,
    ) -> Result<Option<(Arc<Object>, OsString)>, Bad> {
        for (directory, element) in path.iter() {
            let mut last = ENOENT;
            for within in &directory.within {
                let path = within.join(name);
                last = match self.read(&path) {
                    Ok(object) => return Ok(Some((object, element.clone()))),
                    Err(PathRefusal::Bad(why)) => return Err(Bad { path, why }),
                    Err(PathRefusal::Foreign) => ENOENT,
                    Err(PathRefusal::Absent(error)) => error,
                };
                tried.push(path);
            }
            if directory.within.is_empty() {
                tried.push(directory.path.join(name));
            }
            // Other errors, such as a loop of links, end this search path.
            let goes_on = matches!(last, ENOENT | EACCES)
                || last == ENOTDIR && self.is_at_least(PASSES_FILES);
            if directory.counts && !goes_on {
                return Ok(None);
            }
        }
        Ok(None)
    }
}

/// Returns the names in `/etc/ld.so.preload`, which may have comments.
fn preloaded(text: &str) -> Vec<String> {
    let lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default());
    let names = lines
        .flat_map(|line| line.split([' ', '\t', ':']))
        .filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

fn as_text<S: Serializer>(text: &impl AsRef<OsStr>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&text.as_ref().to_string_lossy())
}
