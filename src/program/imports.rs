//! Which modules a Python program imports: its own source and that of local modules is read, installed
//! packages are only named.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::ops::Bound;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::arguments::Run;
use super::installed::Installed;
use super::model::{How, Program, Step};
use super::note::Note;
use super::python::{EntryKind, Python};
use crate::catalog::catalog;
use crate::formats::elf::AARCH64;
use crate::formats::names;
use crate::formats::python::{self as source, Import};
use crate::host::Host;

/// More local modules than this are a framework, not a program.
const FILE_LIMIT: usize = 500;

/// What a program's source shows.
#[derive(Debug, Default)]
pub(super) struct Imports {
    /// Installed top-level modules, with the first place that imports each.
    pub installed: BTreeMap<String, Place>,
    /// Extension modules among the program's own.
    pub extensions: BTreeMap<PathBuf, Place>,
    /// NVIDIA's library names that are written out.
    pub libraries: Vec<(String, Place)>,
    /// And absolute paths of such libraries.
    pub library_paths: Vec<(String, Place)>,
    /// Whether something is run or imported that cannot be seen.
    pub is_open: bool,
}

impl Imports {
    /// Whether all of it manages packages, and nothing else can come into play: such a program needs no
    /// library, so that what a hint says to type can always be typed.
    pub(super) fn is_tool(&self) -> bool {
        let is_tool = |module: &String| catalog().python.is_tool(module);
        !self.is_open
            && !self.installed.is_empty()
            && self.installed.keys().all(is_tool)
            && self.extensions.is_empty()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub file: PathBuf,
    pub line: usize,
}

impl Place {
    /// `train.py`, as a person would say it; `-c` for code on the command line.
    pub(super) fn name(&self) -> String {
        self.file.file_name().unwrap_or(self.file.as_os_str()).to_string_lossy().into_owned()
    }

    /// `train.py:3`
    pub(super) fn describe(&self) -> String {
        format!("{}:{}", self.name(), self.line)
    }
}

/// What stands in a directory under a module's name.
enum Found {
    /// A directory with an `__init__.py`.
    Package(PathBuf),
    Source(PathBuf),
    Extension(PathBuf),
    /// A directory without, which counts only when nothing else is found anywhere.
    Namespace(PathBuf),
}

struct Reader<'a> {
    host: &'a Host,
    python: &'a Python,
    installed: &'a Installed<'a>,
    program: &'a mut Program,
    queue: VecDeque<PathBuf>,
    seen: BTreeSet<PathBuf>,
    listings: RefCell<HashMap<PathBuf, Rc<BTreeSet<OsString>>>>,
    found: Imports,
}

/// Reads what the command line runs and, from there, every local module that is imported.
pub(super) fn trace(
    host: &Host,
    python: &Python,
    installed: &Installed<'_>,
    program: &mut Program,
) -> Imports {
    let mut reader = Reader {
        host,
        python,
        installed,
        program,
        queue: VecDeque::new(),
        seen: BTreeSet::new(),
        listings: RefCell::default(),
        found: Imports::default(),
    };
    match &python.command_line.run {
        Run::Code(code) => {
            let file = PathBuf::from("-c");
            reader.program.steps.push(Step { how: How::Code, to: file.clone() });
            reader.read_source(&file, code.as_bytes());
        }
        Run::Script(script) => {
            let mut script = host.absolute(script);
            if host.is_directory(&script) {
                script = script.join("__main__.py");
            }
            reader.program.step(How::Script, &script);
            reader.read_file(&script);
        }
        Run::Module(module) => {
            reader.program.steps.push(Step { how: How::Module, to: PathBuf::from(module) });
            let module = module.to_string_lossy().into_owned();
            let top = module.split('.').next().unwrap_or_default();
            reader.found.is_open = catalog().python.is_runner(top);
            let place = Place { file: PathBuf::from("-m"), line: 1 };
            let names = vec!["__main__".to_owned()];
            reader.follow(
                &Import { module, level: 0, names, line: 1, is_tried: false, is_outermost: false },
                &place,
                None,
            );
        }
        Run::Nothing => {}
        Run::Unknown => reader.found.is_open = true,
    }
    while let Some(file) = reader.queue.pop_front() {
        reader.read_file(&file);
    }
    reader.found
}

