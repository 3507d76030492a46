//! The order in which glibc looks for a name: DT_RPATH of the requester and of those who loaded it,
//! `LD_LIBRARY_PATH`, DT_RUNPATH of the requester, `/etc/ld.so.cache`, the default directories.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::environment::library_path_elements;
use crate::formats::elf::{self, Elf};
use crate::formats::ldcache::LdCache;
use crate::host::{FileId, Host};

/// What the loader reads of a file.
#[derive(Debug)]
pub struct Object {
    /// The path it was found under: `$ORIGIN` is this path's directory, links not resolved.
    pub path: PathBuf,
    pub id: FileId,
    pub soname: Option<String>,
    pub needed: Vec<String>,
    pub rpath: Option<Vec<u8>>,
    pub runpath: Option<Vec<u8>>,
    pub no_defaults: bool,
}

/// Why a file was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    Path,
    Rpath,
    LibraryPath,
    Runpath,
    Cache,
    Default,
}

pub struct Searcher<'h> {
    host: &'h Host,
    machine: u16,
    library_path: Vec<OsString>,
    /// Its directories, where they are the same for every executable.
    fixed_library_path: Option<Vec<PathBuf>>,
    cache: LdCache,
    defaults: Vec<PathBuf>,
    tokens: Tokens,
    objects: RefCell<HashMap<PathBuf, Option<Rc<Object>>>>,
}

impl<'h> Searcher<'h> {
    /// For programs of this machine in the host's environment.
    pub fn new(host: &'h Host, machine: u16) -> Searcher<'h> {
        let elements = host.env.get("LD_LIBRARY_PATH").map(library_path_elements).unwrap_or_default();
        let cache = host.read(Path::new("/etc/ld.so.cache")).ok();
        let defaults = default_directories(host, machine);
        Searcher {
            host,
            machine,
            // An empty element is the current directory, as is a relative one's start.
            fixed_library_path: elements
                .iter()
                .map(|element| {
                    (!element.as_bytes().contains(&b'$')).then(|| host.absolute(Path::new(element)))
                })
                .collect(),
            library_path: elements,
            cache: cache.and_then(|bytes| LdCache::parse(&bytes, machine).ok()).unwrap_or_default(),
            tokens: Tokens::new(host, machine),
            defaults,
            objects: RefCell::default(),
        }
    }

    /// Reads a file as the loader would; none when it is not an object for this machine.
    pub fn object(&self, path: &Path) -> Option<Rc<Object>> {
        if let Some(known) = self.objects.borrow().get(path) {
            return known.clone();
        }
        let object = self.read(path).map(Rc::new);
        self.objects.borrow_mut().insert(path.to_owned(), object.clone());
        object
    }

    /// What the loader takes for `name`, asked for by the first of `chain`, which was loaded by the second,
    /// and so on up to the executable.
    pub fn find(&self, name: &str, chain: &[Rc<Object>]) -> Option<(Rc<Object>, Rule)> {
        let requester = chain.first()?;
        if name.contains('/') {
            let path = self.expand(name.as_bytes(), &requester.path)?;
            return self.object(&path).map(|object| (object, Rule::Path));
        }
        let within = |directories: &[PathBuf], rule| {
            directories
                .iter()
                .find_map(|directory| self.object(&directory.join(name)))
                .map(|found| (found, rule))
        };
        if let Some(found) = within(&self.rpath_directories(chain), Rule::Rpath) {
            return Some(found);
        }
        if let Some(found) = within(&self.library_path_directories(chain), Rule::LibraryPath) {
            return Some(found);
        }
        if let Some(found) = within(&self.runpath_directories(requester), Rule::Runpath) {
            return Some(found);
        }
        let is_default = |path: &Path| self.defaults.iter().any(|default| path.starts_with(default));
        let cached = self.cache.get(name).filter(|path| !(requester.no_defaults && is_default(path)));
        if let Some(object) = cached.and_then(|path| self.object(path)) {
            return Some((object, Rule::Cache));
        }
        if requester.no_defaults { None } else { within(&self.defaults, Rule::Default) }
    }

    /// The directories that come before `LD_LIBRARY_PATH` for names that the first of `chain` asks for.
    /// A requester with a DT_RUNPATH has none: it shields from every DT_RPATH.
    pub fn rpath_directories(&self, chain: &[Rc<Object>]) -> Vec<PathBuf> {
        let mut directories = Vec::new();
        if chain.first().is_some_and(|requester| requester.runpath.is_some()) {
            return directories;
        }
        for object in chain {
            if let (Some(rpath), None) = (&object.rpath, &object.runpath) {
                for directory in self.directories(rpath, object) {
                    if !directories.contains(&directory) {
                        directories.push(directory);
                    }
                }
            }
        }
        directories
    }

    /// The directories of `LD_LIBRARY_PATH`, in which `$ORIGIN` is the executable's.
    fn library_path_directories(&self, chain: &[Rc<Object>]) -> Cow<'_, [PathBuf]> {
        if let Some(fixed) = &self.fixed_library_path {
            return Cow::Borrowed(fixed);
        }
        let origin = chain.last().and_then(|executable| executable.path.parent());
        let expanded = self.library_path.iter().filter_map(|e| self.tokens.expand(e.as_bytes(), origin));
        Cow::Owned(expanded.map(|element| self.host.absolute(&element)).collect())
    }

