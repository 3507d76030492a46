//! Which modules a Python program imports: its own source and that of local modules beside it are read,
//! installed packages are only named.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::python::{Python, Run};
use super::{How, Note, Target};
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
    /// NVIDIA's library names that are written out.
    pub libraries: Vec<(String, Place)>,
    /// Whether something is run or imported that cannot be seen.
    pub is_open: bool,
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

struct Reader<'a> {
    host: &'a Host,
    python: &'a Python,
    /// The directory of the script, which is searched first.
    start: Option<PathBuf>,
    queue: VecDeque<PathBuf>,
    seen: BTreeSet<PathBuf>,
    found: Imports,
}

/// Reads what the command line runs and, from there, every local module that is imported.
pub(super) fn trace(host: &Host, python: &Python, target: &mut Target) -> Imports {
    let line = &python.command_line;
    let mut reader = Reader {
        host,
        python,
        start: None,
        queue: VecDeque::new(),
        seen: BTreeSet::new(),
        found: Imports::default(),
    };
    match &line.run {
        Run::Code(code) => {
            reader.start_at(host.cwd.clone());
            let file = PathBuf::from("-c");
            target.steps.push(super::Step { how: How::Code, to: file.clone() });
            reader.read_source(&file, code.as_bytes());
        }
        Run::Script(script) => {
            let mut script = host.absolute(script);
            if host.is_directory(&script) {
                script = script.join("__main__.py");
            }
            target.step(How::Script, &script);
            let real = host.canonical(&script).unwrap_or_else(|_| script.clone());
            if let Some(directory) = real.parent() {
                reader.start_at(directory.to_owned());
            }
            reader.read_file(&script, target);
        }
        Run::Module(module) => {
            reader.start_at(host.cwd.clone());
            target.steps.push(super::Step { how: How::Module, to: PathBuf::from(module) });
            let place = Place { file: PathBuf::from("-m"), line: 1 };
            let module = module.to_string_lossy().into_owned();
            let import =
                Import { module: format!("{module}.__main__"), level: 0, names: Vec::new(), line: 1 };
            reader.follow(&import, &place, None);
        }
        Run::Unknown => reader.found.is_open = true,
    }
    while let Some(file) = reader.queue.pop_front() {
        reader.read_file(&file, target);
    }
    reader.found
}

impl Reader<'_> {
    fn start_at(&mut self, directory: PathBuf) {
        if !self.python.command_line.safe_path {
            self.start = Some(directory);
        }
    }

    fn read_file(&mut self, file: &Path, target: &mut Target) {
        if !self.seen.insert(file.to_owned()) {
            return;
        }
        if self.seen.len() > FILE_LIMIT {
            self.found.is_open = true;
            return;
        }
        target.watched.insert(file.to_owned());
        match self.host.read(file) {
            Ok(bytes) => self.read_source(file, &bytes),
            Err(error) => {
                self.found.is_open = true;
                target.notes.push(Note::SourceNotRead { file: file.to_owned(), why: error.to_string() });
            }
        }
    }

    fn read_source(&mut self, file: &Path, bytes: &[u8]) {
        let read = source::read(bytes);
        self.found.is_open |= read.dynamic;
        for (line, text) in &read.strings {
            for name in names::libraries(text.as_bytes()) {
                self.found.libraries.push((name, Place { file: file.to_owned(), line: *line }));
            }
        }
        for import in &read.imports {
            let place = Place { file: file.to_owned(), line: import.line };
            self.follow(import, &place, file.parent());
        }
    }

    fn follow(&mut self, import: &Import, place: &Place, beside: Option<&Path>) {
        if import.level > 0 {
            let Some(base) = beside.and_then(|directory| directory.ancestors().nth(import.level - 1)) else {
                return;
            };
            self.queue_module(base, import);
            return;
        }
        let Some(top) = import.module.split('.').next().filter(|top| !top.is_empty()) else { return };
        let local =
            self.start.iter().chain(&self.python.path).find(|directory| self.stands_in(directory, top));
        if let Some(directory) = local.cloned() {
            self.queue_module(&directory, import);
            return;
        }
        if self.python.standard.iter().any(|directory| self.stands_in(directory, top)) {
            return;
        }
        if self.python.site_packages.iter().any(|directory| self.stands_in(directory, top)) {
            self.found.installed.entry(top.to_owned()).or_insert_with(|| place.clone());
        }
        // What is nowhere is built into the interpreter, or its import will fail.
    }

    /// The files of a dotted module below a directory, and of the names imported from it.
    fn queue_module(&mut self, base: &Path, import: &Import) {
        let mut directory = base.to_owned();
        for part in import.module.split('.').filter(|part| !part.is_empty()) {
            self.queue_if_there(directory.join(format!("{part}.py")));
            directory.push(part);
            self.queue_if_there(directory.join("__init__.py"));
        }
        for name in &import.names {
            self.queue_if_there(directory.join(format!("{name}.py")));
            self.queue_if_there(directory.join(name).join("__init__.py"));
        }
    }

    fn queue_if_there(&mut self, file: PathBuf) {
        if !self.seen.contains(&file) && self.host.is_file(&file) {
            self.queue.push_back(file);
        }
    }

    /// Whether a directory holds a module of this name: a package, a file, an extension.
    fn stands_in(&self, directory: &Path, top: &str) -> bool {
        if self.host.is_file(&directory.join(format!("{top}.py")))
            || self.host.is_directory(&directory.join(top))
        {
            return true;
        }
        let is_extension = |name: &OsStr| {
            let name = name.as_bytes();
            name.starts_with(top.as_bytes()) && name.get(top.len()) == Some(&b'.') && name.ends_with(b".so")
        };
        self.host.list(directory).unwrap_or_default().iter().any(|entry| is_extension(&entry.name))
    }
}
