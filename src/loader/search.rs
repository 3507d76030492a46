//! The order in which glibc looks for a name: DT_RPATH of the requester and of those who loaded it,
//! `LD_LIBRARY_PATH`, DT_RUNPATH of the requester, `/etc/ld.so.cache`, the default directories.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde::{Serialize, Serializer};

pub use super::object::Object;
use super::object::{self, EACCES, ENOENT, ENOTDIR, Refusal};
pub use super::overlay::Overlay;
use super::overlay::Place;
use super::paths::{Directory, Kind, SearchPath};
use super::rules::{self, Release, Rules};
pub use super::rules::{Tokens, default_directories};
use crate::environment::{Environment, library_path_elements, preload_elements};
use crate::formats::ldcache::LdCache;
use crate::host::Host;
use crate::variables;

const PRELOAD: &str = "/etc/ld.so.preload";
/// Before this release, a file that stands where a relative directory should be ends its search path.
const PASSES_FILES: Release = (2, 39);

/// Why a file was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "rule", rename_all = "kebab-case")]
pub enum Rule {
    Executable,
    Interpreter,
    Preload,
    /// The name is a path.
    Path,
    /// `of` is the file whose DT_RPATH it is.
    Rpath {
        #[serde(serialize_with = "as_text")]
        of: PathBuf,
    },
    /// `element` as it stands in `LD_LIBRARY_PATH`.
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

/// The loader of one machine in one environment. A clone shares what was read.
#[derive(Clone)]
pub struct Searcher<'h> {
    pub(super) machine: Rc<Machine<'h>>,
    pub(super) setting: Rc<Setting>,
}

/// What is the same in every environment.
pub(super) struct Machine<'h> {
    pub(super) host: &'h Host,
    number: u16,
    cache: LdCache,
    /// What every program on it gets, as `/etc/ld.so.preload` names it.
    preload: Vec<String>,
    /// By path, as text: that is quicker told apart than the parts of a path.
    files: RefCell<HashMap<OsString, Reading>>,
}

/// What depends on the environment, and on which loader it is.
pub(super) struct Setting {
    pub(super) rules: Rules,
    pub(super) library_path: Vec<OsString>,
    preload: Vec<OsString>,
    /// What relative paths start from.
    directory: PathBuf,
    pub(super) overlay: Option<Overlay>,
    pub(super) is_secure: bool,
    /// Whether `LD_LIBRARY_PATH` is the same for every program.
    is_common: bool,
    pub(super) known: Known,
}

/// What was found out in one setting.
#[derive(Default)]
pub(super) struct Known {
    links: RefCell<HashMap<OsString, Reading>>,
    pub(super) directories: RefCell<HashMap<OsString, Rc<Directory>>>,
    pub(super) paths: RefCell<HashMap<(Kind, OsString), SearchPath>>,
    /// The search path of those who have none.
    pub(super) nothing: SearchPath,
    /// What those find who have no search path of their own.
    common: RefCell<HashMap<String, (Rc<Object>, Rule)>>,
}

type Reading = Result<Rc<Object>, Refusal>;

/// The loader gives up at this file.
#[derive(Debug)]
pub(super) struct Bad {
    pub(super) path: PathBuf,
    pub(super) why: &'static str,
}

/// Who asks: an object, those that loaded it, up to the executable, which is always the last.
#[derive(Clone, Copy)]
pub(super) struct Asker<'a> {
    pub(super) chain: &'a [Rc<Object>],
    pub(super) executable: Option<&'a Object>,
}

impl<'h> Searcher<'h> {
    /// For programs of this machine in the host's environment.
    pub fn new(host: &'h Host, machine: u16) -> Searcher<'h> {
        let cache = host.read(Path::new("/etc/ld.so.cache")).ok();
        let shared = Machine {
            host,
            number: machine,
            cache: cache.and_then(|bytes| LdCache::parse(&bytes, machine).ok()).unwrap_or_default(),
            preload: preloaded(&host.read_text(Path::new(PRELOAD)).unwrap_or_default()),
            files: RefCell::default(),
        };
        let rules = Rules::of(host, machine, rules::standard_loader(machine));
        Searcher {
            machine: Rc::new(shared),
            setting: Rc::new(Setting::new(rules, &host.env, &host.cwd, None)),
        }
    }

    /// The same machine in another environment.
    pub fn within(&self, env: &Environment, overlay: Option<Overlay>) -> Searcher<'h> {
        self.with(Setting::new(self.setting.rules.clone(), env, &self.setting.directory, overlay))
    }

