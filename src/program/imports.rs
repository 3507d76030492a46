//! The modules that a Python program imports. Reads its own source and that of local modules, and only names installed
//! packages.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::arguments::PythonCode;
use super::distributions::Installed;
use super::model::{Program, ResolveStep, StepKind};
use super::note::Note;
use super::python::{EntryKind, Python, main_file};
use crate::catalog::catalog;
use crate::formats::elf::machine_name;
use crate::formats::names;
use crate::formats::python::{self as source, Import};
use crate::host::{DirectoryEntry, Host};
use crate::inventory;
use crate::variables::LIBRARY_PATH;

/// More local modules than this are a framework, not a program.
const FILE_LIMIT: usize = 500;
/// Reading this many files of installed packages takes less time than a proof.
const INSTALLED_LIMIT: usize = 2000;

/// The imports and library names in a program's source.
#[derive(Debug, Default)]
pub(super) struct Imports {
    /// Installed top-level modules, with the first place that imports each.
    pub installed: BTreeMap<String, SourceLine>,
    /// The imports that lead into installed packages.
    pub entered: Vec<(Import, SourceLine)>,
    /// Extension modules among the program's own.
    pub extensions: BTreeMap<PathBuf, SourceLine>,
    /// Names of NVIDIA's libraries in its strings.
    pub libraries: Vec<(String, SourceLine)>,
    /// Absolute paths of such libraries.
    pub library_paths: Vec<(String, SourceLine)>,
    /// Names and paths of other libraries, as the source has them: the program may open them.
    pub opened: Vec<(String, SourceLine)>,
    /// True if it runs or imports code that cannot be seen.
    pub is_open: bool,
    /// True if it imports or calls functions that start programs.
    pub starts_programs: bool,
    /// True if it opens libraries whose names are not literals.
    pub opens_unnamed: bool,
    /// True if its arguments or files may name modules for it to import: an installed command, or an import of a loader.
    pub takes_module_names: bool,
    /// True for an installed command: a program in `bin`, or a module of a package.
    pub is_command: bool,
    /// The functions that it calls as attributes.
    pub called: BTreeSet<String>,
    /// True if one of its strings is `LD_LIBRARY_PATH`.
    pub names_library_path: bool,
}

impl Imports {
    /// True if the program only manages packages. It then needs no library, so that the commands in hints always work.
    pub(super) fn is_tool(&self) -> bool {
        !self.is_open
            && !self.installed.is_empty()
            && self
                .installed
                .keys()
                .all(|module| catalog().python.tools.contains(module))
            && self.extensions.is_empty()
    }
}

/// A line of Python source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SourceLine {
    pub file: PathBuf,
    pub line: usize,
}

impl SourceLine {
    /// `train.py`, as a person would say it; `package/__init__.py`; `-c` for code on the command line.
    pub(super) fn name(&self) -> String {
        let name = self.file.file_name().unwrap_or(self.file.as_os_str());
        let package = self.file.parent().and_then(Path::file_name);
        match package.filter(|_| name == "__init__.py") {
            Some(package) => Path::new(package).join(name),
            None => PathBuf::from(name),
        }
        .to_string_lossy()
        .into_owned()
    }

    /// `train.py:3`
    pub(super) fn describe(&self) -> String {
        format!("{}:{}", self.name(), self.line)
    }
}

/// The file or the directory of a module.
enum ModuleFile {
    /// A directory with an `__init__.py`.
    Package(PathBuf),
    Source(PathBuf),
    Extension(PathBuf),
    /// A directory without it, which counts only when nothing else is found anywhere.
    Namespace(PathBuf),
}

/// The files that are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// The program's own.
    Own,
    /// Those of installed packages too, with every import outside of functions.
    Installed,
    /// Those of installed packages other than frameworks, with the imports that run whenever the file does.
    InstalledForSure,
}

struct ImportReader<'a> {
    host: &'a Host,
    python: &'a Python,
    installed: &'a Installed<'a>,
    program: &'a mut Program,
    queue: VecDeque<PathBuf>,
    seen: BTreeSet<PathBuf>,
    found: Imports,
    reach: Reach,
}