    /// The directories of an object's own DT_RUNPATH, which come after `LD_LIBRARY_PATH`.
    pub fn runpath_directories(&self, object: &Object) -> Vec<PathBuf> {
        object.runpath.as_ref().map(|runpath| self.directories(runpath, object)).unwrap_or_default()
    }

    fn read(&self, path: &Path) -> Option<Object> {
        let stat = self.host.stat(path).ok().filter(crate::host::Stat::is_file)?;
        let data = self.host.map(path).ok()?;
        let elf = Elf::parse(&data).ok().filter(|elf| elf.machine() == self.machine)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Some(Object {
            path: path.to_owned(),
            id: stat.id,
            soname: elf.soname().map(text),
            needed: elf.needed().map(text).collect(),
            rpath: elf.rpath().map(<[u8]>::to_vec),
            runpath: elf.runpath().map(<[u8]>::to_vec),
            no_defaults: elf.has_no_default_libraries(),
        })
    }

    fn directories(&self, list: &[u8], object: &Object) -> Vec<PathBuf> {
        list.split(|byte| *byte == b':').filter_map(|element| self.expand(element, &object.path)).collect()
    }

    fn expand(&self, element: &[u8], object: &Path) -> Option<PathBuf> {
        // An empty element is the current directory.
        self.tokens.expand(element, object.parent()).map(|path| self.host.absolute(&path))
    }
}

/// What the loader puts in for `$LIB` and `$PLATFORM`; `$ORIGIN` is another one for each file.
#[derive(Clone, Copy, Debug)]
pub struct Tokens {
    lib: &'static str,
    platform: &'static str,
}

impl Tokens {
    pub fn new(host: &Host, machine: u16) -> Tokens {
        let platform = if machine == elf::AARCH64 { "aarch64" } else { "x86_64" };
        Tokens { lib: library_directory(host, machine), platform }
    }

    /// An element of a search path with `$ORIGIN`, `$LIB` and `$PLATFORM` put in, with and without braces;
    /// none where it starts from an origin that is not known.
    pub fn expand(&self, element: &[u8], origin: Option<&Path>) -> Option<PathBuf> {
        let origin = origin.map(|origin| origin.as_os_str().as_bytes());
        let mut path = Vec::with_capacity(element.len());
        let mut rest = element;
        while let Some(at) = memchr::memchr(b'$', rest) {
            path.extend_from_slice(&rest[..at]);
            rest = &rest[at + 1..];
            let tokens: [(&[u8], Option<&[u8]>); 3] = [
                (b"ORIGIN", origin),
                (b"LIB", Some(self.lib.as_bytes())),
                (b"PLATFORM", Some(self.platform.as_bytes())),
            ];
            let token = tokens.iter().find_map(|(name, value)| {
                let braced = rest
                    .strip_prefix(b"{")
                    .and_then(|r| r.strip_prefix(*name))
                    .and_then(|r| r.strip_prefix(b"}"));
                braced.or_else(|| rest.strip_prefix(*name)).map(|after| (after, value))
            });
            match token {
                Some((after, value)) => {
                    path.extend_from_slice((*value)?);
                    rest = after;
                }
                None => path.push(b'$'),
            }
        }
        path.extend_from_slice(rest);
        Some(PathBuf::from(OsString::from_vec(path)))
    }
}

/// The directories that the C library was built to look into last.
pub fn default_directories(host: &Host, machine: u16) -> Vec<PathBuf> {
    let library = library_directory(host, machine);
    let mut directories = vec![format!("/{library}"), format!("/usr/{library}")];
    if library.contains('/') {
        directories.extend(["/lib".to_owned(), "/usr/lib".to_owned()]);
    }
    directories.into_iter().map(PathBuf::from).collect()
}

/// What `$LIB` stands for: Debian's multiarch directory where it exists, else `lib64`.
fn library_directory(host: &Host, machine: u16) -> &'static str {
    let multiarch = match machine {
        elf::AARCH64 => "lib/aarch64-linux-gnu",
        _ => "lib/x86_64-linux-gnu",
    };
    if host.is_directory(&Path::new("/usr").join(multiarch)) { multiarch } else { "lib64" }
}
