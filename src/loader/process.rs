//! A process as the loader makes it: the objects at its start, and those of each dlopen. The loader requests files breadth
//! first, and loads each file once under any name.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::object::{Object, PathRefusal};
use super::rules::Release;
use super::search::{Bad, FoundBy, Searcher};
use crate::host::FileId;

/// The first release whose `--list` resolves links in the path of a file.
const LISTS_REAL: Release = (2, 42);

/// A process, in the order in which its objects were loaded: the executable first.
#[derive(Clone)]
pub struct Process<'h> {
    searcher: Searcher<'h>,
    /// In load order: the executable, its loader, preloaded ones, the rest.
    pub loaded: Vec<LoadedObject>,
    /// The object whose DT_RPATH counts for each one. An opened library has none.
    loaders: Vec<Option<usize>>,
    names: HashMap<String, usize>,
    ids: HashMap<FileId, usize>,
    pub missing: Vec<Miss>,
    /// The reason why the loader ends the program at its start: a bad file, else the first name that was not found, else a
    /// missing version.
    pub failure: Option<LoadFailure>,
}

#[derive(Clone, Debug)]
pub struct LoadedObject {
    pub object: Arc<Object>,
    /// The name in the first request for it.
    pub name: String,
    pub requester: Option<usize>,
    pub rule: FoundBy,
    /// It was given to a later request because the name was its SONAME, which its first request did not use.
    pub answers_soname: bool,
}

/// A request that no file answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Miss {
    pub name: String,
    pub requester: usize,
    /// The paths that were tried, in order. Sub-directories for processors are listed only if they exist.
    pub tried: Vec<PathBuf>,
}

/// The reason why a program does not start, or a library does not open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadFailure {
    /// It has no dynamic loader.
    Static,
    /// Its loader is not glibc's, and has other rules.
    OtherLoader { interpreter: PathBuf },
    /// Its loader does not exist.
    NoInterpreter { interpreter: PathBuf },
    /// The file does not exist or is not readable.
    Unreadable { path: PathBuf },
    /// For another kind of machine.
    OtherMachine { path: PathBuf },
    /// A file that it needs is nowhere.
    NotFound(Miss),
    /// The loader ends the program at the first file that a search found.
    Bad {
        path: PathBuf,
        why: &'static str,
        requester: usize,
    },
    /// `file` is loaded and lacks a version node that the requester requires.
    Version {
        file: PathBuf,
        version: String,
        requester: usize,
    },
}