/// Reads the code that the command line runs, and every local module that it imports.
pub(super) fn trace(
    host: &Host,
    python: &Python,
    installed: &Installed<'_>,
    program: &mut Program,
) -> Imports {
    let mut reader = ImportReader::new(host, python, installed, program);
    reader.read_startup();
    match &python.command_line.run {
        PythonCode::Code(code) => {
            let file = PathBuf::from("-c");
            reader.program.steps.push(ResolveStep {
                how: StepKind::Code,
                to: file.clone(),
            });
            reader.read_source(&file, code.as_bytes());
        }
        PythonCode::Script(script) => {
            let script = main_file(host, script);
            reader.program.step(StepKind::Script, &script);
            let directory = script.parent().and_then(Path::file_name);
            // A worker or a kernel of a package runs what it is told.
            let is_installed = python.is_in_site(host, &script);
            let is_in_bin = directory == Some(OsStr::new("bin"));
            reader.found.takes_module_names = is_installed || is_in_bin;
            reader.found.is_command = is_in_bin && !super::python::is_source(&script);
            reader.found.is_open = is_debugger(&script);
            reader.read_file(&script);
        }
        PythonCode::Module(module) => {
            reader.program.steps.push(ResolveStep {
                how: StepKind::Module,
                to: PathBuf::from(module),
            });
            let module = module.to_string_lossy().into_owned();
            let top = module.split('.').next().unwrap_or_default();
            reader.found.is_open = catalog().python.runners.contains(top);
            reader.found.takes_module_names =
                matches!(reader.resolve(top), Some((EntryKind::Site, _)));
            reader.found.is_command = reader.found.takes_module_names;
            let place = SourceLine {
                file: PathBuf::from("-m"),
                line: 1,
            };
            let names = vec!["__main__".to_owned()];
            reader.follow(
                &Import {
                    module,
                    names,
                    line: 1,
                    ..Import::default()
                },
                &place,
                None,
            );
        }
        PythonCode::Nothing => {}
        PythonCode::Unknown => reader.found.is_open = true,
    }
    reader.read_all();
    reader.found
}

/// True for the script of a debugger, or for its directory, started as a program.
fn is_debugger(script: &Path) -> bool {
    let is_directory = script.file_name() == Some(OsStr::new("__main__.py"));
    let names = script
        .ancestors()
        .skip(1)
        .take(if is_directory { 2 } else { 0 })
        .filter_map(Path::file_name)
        .chain(script.file_stem());
    names
        .filter_map(OsStr::to_str)
        .any(|name| catalog().python.debuggers.contains(name))
}

/// The installed top-level modules that an import of `modules` also imports: those in their source outside of
/// functions. `None` if there are too many files to read.
pub(super) fn reached(
    host: &Host,
    python: &Python,
    installed: &Installed<'_>,
    modules: impl Iterator<Item = String>,
) -> Option<BTreeSet<String>> {
    let mut program = Program::default();
    let mut reader = ImportReader::new(host, python, installed, &mut program);
    reader.reach = Reach::Installed;
    for (import, place) in of_modules(modules).entered {
        reader.follow(&import, &place, None);
    }
    reader.read_all();
    (reader.seen.len() <= reader.limit()).then(|| reader.found.installed.into_keys().collect())
}

/// Adds the frameworks that the program's imports of other packages certainly import too, whatever the metadata of those
/// packages says, each with the line that does: a statement outside of every block, or one that imports an extension module
/// that is built against the framework. Returns the files with these lines.
pub(super) fn add_brought(
    host: &Host,
    python: &Python,
    installed: &Installed<'_>,
    imports: &mut Imports,
) -> Vec<PathBuf> {
    let mut program = Program::default();
    let mut reader = ImportReader::new(host, python, installed, &mut program);
    reader.reach = Reach::InstalledForSure;
    for (import, place) in &imports.entered {
        reader.follow(import, place, None);
    }
    reader.read_all();
    let is_cut = reader.seen.len() > reader.limit();
    let found = reader.found;
    let mut brought = found.installed;
    for (extension, place) in found.extensions {
        for framework in &catalog().frameworks {
            let module = &framework.modules[0];
            let is_known = imports.installed.contains_key(module) || brought.contains_key(module);
            if !is_known && inventory::is_built_against(host, framework, &extension) {
                brought.insert(module.clone(), place.clone());
            }
        }
    }
    brought.retain(|module, _| {
        !imports.installed.contains_key(module) && catalog().framework_of(module).is_some()
    });
    let files = brought.values().map(|place| place.file.clone()).collect();
    imports.installed.extend(brought);
    // What the files that were not read import may be anything.
    imports.is_open |= is_cut;
    files
}