    /// The same for a program that starts in another directory.
    pub fn in_directory(&self, env: &Environment, directory: &Path) -> Searcher<'h> {
        self.with(Setting::new(self.setting.rules.clone(), env, directory, None))
    }

    /// The path against the directory that the program starts in; nothing is resolved.
    pub(super) fn absolute(&self, path: &Path) -> PathBuf {
        self.setting.directory.join(path)
    }

    /// The same for programs that start with more rights than whoever starts them has (AT_SECURE).
    pub fn secure(&self) -> Searcher<'h> {
        let mut overlay = self.setting.overlay.clone();
        if let Some(overlay) = &mut overlay {
            overlay.answers = false;
        }
        let setting = Setting::new(
            self.setting.rules.clone(),
            &Environment::default(),
            &self.setting.directory,
            overlay,
        );
        self.with(Setting { is_secure: true, ..setting })
    }

    /// What its answers depend on besides the directories of search paths: their sub-directories for processors, and
    /// what every program is given.
    pub fn depends_on(&self) -> Vec<PathBuf> {
        let directories = self.setting.known.directories.borrow();
        let there = directories.values().filter(|directory| !directory.within.is_empty());
        let below = there.flat_map(|directory| {
            let within = directory.within.iter().filter(|within| **within != directory.path).cloned();
            within.chain([directory.path.join("glibc-hwcaps")])
        });
        let overlaid = self.setting.overlay.as_ref().map(|overlay| overlay.directory.clone());
        let below = below.filter(|path| overlaid.as_ref().is_none_or(|view| !path.starts_with(view)));
        below.chain([PathBuf::from(PRELOAD)]).collect()
    }

    /// The release of this loader; none where neither it nor its C library says.
    pub fn release(&self) -> Option<Release> {
        self.setting.rules.release
    }

    /// The same as the loader of this program does it, where that is another one.
    pub fn of_program(&self, executable: &Path) -> Searcher<'h> {
        match self.object(executable).and_then(|object| object.interpreter.clone()) {
            Some(interpreter) if interpreter != self.loader() => self.by(&interpreter),
            _ => self.clone(),
        }
    }

    /// The same as the loader at this path would do it.
    pub(super) fn by(&self, loader: &Path) -> Searcher<'h> {
        self.with(Setting {
            rules: Rules::of(self.machine.host, self.machine.number, loader),
            library_path: self.setting.library_path.clone(),
            preload: self.setting.preload.clone(),
            directory: self.setting.directory.clone(),
            overlay: self.setting.overlay.clone(),
            is_secure: self.setting.is_secure,
            is_common: self.setting.is_common,
            known: Known::default(),
        })
    }

    fn with(&self, setting: Setting) -> Searcher<'h> {
        Searcher { machine: self.machine.clone(), setting: Rc::new(setting) }
    }

    pub(super) fn host(&self) -> &'h Host {
        self.machine.host
    }

    pub(super) fn loader(&self) -> &'static Path {
        rules::standard_loader(self.machine.number)
    }

    pub(super) fn is_at_least(&self, release: Release) -> bool {
        self.setting.rules.is_at_least(release)
    }

    /// What is loaded before what a program asks for: `LD_PRELOAD`, then what every program gets.
    pub(super) fn preload(&self) -> impl Iterator<Item = String> {
        let own = self.setting.preload.iter().map(|name| name.to_string_lossy().into_owned());
        let all = own.chain(self.machine.preload.iter().cloned());
        // With more rights, a bare name counts only for files that have them themselves.
        all.filter(|name| !self.setting.is_secure || name.contains('/'))
    }

    /// Reads a file as the loader would; none when it is not an object for this machine.
    pub fn object(&self, path: &Path) -> Option<Rc<Object>> {
        self.read(path).ok()
    }

    /// What the loader takes for `name`, asked for by the first of `chain`, which was loaded by the second,
    /// and so on up to the executable.
    pub fn find(&self, name: &str, chain: &[Rc<Object>]) -> Option<(Rc<Object>, Rule)> {
        let asker = Asker { chain, executable: chain.last().map(AsRef::as_ref) };
        self.look(name, asker, &mut Vec::new()).ok().flatten()
    }

    /// The same, or where it gives up. Adds to `tried` the paths that were tried in vain.
    pub(super) fn look(
        &self,
        name: &str,
        asker: Asker<'_>,
        tried: &mut Vec<PathBuf>,
    ) -> Result<Option<(Rc<Object>, Rule)>, Bad> {
        let Some(requester) = asker.chain.first() else { return Ok(None) };
        if let Some(answer) = self.setting.overlay.as_ref().and_then(|overlay| overlay.answer(name)) {
            return Ok(self.take(answer, tried)?.map(|object| (object, Rule::Pinned)));
        }
        if name.contains('/') {
            let Some(path) = self.expand(name.as_bytes(), requester) else { return Ok(None) };
            let path = self.absolute(&path);
            return Ok(self.take(path, tried)?.map(|object| (object, Rule::Path)));
        }
        // Most have nothing to say to where they find what they need: they find the same.
        let says_nothing = |object: &Rc<Object>| object.rpath.is_none() && object.runpath.is_none();
        let is_common =
            self.setting.is_common && !requester.no_defaults && asker.chain.iter().all(says_nothing);
        if let Some(known) = self.setting.known.common.borrow().get(name).filter(|_| is_common) {
            return Ok(Some(known.clone()));
        }
        let found = self.seek(name, requester, asker, tried)?;
        if let Some(found) = found.as_ref().filter(|_| is_common) {
            self.setting.known.common.borrow_mut().insert(name.to_owned(), found.clone());
        }
        Ok(found)
    }

    /// What every search path has for a name, one after the other.
    fn seek(
        &self,
        name: &str,
        requester: &Object,
        asker: Asker<'_>,
        tried: &mut Vec<PathBuf>,
    ) -> Result<Option<(Rc<Object>, Rule)>, Bad> {
        if requester.runpath.is_none() {
            for object in asker.chain {
                if let Some((found, _)) = self.scan(name, &self.path(Kind::Rpath, Some(object)), tried)? {
                    return Ok(Some((found, Rule::Rpath { of: object.path.clone() })));
                }
            }
        }
        if let Some((found, element)) =
            self.scan(name, &self.path(Kind::LibraryPath, asker.executable), tried)?
        {
            return Ok(Some((found, Rule::LibraryPath { element })));
        }
        if let Some((found, _)) = self.scan(name, &self.path(Kind::Runpath, Some(requester)), tried)? {
            return Ok(Some((found, Rule::Runpath)));
        }
        let rules = &self.setting.rules;
        let is_default = |path: &Path| rules.defaults.iter().any(|default| path.starts_with(default));
        let cached = self.machine.cache.best(name, &rules.levels);
        if let Some(path) = cached.filter(|path| !(requester.no_defaults && is_default(path)))
            && let Some(found) = self.take(path.clone(), tried)?
        {
            return Ok(Some((found, Rule::Cache)));
        }
        if requester.no_defaults {
            return Ok(None);
        }
        let found = self.scan(name, &self.path(Kind::Default, None), tried)?;
        Ok(found.map(|(found, _)| (found, Rule::Default)))
    }

    /// The directories that come before `LD_LIBRARY_PATH` for names that the first of `chain` asks for.
    /// A requester with a DT_RUNPATH has none: it shields from every DT_RPATH.
    pub fn rpath_directories(&self, chain: &[Rc<Object>]) -> Vec<PathBuf> {
        let mut directories = Vec::new();
        if chain.first().is_some_and(|requester| requester.runpath.is_some()) {
            return directories;
        }
        for object in chain {
            for (directory, _) in self.path(Kind::Rpath, Some(object)).iter() {
                if !directories.contains(&directory.path) {
                    directories.push(directory.path.clone());
                }
            }
        }
        directories
    }

    /// The directories of an object's own DT_RUNPATH, which come after `LD_LIBRARY_PATH`.
    pub fn runpath_directories(&self, object: &Object) -> Vec<PathBuf> {
        self.path(Kind::Runpath, Some(object)).iter().map(|(directory, _)| directory.path.clone()).collect()
    }

    pub(super) fn read(&self, path: &Path) -> Reading {
        let Some(overlay) = &self.setting.overlay else { return self.read_file(path) };
        let target = match overlay.place(path) {
            Place::Outside(real) if real == path => return self.read_file(path),
            Place::Outside(real) => real,
            Place::Itself => return Err(Refusal::Bad("a directory")),
            Place::Name(name) if overlay.empty.contains(name) => return Err(Refusal::Bad("an empty file")),
            Place::Name(name) => match overlay.links.get(name) {
                Some(target) => Cow::Owned(overlay.directory.join(target)),
                None => return Err(Refusal::Absent(ENOENT)),
            },
            Place::Nowhere => return Err(Refusal::Absent(ENOENT)),
        };
        if let Some(known) = self.setting.known.links.borrow().get(path.as_os_str()) {
            return known.clone();
        }
        let read = self.read_file(&target);
        let read = read.map(|object| Rc::new(Object { path: path.to_owned(), ..(*object).clone() }));
        self.setting.known.links.borrow_mut().insert(path.into(), read.clone());
        read
    }

    fn read_file(&self, path: &Path) -> Reading {
        if let Some(known) = self.machine.files.borrow().get(path.as_os_str()) {
            return known.clone();
        }
        let read = object::read(self.machine.host, self.machine.number, path).map(Rc::new);
        self.machine.files.borrow_mut().insert(path.into(), read.clone());
        read
    }

    /// One path: there is an object, or there is none, or it is the end.
    fn take(&self, path: PathBuf, tried: &mut Vec<PathBuf>) -> Result<Option<Rc<Object>>, Bad> {
        match self.read(&path) {
            Ok(object) => Ok(Some(object)),
            Err(Refusal::Bad(why)) => Err(Bad { path, why }),
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
        path: &SearchPath,
        tried: &mut Vec<PathBuf>,
    ) -> Result<Option<(Rc<Object>, OsString)>, Bad> {
        for (directory, element) in path.iter() {
            let mut last = ENOENT;
            for within in &directory.within {
                let path = within.join(name);
                last = match self.read(&path) {
                    Ok(object) => return Ok(Some((object, element.clone()))),
                    Err(Refusal::Bad(why)) => return Err(Bad { path, why }),
                    Err(Refusal::Foreign) => ENOENT,
                    Err(Refusal::Absent(error)) => error,
                };
                tried.push(path);
            }
            if directory.within.is_empty() {
                tried.push(directory.path.join(name));
            }
            // A loop of links, say: the rest of this search path is not looked at.
            let goes_on =
                matches!(last, ENOENT | EACCES) || last == ENOTDIR && self.is_at_least(PASSES_FILES);
            if directory.counts && !goes_on {
                return Ok(None);
            }
        }
        Ok(None)
    }
}

impl Setting {
    fn new(rules: Rules, env: &Environment, directory: &Path, overlay: Option<Overlay>) -> Setting {
        let library_path = env.get(variables::LIBRARY_PATH).map(library_path_elements).unwrap_or_default();
        let is_common = !library_path.iter().any(|element| element.as_bytes().contains(&b'$'));
        Setting {
            rules,
            library_path,
            preload: env.get(variables::PRELOAD).map(preload_elements).unwrap_or_default(),
            directory: directory.to_owned(),
            overlay,
            is_secure: false,
            is_common,
            known: Known::default(),
        }
    }
}

/// The names in `/etc/ld.so.preload`, which may have comments.
fn preloaded(text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let names = lines.flat_map(|line| line.split([' ', '\t', ':'])).filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

fn as_text<S: Serializer>(text: &impl AsRef<OsStr>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&text.as_ref().to_string_lossy())
}