impl<'h> Process<'h> {
    /// Models a program that the kernel starts, with its preloaded objects. Fails where the loader does not run at all; other
    /// reasons why the program ends are its `failure`.
    pub fn start(searcher: &Searcher<'h>, executable: &Path) -> Result<Process<'h>, LoadFailure> {
        let Ok(real) = searcher.host().canonical(executable) else {
            return Err(LoadFailure::Unreadable {
                path: executable.to_owned(),
            });
        };
        let object = read(searcher, &real)?;
        let interpreter = object.interpreter.clone().ok_or(LoadFailure::Static)?;
        if interpreter.to_string_lossy().contains("ld-musl") {
            return Err(LoadFailure::OtherLoader { interpreter });
        }
        let searcher = searcher.of_program(&real);
        let Some(loader) = searcher.object(&searcher.absolute(&interpreter)) else {
            return Err(LoadFailure::NoInterpreter { interpreter });
        };
        let mut process = Process::new(searcher, object);
        let name = interpreter.to_string_lossy().into_owned();
        process.add(loader, name, None, None, FoundBy::Interpreter);
        process.run();
        Ok(process)
    }

    /// Models `ld.so --list FILE`, in which the loader loads a library or a program as the main object.
    pub fn library(searcher: &Searcher<'h>, path: &Path) -> Result<Process<'h>, LoadFailure> {
        let mut absolute = searcher.absolute(path);
        if searcher.is_at_least(LISTS_REAL)
            && let Ok(real) = searcher.host().canonical(&absolute)
        {
            absolute = real;
        }
        let object = read(searcher, &absolute)?;
        let id = object.id;
        let mut process = Process::new(searcher.clone(), object);
        process.ids.insert(id, 0);
        process
            .names
            .entry(path.to_string_lossy().into_owned())
            .or_insert(0);
        if let Some(loader) = searcher.object(searcher.loader()) {
            let name = searcher.loader().to_string_lossy().into_owned();
            process.add(loader, name, None, None, FoundBy::Interpreter);
        }
        process.run();
        Ok(process)
    }

    /// Models dlopen by a loaded object, or by the executable. Returns the index of the opened object. A failure leaves the
    /// process unchanged.
    pub fn open(&mut self, name: &str, caller: Option<usize>) -> Result<usize, LoadFailure> {
        if name.is_empty() {
            return Ok(0);
        }
        let loaded = self.loaded.len();
        let missing = self.missing.len();
        let caller = caller.filter(|caller| *caller < loaded).unwrap_or(0);
        let opened = self.open_new(name, caller);
        if opened.is_err() {
            self.loaded.truncate(loaded);
            self.loaders.truncate(loaded);
            self.missing.truncate(missing);
            self.names.retain(|_, index| *index < loaded);
            self.ids.retain(|_, index| *index < loaded);
        }
        opened
    }

    pub fn searcher(&self) -> &Searcher<'h> {
        &self.searcher
    }

    fn new(searcher: Searcher<'h>, main: Arc<Object>) -> Process<'h> {
        let mut process = Process {
            searcher,
            loaded: Vec::new(),
            loaders: Vec::new(),
            names: HashMap::new(),
            ids: HashMap::new(),
            missing: Vec::new(),
            failure: None,
        };
        let name = main.path.to_string_lossy().into_owned();
        process.add(main, name, None, None, FoundBy::Executable);
        process
    }

    /// Does the loader's work before it gives control to the program.
    fn run(&mut self) {
        let preload: Vec<String> = self.searcher.preload().collect();
        for name in preload {
            // The loader only prints a warning if it cannot preload a file.
            let _ = self.request(&name, 0, Some(0), Some(FoundBy::Preload));
        }
        self.failure = if let Err(failure) = self.walk(0) {
            Some(failure)
        } else if let Some(miss) = self.missing.first() {
            Some(LoadFailure::NotFound(miss.clone()))
        } else {
            self.missing_version(0..self.loaded.len())
        };
    }

    fn open_new(&mut self, name: &str, caller: usize) -> Result<usize, LoadFailure> {
        let first = self.loaded.len();
        let Some(opened) = self.request(name, caller, None, None)? else {
            return Err(LoadFailure::NotFound(self.miss(name.to_owned(), caller)));
        };
        let before = self.missing.len();
        self.walk(first)?;
        if let Some(miss) = self.missing.get(before) {
            return Err(LoadFailure::NotFound(miss.clone()));
        }
        match self.missing_version(first..self.loaded.len()) {
            Some(failure) => Err(failure),
            None => Ok(opened),
        }
    }

    /// Loads everything that the objects from `first` on need, directly and indirectly.
    fn walk(&mut self, first: usize) -> Result<(), LoadFailure> {
        let mut index = first;
        while let Some(LoadedObject { object, .. }) = self.loaded.get(index) {
            let object = object.clone();
            for name in &object.needed {
                let mut name = name.clone();
                if name.contains('$') {
                    let expanded = self.searcher.expand(name.as_bytes(), &object);
                    name = expanded.unwrap_or_default().to_string_lossy().into_owned();
                }
                if self.request(&name, index, Some(index), None)?.is_none() {
                    let miss = self.miss(name, index);
                    self.missing.push(miss);
                }
            }
            index += 1;
        }
        Ok(())
    }

    /// Gives the object that answers a request for `name`, and loads it if it is new.
    fn request(
        &mut self,
        name: &str,
        requester: usize,
        loader: Option<usize>,
        rule: Option<FoundBy>,
    ) -> Result<Option<usize>, LoadFailure> {
        if let Some(index) = self.names.get(name) {
            let loaded = &mut self.loaded[*index];
            let is_soname = loaded.object.soname.as_deref() == Some(name);
            loaded.answers_soname |= is_soname && loaded.name != name;
            return Ok(Some(*index));
        }
        let (object, found_by) = match self.search(name, requester, &mut Vec::new()) {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(None),
            Err(Bad { path, why }) => {
                return Err(LoadFailure::Bad {
                    path,
                    why,
                    requester,
                });
            }
        };
        if let Some(index) = self.ids.get(&object.id) {
            self.names.insert(name.to_owned(), *index);
            return Ok(Some(*index));
        }
        if object.is_program {
            return Err(LoadFailure::Bad {
                path: object.path.clone(),
                why: "a program",
                requester,
            });
        }
        let rule = rule.unwrap_or(found_by);
        Ok(Some(self.add(
            object,
            name.to_owned(),
            Some(requester),
            loader,
            rule,
        )))
    }

    fn search(
        &self,
        name: &str,
        requester: usize,
        tried: &mut Vec<PathBuf>,
    ) -> Result<Option<(Arc<Object>, FoundBy)>, Bad> {
        let mut chain = vec![self.loaded[requester].object.clone()];
        let mut last = requester;
        while let Some(loader) = self.loaders[last] {
            chain.push(self.loaded[loader].object.clone());
            last = loader;
        }
        // The executable's DT_RPATH counts for everything.
        chain.extend((last != 0).then(|| self.loaded[0].object.clone()));
        self.searcher.search(name, &chain, tried)
    }

    fn miss(&self, name: String, requester: usize) -> Miss {
        let mut tried = Vec::new();
        let _ = self.search(&name, requester, &mut tried);
        Miss {
            name,
            requester,
            tried,
        }
    }

    fn add(
        &mut self,
        object: Arc<Object>,
        name: String,
        requester: Option<usize>,
        loader: Option<usize>,
        rule: FoundBy,
    ) -> usize {
        let index = self.loaded.len();
        // The kernel maps the executable and its loader, so the loader knows them by name only.
        if !matches!(rule, FoundBy::Executable | FoundBy::Interpreter) {
            self.ids.entry(object.id).or_insert(index);
        }
        if rule != FoundBy::Executable {
            self.names.entry(name.clone()).or_insert(index);
            self.names
                .entry(object.path.to_string_lossy().into_owned())
                .or_insert(index);
        }
        if let Some(soname) = &object.soname {
            self.names.entry(soname.clone()).or_insert(index);
        }
        self.loaded.push(LoadedObject {
            object,
            name,
            requester,
            rule,
            answers_soname: false,
        });
        self.loaders.push(loader);
        index
    }

    /// The first version node that one of these objects requires and its file does not define.
    fn missing_version(&self, objects: Range<usize>) -> Option<LoadFailure> {
        for requester in objects {
            for (name, versions) in &self.loaded[requester].object.required_versions {
                let Some(index) = self.names.get(name) else {
                    continue;
                };
                let file = &self.loaded[*index].object;
                let Some(defined) = &file.defines else {
                    continue;
                };
                if let Some(version) = versions.iter().find(|version| !defined.contains(version)) {
                    return Some(LoadFailure::Version {
                        file: file.path.clone(),
                        version: version.clone(),
                        requester,
                    });
                }
            }
        }
        None
    }
}

fn read(searcher: &Searcher<'_>, path: &Path) -> Result<Arc<Object>, LoadFailure> {
    searcher.read(path).map_err(|refusal| {
        let path = path.to_owned();
        match refusal {
            PathRefusal::Absent(_) => LoadFailure::Unreadable { path },
            PathRefusal::Foreign => LoadFailure::OtherMachine { path },
            PathRefusal::Bad(why) => LoadFailure::Bad {
                path,
                why,
                requester: 0,
            },
        }
    })
}