impl Reader<'_> {
    fn read_file(&mut self, file: &Path) {
        if !self.seen.insert(file.to_owned()) {
            return;
        }
        if self.seen.len() > FILE_LIMIT {
            self.found.is_open = true;
            return;
        }
        self.program.watched.insert(file.to_owned());
        match self.host.read(file) {
            Ok(bytes) => self.read_source(file, &bytes),
            Err(error) => {
                self.found.is_open = true;
                let note = Note::SourceNotRead { file: file.to_owned(), why: error.to_string() };
                self.program.notes.push(note);
            }
        }
    }

    fn read_source(&mut self, file: &Path, bytes: &[u8]) {
        let read = source::read(bytes);
        self.found.is_open |= read.dynamic;
        for (line, text) in &read.strings {
            let place = || Place { file: file.to_owned(), line: *line };
            let text = text.as_bytes();
            self.found.libraries.extend(names::libraries(text).into_iter().map(|name| (name, place())));
            self.found.library_paths.extend(names::library_paths(text).into_iter().map(|p| (p, place())));
        }
        for import in &read.imports {
            let place = Place { file: file.to_owned(), line: import.line };
            self.follow(import, &place, file.parent());
        }
    }

    fn follow(&mut self, import: &Import, place: &Place, beside: Option<&Path>) {
        let parts: Vec<&str> = import.module.split('.').filter(|part| !part.is_empty()).collect();
        if import.level > 0 {
            if let Some(base) = beside.and_then(|directory| directory.ancestors().nth(import.level - 1)) {
                self.descend(Found::Namespace(base.to_owned()), &parts, &import.names, place);
            }
            return;
        }
        let Some((top, rest)) = parts.split_first() else { return };
        match self.resolve(top) {
            Some((EntryKind::Standard, _)) => {}
            Some((EntryKind::Site, _)) => {
                self.found.installed.entry((*top).to_owned()).or_insert_with(|| place.clone());
            }
            Some((EntryKind::Own, found)) => self.descend(found, rest, &import.names, place),
            None if catalog().python.is_builtin(top) || import.is_tried => {}
            // Something else puts it there: a changed `sys.path`, an import hook.
            None => {
                self.found.is_open = true;
                if import.is_outermost && catalog().framework_of(top).is_some() {
                    let (module, by) = ((*top).to_owned(), place.describe());
                    self.program.notes.push(Note::NotWhereItIsSought { module, by });
                }
            }
        }
    }

    /// What Python's own search takes for a top-level module, and whether that is installed.
    fn resolve(&mut self, top: &str) -> Option<(EntryKind, Found)> {
        let mut namespace = None;
        for entry in &self.python.search {
            let directory = &entry.directory;
            if entry.kind == EntryKind::Own {
                self.watch(directory, top);
            }
            let Some(found) = self.find(directory, top) else { continue };
            let belongs = || catalog().framework_of(top).is_some();
            let is_installed = entry.kind == EntryKind::Own
                && (self.installed.brings(directory, top)
                    || belongs() && !matches!(found, Found::Namespace(_)));
            let kind = if is_installed { EntryKind::Site } else { entry.kind };
            if !matches!(found, Found::Namespace(_)) {
                return Some((kind, found));
            }
            namespace.get_or_insert((kind, found));
        }
        namespace
    }

    /// From a package down to the module that is named, and to the names imported from it.
    fn descend(&mut self, from: Found, parts: &[&str], names: &[String], place: &Place) {
        let mut found = from;
        for part in parts {
            let Some(directory) = self.enter(found, place) else { return };
            let Some(next) = self.find(&directory, part) else { return };
            found = next;
        }
        let Some(directory) = self.enter(found, place) else { return };
        for name in names {
            if let Some(found) = self.find(&directory, name) {
                self.enter(found, place);
            }
        }
    }

    /// Takes a module into what is read; the directory of a package's own modules.
    fn enter(&mut self, found: Found, place: &Place) -> Option<PathBuf> {
        match found {
            Found::Package(directory) => {
                self.queue.push_back(directory.join("__init__.py"));
                Some(directory)
            }
            Found::Namespace(directory) => Some(directory),
            Found::Source(file) => {
                self.queue.push_back(file);
                None
            }
            Found::Extension(file) => {
                self.found.extensions.entry(file).or_insert_with(|| place.clone());
                None
            }
        }
    }

    /// In the order of Python's own finder: a package, an extension, a source file.
    fn find(&self, directory: &Path, name: &str) -> Option<Found> {
        let listing = self.listing(directory);
        let below = directory.join(name);
        let is_there = listing.contains(OsStr::new(name));
        if is_there && self.host.is_file(&below.join("__init__.py")) {
            return Some(Found::Package(below));
        }
        let dotted = OsString::from(format!("{name}."));
        let files = listing
            .range::<OsStr, _>((Bound::Included(dotted.as_os_str()), Bound::Unbounded))
            .take_while(|file| file.as_bytes().starts_with(dotted.as_bytes()));
        let is_extension = |file: &&OsString| file.as_bytes().ends_with(b".so");
        if let Some(file) = files.clone().find(is_extension) {
            return Some(Found::Extension(directory.join(file)));
        }
        let source = dotted.into_vec().into_iter().chain(*b"py").collect();
        if listing.contains(&OsString::from_vec(source)) {
            return Some(Found::Source(directory.join(format!("{name}.py"))));
        }
        (is_there && self.host.is_directory(&below)).then_some(Found::Namespace(below))
    }

    /// A module of this name that appears in a directory will be another answer.
    fn watch(&mut self, directory: &Path, name: &str) {
        let short = self.python.version.as_deref().unwrap_or_default().replace("python", "").replace('.', "");
        let machine = if self.program.machine == AARCH64 { "aarch64" } else { "x86_64" };
        let own = format!(".cpython-{short}-{machine}-linux-gnu.so");
        let below = |suffix: &str| directory.join(format!("{name}{suffix}"));
        self.program.located.extend(["", ".py", ".so", ".abi3.so", &own].map(below));
        if self.listing(directory).contains(OsStr::new(name)) {
            self.program.located.insert(directory.join(name).join("__init__.py"));
        }
    }

    fn listing(&self, directory: &Path) -> Rc<BTreeSet<OsString>> {
        let mut listings = self.listings.borrow_mut();
        let read = || {
            let entries = self.host.list(directory).unwrap_or_default();
            Rc::new(entries.into_iter().map(|entry| entry.name).collect())
        };
        listings.entry(directory.to_owned()).or_insert_with(read).clone()
    }
}