/// The imports of these modules, as if the program did nothing else.
pub(super) fn of_modules(modules: impl Iterator<Item = String>) -> Imports {
    let place = SourceLine {
        file: PathBuf::new(),
        line: 1,
    };
    let entered = modules.map(|module| {
        let import = Import {
            module,
            line: 1,
            ..Import::default()
        };
        (import, place.clone())
    });
    Imports {
        entered: entered.collect(),
        ..Imports::default()
    }
}

impl<'a> ImportReader<'a> {
    fn new(
        host: &'a Host,
        python: &'a Python,
        installed: &'a Installed<'a>,
        program: &'a mut Program,
    ) -> ImportReader<'a> {
        ImportReader {
            host,
            python,
            installed,
            program,
            queue: VecDeque::new(),
            seen: BTreeSet::new(),
            found: Imports::default(),
            reach: Reach::Own,
        }
    }

    /// Reads the code that runs before the program. Of its imports, only those of frameworks count, because it imports many
    /// modules that this program does not use; the libraries and search paths that it names count like the program's own.
    fn read_startup(&mut self) {
        if self.python.command_line.no_site {
            return;
        }
        for (file, code) in &self.python.startup {
            self.read_source(file, code.as_bytes());
        }
        let at_start =
            ["sitecustomize", "usercustomize"].map(|module| (module, self.resolve(module)));
        for (module, found) in at_start {
            let place = SourceLine {
                file: PathBuf::from(module),
                line: 1,
            };
            found.and_then(|(_, found)| self.enter(found, &place));
        }
        self.read_all();
        self.found
            .installed
            .retain(|module, _| catalog().framework_of(module).is_some());
        self.found.entered.clear();
        self.found.is_open = false;
        self.found.starts_programs = false;
        self.found.opens_unnamed = false;
        self.found.takes_module_names = false;
    }

    fn read_all(&mut self) {
        while let Some(file) = self.queue.pop_front() {
            self.read_file(&file);
        }
    }

    fn limit(&self) -> usize {
        match self.reach {
            Reach::Own => FILE_LIMIT,
            Reach::Installed | Reach::InstalledForSure => INSTALLED_LIMIT,
        }
    }

    fn read_file(&mut self, file: &Path) {
        if !self.seen.insert(file.to_owned()) {
            return;
        }
        if self.seen.len() > self.limit() {
            self.found.is_open = true;
            return;
        }
        self.program.watched.insert(file.to_owned());
        match self.host.read(file) {
            Ok(bytes) => self.read_source(file, &bytes),
            Err(error) => {
                self.found.is_open = true;
                let note = Note::SourceNotRead {
                    file: file.to_owned(),
                    why: error.to_string(),
                    is_absent: error.kind() == ErrorKind::NotFound,
                };
                self.program.notes.push(note);
            }
        }
    }

    fn read_source(&mut self, file: &Path, bytes: &[u8]) {
        let read = source::read(bytes);
        self.found.is_open |= read.dynamic;
        self.found.starts_programs |= read.starts_programs;
        self.found.opens_unnamed |= read.opens_unnamed;
        self.found.called.extend(read.called);
        self.found.names_library_path |= read
            .strings
            .iter()
            .any(|(_, text)| text.split('=').next() == Some(LIBRARY_PATH));
        for (line, text) in &read.strings {
            // Most strings name nothing.
            let place = || SourceLine {
                file: file.to_owned(),
                line: *line,
            };
            let text = text.as_bytes();
            for name in names::libraries(text) {
                self.found.libraries.push((name, place()));
            }
            for path in names::library_paths(text) {
                self.found.library_paths.push((path, place()));
            }
            if let Some(name) = other_library(text) {
                self.found.opened.push((name.to_owned(), place()));
            }
        }
        let reach = self.reach;
        for import in read.imports.iter().filter(|import| match reach {
            Reach::Own => true,
            Reach::Installed => !import.is_called,
            Reach::InstalledForSure => import.is_outermost,
        }) {
            let place = SourceLine {
                file: file.to_owned(),
                line: import.line,
            };
            self.follow(import, &place, file.parent());
        }
    }

    fn follow(&mut self, import: &Import, place: &SourceLine, beside: Option<&Path>) {
        let parts: Vec<&str> = import
            .module
            .split('.')
            .filter(|part| !part.is_empty())
            .collect();
        if import.level > 0 {
            if let Some(base) =
                beside.and_then(|directory| directory.ancestors().nth(import.level - 1))
            {
                self.descend(
                    ModuleFile::Namespace(base.to_owned()),
                    &parts,
                    &import.names,
                    place,
                );
            }
            return;
        }
        let Some((top, rest)) = parts.split_first() else {
            return;
        };
        let loaders = &catalog().python.loaders;
        self.found.takes_module_names |= loaders.contains(*top) || loaders.contains(&import.module);
        match self.resolve(top) {
            Some((EntryKind::Standard, _)) => {}
            Some((EntryKind::Site, found)) => {
                // Several of NVIDIA's packages share one directory, so the module below it decides.
                let mut modules: Vec<String> = rest
                    .iter()
                    .copied()
                    .chain(import.names.iter().map(String::as_str))
                    .map(|module| format!("{top}.{module}"))
                    .collect();
                modules.retain(|module| catalog().framework_of(module).is_some());
                if modules.is_empty() {
                    modules.push((*top).to_owned());
                }
                for module in modules {
                    self.found
                        .installed
                        .entry(module)
                        .or_insert_with(|| place.clone());
                }
                match self.reach {
                    Reach::Own => self.found.entered.push((import.clone(), place.clone())),
                    Reach::InstalledForSure if catalog().framework_of(top).is_some() => {}
                    Reach::Installed | Reach::InstalledForSure => {
                        self.descend(found, rest, &import.names, place);
                    }
                }
            }
            Some((EntryKind::Own, found)) => self.descend(found, rest, &import.names, place),
            // A module without a file may be compiled into the interpreter.
            None if top.starts_with('_')
                || catalog().python.builtin.contains(*top)
                || import.is_tried => {}
            // A changed `sys.path` or an import hook provides it.
            None => {
                self.found.is_open = true;
                if import.is_outermost && catalog().framework_of(top).is_some() {
                    let (module, by) = ((*top).to_owned(), place.describe());
                    self.program
                        .notes
                        .push(Note::NotWhereItIsSought { module, by });
                }
            }
        }
    }

    /// The file that Python would import for a top-level module, and its kind.
    fn resolve(&mut self, top: &str) -> Option<(EntryKind, ModuleFile)> {
        let mut namespace = None;
        for entry in &self.python.search {
            let directory = &entry.directory;
            if entry.kind == EntryKind::Own {
                self.watch(directory, top);
            }
            let Some(found) = self.find(directory, top) else {
                continue;
            };
            let is_namespace = matches!(found, ModuleFile::Namespace(_));
            let is_installed = entry.kind == EntryKind::Own
                && (self.installed.brings(directory, top)
                    || !is_namespace && catalog().framework_of(top).is_some());
            let kind = if is_installed {
                EntryKind::Site
            } else {
                entry.kind
            };
            if !is_namespace {
                return Some((kind, found));
            }
            namespace.get_or_insert((kind, found));
        }
        namespace
    }

    /// Follows a dotted name down from a package, and then the names imported from that module.
    fn descend(&mut self, from: ModuleFile, parts: &[&str], names: &[String], place: &SourceLine) {
        let mut found = from;
        for part in parts {
            let Some(directory) = self.enter(found, place) else {
                return;
            };
            let Some(next) = self.find(&directory, part) else {
                return;
            };
            found = next;
        }
        let Some(directory) = self.enter(found, place) else {
            return;
        };
        for name in names {
            if let Some(found) = self.find(&directory, name) {
                self.enter(found, place);
            }
        }
    }

    /// Queues a module to be read. Returns the directory of a package's own modules.
    fn enter(&mut self, found: ModuleFile, place: &SourceLine) -> Option<PathBuf> {
        match found {
            ModuleFile::Package(directory) => {
                self.queue.push_back(directory.join("__init__.py"));
                Some(directory)
            }
            ModuleFile::Namespace(directory) => Some(directory),
            ModuleFile::Source(file) => {
                self.queue.push_back(file);
                None
            }
            ModuleFile::Extension(file) => {
                self.found
                    .extensions
                    .entry(file)
                    .or_insert_with(|| place.clone());
                None
            }
        }
    }

    /// Finds a module in the order of Python's own finder: a package, an extension, a source file.
    fn find(&self, directory: &Path, name: &str) -> Option<ModuleFile> {
        let listing = self.host.listing(directory).unwrap_or_default();
        let below = directory.join(name);
        let is_there = has(&listing, name);
        if is_there && self.host.is_file(&below.join("__init__.py")) {
            return Some(ModuleFile::Package(below));
        }
        let dotted = format!("{name}.");
        let first = listing.partition_point(|entry| entry.name.as_os_str() < OsStr::new(&dotted));
        let mut files = listing[first..]
            .iter()
            .map(|entry| &entry.name)
            .take_while(|file| file.as_bytes().starts_with(dotted.as_bytes()));
        if let Some(file) = files.find(|file| self.is_extension(&file.as_bytes()[dotted.len()..])) {
            return Some(ModuleFile::Extension(directory.join(file)));
        }
        let source = format!("{name}.py");
        // Python passes over a link that leads nowhere.
        if has(&listing, &source) && self.host.is_file(&directory.join(&source)) {
            return Some(ModuleFile::Source(directory.join(source)));
        }
        (is_there && self.host.is_directory(&below)).then_some(ModuleFile::Namespace(below))
    }

    /// True if this Python takes a file of this suffix for an extension module: `cpython-39-x86_64-linux-gnu.so` is for Python
    /// 3.9 alone.
    fn is_extension(&self, suffix: &[u8]) -> bool {
        let Some(tag) = suffix.strip_suffix(b".so") else {
            return suffix == b"so";
        };
        let Some(version) = &self.python.version else {
            return true;
        };
        let own = format!(
            "c{}-",
            version.replace("python", "python-").replace('.', "")
        );
        let is_pypy = version.starts_with("pypy") && tag.starts_with(b"pypy");
        tag == b"abi3" || is_pypy || tag.starts_with(own.as_bytes())
    }

    /// Watches for a module of this name that appears in a directory later.
    fn watch(&mut self, directory: &Path, name: &str) {
        let short = self
            .python
            .version
            .as_deref()
            .unwrap_or_default()
            .replace("python", "")
            .replace('.', "");
        let machine = machine_name(self.program.machine);
        let own = format!(".cpython-{short}-{machine}-linux-gnu.so");
        self.program.located.extend(
            ["", ".py", ".so", ".abi3.so", &own]
                .map(|suffix| directory.join(format!("{name}{suffix}"))),
        );
        if has(&self.host.listing(directory).unwrap_or_default(), name) {
            self.program
                .located
                .insert(directory.join(name).join("__init__.py"));
        }
    }
}

/// True if a sorted listing has this name.
fn has(listing: &[DirectoryEntry], name: &str) -> bool {
    listing
        .binary_search_by(|entry| entry.name.as_os_str().cmp(OsStr::new(name)))
        .is_ok()
}

/// The text if it is the name or the path of a library that is not NVIDIA's.
fn other_library(text: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(text).ok()?;
    let name = text.rsplit('/').next()?;
    let is_library = names::split(name).is_some() && catalog().family_of(name).is_none();
    is_library.then_some(text)
}
