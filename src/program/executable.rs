//! An ELF executable: the libraries that its start-up closure is linked against, and the names in its constants that it may
//! open at run time.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::model::{Program, StepKind};
use super::native;
use super::note::{Note, Packer};
use crate::catalog::catalog;
use crate::environment::depends_on_directory;
use crate::error::{Error, ExecRefusal};
use crate::formats::elf::{AARCH64, Elf, ElfError, X86_64};
use crate::formats::symbols;
use crate::formats::{names, pyinstaller};
use crate::host::Host;
use crate::loader::closure::{Consumer, Walk};
use crate::loader::search::{Object, Searcher};
use crate::requirements::{
    Asker, Before, EarlierDirectory, ImportCertainty, LibraryRequirement, Load, Need, Want,
};
use crate::variables::LIBRARY_PATH;

/// The functions by which a program changes its environment or starts a program with another environment.
const CHANGES_ENVIRONMENT: [&str; 7] = [
    "setenv",
    "putenv",
    "execve",
    "execle",
    "execvpe",
    "posix_spawn",
    "posix_spawnp",
];

/// The executable that the kernel will run.
pub(super) struct ExecutableImage {
    pub path: PathBuf,
    pub machine: u16,
}

fn not_executable(path: &Path, error: io::Error) -> Error {
    Error::NotExecutable {
        path: path.to_owned(),
        why: ExecRefusal::System { error },
    }
}

/// Inspects the executable. If it cannot be pinned, a note is added, and the result is `None`.
pub(super) fn inspect(
    host: &Host,
    path: &Path,
    program: &mut Program,
) -> Result<Option<ExecutableImage>, Error> {
    let real = host
        .canonical(path)
        .map_err(|error| not_executable(path, error))?;
    program.watched.insert(real.clone());
    if let Some(why) = secure_execution(host, &real) {
        let data = host.map(&real).ok();
        if let Some(machine) = data.and_then(|data| Some(Elf::parse(&data).ok()?.machine())) {
            program.machine = machine;
        }
        let names = own_library(host, &real);
        program.notes.push(Note::SecureExecution { why, names });
        return Ok(None);
    }
    let data = match host.map(&real) {
        Ok(data) => data,
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            program.notes.push(Note::NotReadable);
            return Ok(None);
        }
        Err(error) => return Err(not_executable(path, error)),
    };
    match pinnable(host, &real, &data, program) {
        Ok(machine) => Ok(Some(ExecutableImage {
            path: path.to_owned(),
            machine,
        })),
        Err(note) => {
            program.notes.extend(note);
            Ok(None)
        }
    }
}

/// The machine of an executable that can be pinned. Fails with the reason why it cannot, unless that is in the notes already.
fn pinnable(
    host: &Host,
    real: &Path,
    data: &[u8],
    program: &mut Program,
) -> Result<u16, Option<Note>> {
    let elf = match Elf::parse(data) {
        Ok(elf) if matches!(elf.machine(), X86_64 | AARCH64) => elf,
        Ok(_) | Err(ElfError::WrongClass) => return Err(Some(Note::ForeignMachine)),
        Err(ElfError::Malformed(why)) => {
            let why = why.to_owned();
            return Err(Some(Note::Malformed { why }));
        }
        // A program for several systems, or a script without a `#!` line: both are for a shell, and the kernel refuses them.
        Err(_) => {
            if data.starts_with(b"MZqFpD")
                && let Some(names) = library_of_module(host, real)
            {
                return Err(Some(Note::Static { names: Some(names) }));
            }
            not_read(program, Path::new("/bin/sh"));
            return Err(None);
        }
    };
    if let Some(by) = packer(host, real, data, program) {
        // An AppImage mounts an image and runs the program in it, with a loader of its own.
        if by == Packer::AppImage {
            return Err(Some(Note::Packed { by }));
        }
        program.notes.push(Note::Packed { by });
    }
    match elf.interpreter().map(PathBuf::from) {
        None => Err(Some(Note::Static {
            names: library_of_module(host, real).or_else(|| first_library(&elf)),
        })),
        Some(loader) if loader.to_string_lossy().contains("ld-musl") => {
            Err(Some(Note::ForeignLoader {
                loader,
                names: first_library(&elf),
            }))
        }
        Some(_) => Ok(elf.machine()),
    }
}

/// A library of a known family that a module of the program is linked against.
fn library_of_module(host: &Host, real: &Path) -> Option<String> {
    native::modules(host, real).into_iter().find_map(|module| {
        let data = host.map(&module).ok()?;
        linked_library(&Elf::parse(&data).ok()?)
    })
}

fn linked_library(elf: &Elf<'_>) -> Option<String> {
    elf.needed()
        .filter_map(|name| std::str::from_utf8(name).ok())
        .find(|name| is_library(name))
        .map(|name| file_name(name).to_owned())
}

/// A library of a known family that a dynamically linked program is linked against, or that its constants name.
pub(super) fn own_library(host: &Host, real: &Path) -> Option<String> {
    let data = host.map(real).ok()?;
    let elf = Elf::parse(&data).ok()?;
    elf.interpreter()?;
    linked_library(&elf).or_else(|| first_library(&elf))
}

/// Adds a note about a script that is not read, unless another note already covers it.
fn not_read(program: &mut Program, interpreter: &Path) {
    if !program.starts_nothing && !program.notes.iter().any(Note::hides_a_program) {
        program.notes.push(Note::ScriptNotRead {
            interpreter: interpreter.to_owned(),
        });
    }
}

/// The packer of a program that puts its own directories first in `LD_LIBRARY_PATH`.
fn packer(host: &Host, real: &Path, data: &[u8], program: &mut Program) -> Option<Packer> {
    if matches!(data.get(8..11), Some(b"AI\x01" | b"AI\x02")) {
        return Some(Packer::AppImage);
    }
    let archive = pyinstaller::archive(data)?;
    let parent = real.parent().unwrap_or(Path::new("/"));
    let mut parts = parent.join(archive.directory.as_deref().unwrap_or("_internal"));
    // Before PyInstaller 6, the parts of a directory are beside the program itself.
    if !host.is_directory(&parts) && host.is_file(&parent.join("base_library.zip")) {
        parent.clone_into(&mut parts);
    }
    // A program in one file unpacks its parts when it starts.
    program.frozen = Some(parts.clone()).filter(|parts| host.is_directory(parts));
    let carried = archive
        .libraries
        .iter()
        .map(PathBuf::from)
        .chain(host.walk(&parts, &|_| false));
    program.watched.insert(parts);
    let libraries: BTreeSet<String> = carried
        .filter_map(|path| path.file_name()?.to_str().map(str::to_owned))
        .filter(|name| is_library(name))
        .collect();
    Some(Packer::PyInstaller {
        libraries: libraries.into_iter().collect(),
    })
}

/// A library of a known family that the constants name.
fn first_library(elf: &Elf<'_>) -> Option<String> {
    elf.constants().into_iter().find_map(|constants| {
        let mut found = names::libraries(constants);
        found.extend(names::packed_libraries(constants, &is_library));
        found.into_iter().find(|name| is_library(name))
    })
}

/// Reads the requirements in the closure and the constants of an executable.
pub(super) fn read(
    host: &Host,
    searcher: &Searcher<'_>,
    image: &ExecutableImage,
    program: &mut Program,
) {
    let real = host
        .canonical(&image.path)
        .unwrap_or_else(|_| image.path.clone());
    let Some(executable) = searcher.object(&real) else {
        return;
    };
    program.owner = host.stat(&real).ok().map(|stat| (stat.uid, stat.gid));
    let mut walk = Walk::new(searcher, Some(executable.clone()), is_library);
    walk.add_closure(executable);
    let at_start = walk.consumers.len();
    for module in native::modules(host, &real) {
        program.has_modules = true;
        program
            .own_directories
            .extend(module.parent().map(Path::to_owned));
        program.loads.push(Load {
            may_be_first: true,
            ..Load::path(&module)
        });
        if let Some(module) = searcher.object(&module) {
            walk.add_closure(module);
        }
    }
    if program
        .steps
        .iter()
        .any(|step| matches!(step.how, StepKind::Interpreter | StepKind::Env))
    {
        not_read(program, &image.path);
    }
    let name = program
        .runs()
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let own = host.own_executable().and_then(|own| host.stat(&own)).ok();
    let own = own.filter(|_| !host.is_rerooted()).map(|own| own.id);
    let mut linked_before: BTreeSet<String> = BTreeSet::new();
    let mut next = 0;
    while let Some(consumer) = walk.consumers.get(next).cloned() {
        let is_opened = next >= at_start;
        next += 1;
        let path = &consumer.object.path;
        program.watched.insert(path.clone());
        let searched = consumer.search_first.iter().chain(&consumer.search_later);
        program.own_directories.extend(searched.cloned());
        let asker = asker(&name, path, None, ImportCertainty::Imported);
        // The program may work without a library that it opens.
        let need = if is_opened { Need::Named } else { Need::Linked };
        for mut requirement in linked(host, &consumer, &asker, need) {
            // The first requester decides where it is found; the others get the loaded one.
            if requirement
                .named()
                .is_some_and(|name| linked_before.contains(name))
            {
                requirement.search_first.clear();
            }
            program.require([requirement]);
        }
        if !is_opened {
            linked_before.extend(consumer.needed.iter().cloned());
        }
        // Libraries of the system name many that they would use if they were there.
        // cudarun's own binary names every library, and needs none.
        let is_left_out = if *path == real {
            own == Some(consumer.object.id)
        } else {
            is_system(path)
        };
        if is_left_out {
            continue;
        }
        program.depends_on_directory |= has_relative_paths(&consumer);
        for opened in opened_objects(host, searcher, &consumer, program) {
            // If it is one of NVIDIA's libraries under another file name, it opens the rest of its family.
            let soname = opened.soname.as_ref().filter(|soname| is_library(soname));
            program.require(opened_names(soname, &asker, &[], Need::Named));
            program.loads.push(Load {
                by: Some(path.clone()),
                may_be_first: true,
                ..Load::path(&opened.path)
            });
            walk.add_closure(opened);
        }
        add_written(host, &consumer, &asker, program);
    }
    drop_paths(host, program);
}

/// Adds the requirements that an object's constants name.
fn add_written(host: &Host, consumer: &Consumer, asker: &Asker, program: &mut Program) {
    let (written, is_relative) = written_in(host, consumer, asker);
    program.depends_on_directory |= is_relative;
    if !written.is_empty() && imports(consumer, &["dlmopen"]) {
        program.opens_namespaces = true;
        let path = written
            .iter()
            .flat_map(|requirement| &requirement.search_first)
            .find(|first| first.rule == Before::AbsolutePath);
        program.notes.extend(path.map(|first| Note::Namespace {
            directory: first.directory.clone(),
        }));
    }
    for requirement in written {
        let path = Some(consumer.object.path.as_path());
        program.loads.extend(Load::required(&requirement, path));
        program.require([requirement]);
    }
}

/// Drops paths in the constants for families that have other requirements: they may be only some of those that the program
/// tries.
fn drop_paths(host: &Host, program: &mut Program) {
    let named: BTreeSet<String> = program
        .library_requirements()
        .filter(|requirement| !is_tried_path(requirement))
        .map(|requirement| requirement.family.clone())
        .collect();
    let mut dropped = Vec::new();
    for requirement in program.library_requirements_mut() {
        if is_tried_path(requirement) && named.contains(&requirement.family) {
            dropped.append(&mut requirement.search_first);
        }
    }
    for EarlierDirectory { directory, .. } in dropped {
        program.tried_directories.extend(host.canonical(&directory));
        program.located.insert(directory);
    }
}

fn is_tried_path(requirement: &LibraryRequirement) -> bool {
    requirement.need == Need::Named
        && requirement
            .search_first
            .iter()
            .any(|first| first.rule == Before::AbsolutePath)
}

/// The shared objects that the constants name, by path or by a name that the loader searches for. Objects of a
/// family and those of the system do not count.
fn opened_objects(
    host: &Host,
    searcher: &Searcher<'_>,
    consumer: &Consumer,
    program: &mut Program,
) -> Vec<Arc<Object>> {
    let Ok(elf) = Elf::parse(&consumer.object.data) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    program.sets_library_path |= elf
        .constants()
        .into_iter()
        .any(|data| memchr::memmem::find(data, LIBRARY_PATH.as_bytes()).is_some())
        && imports(consumer, &CHANGES_ENVIRONMENT);
    let names: BTreeSet<String> = elf
        .constants()
        .into_iter()
        .flat_map(names::whole_objects)
        .collect();
    for name in names
        .iter()
        .filter(|name| !is_library(name) && !consumer.object.needed.contains(name))
    {
        let object = if name.contains('/') {
            program.depends_on_directory |= depends_on_directory(name.as_bytes());
            let path = host.absolute(&at_origin(name, consumer));
            program.located.insert(path.clone());
            searcher.object(&path)
        } else {
            searcher
                .find(name, &consumer.chain)
                .map(|(object, _)| object)
        };
        found.extend(object.filter(|object| !object.is_program && !is_system(&object.path)));
    }
    found
}

/// True if an object imports one of these functions.
fn imports(consumer: &Consumer, functions: &[&str]) -> bool {
    let Ok(elf) = Elf::parse(&consumer.object.data) else {
        return false;
    };
    elf.symbols().iter().any(|symbol| {
        !symbol.defined
            && functions
                .iter()
                .any(|function| symbol.name == function.as_bytes())
    })
}

/// True if an object's search path or DT_NEEDED depends on the current directory.
fn has_relative_paths(consumer: &Consumer) -> bool {
    let Object {
        rpath,
        runpath,
        needed,
        ..
    } = &*consumer.object;
    let elements = rpath
        .iter()
        .chain(runpath)
        .filter(|list| !list.is_empty())
        .flat_map(|list| list.split(|byte| *byte == b':'));
    let paths = needed
        .iter()
        .filter(|name| name.contains('/'))
        .map(String::as_bytes);
    elements.chain(paths).any(depends_on_directory)
}

/// Replaces `$ORIGIN` by the directory of the object that asks.
fn at_origin(path: &str, consumer: &Consumer) -> PathBuf {
    let origin = consumer
        .object
        .path
        .parent()
        .unwrap_or(Path::new("/"))
        .to_string_lossy();
    path.replace("${ORIGIN}", &origin)
        .replace("$ORIGIN", &origin)
        .into()
}

pub(super) fn asker(
    name: &str,
    file: &Path,
    cuda: Option<u32>,
    certainty: ImportCertainty,
) -> Asker {
    Asker {
        name: name.to_owned(),
        file: file.to_owned(),
        line: None,
        cuda,
        certainty,
    }
}

/// True if a name or a path is of a library of a known family.
pub(super) fn is_library(name: &str) -> bool {
    catalog().family_of(file_name(name)).is_some()
}

/// The requirements of an object's DT_NEEDED and imported symbols.
pub(super) fn linked(
    host: &Host,
    consumer: &Consumer,
    asker: &Asker,
    need: Need,
) -> Vec<LibraryRequirement> {
    let (paths, names): (Vec<&String>, Vec<&String>) =
        consumer.needed.iter().partition(|name| name.contains('/'));
    let mut found = opened_names(
        names,
        asker,
        &EarlierDirectory::rpath(&consumer.search_first),
        need,
    );
    found.extend(
        paths
            .into_iter()
            .filter_map(|path| by_path(host, &at_origin(path, consumer), asker, need)),
    );
    if found.is_empty() && need == Need::Linked {
        return found;
    }
    let Ok(elf) = Elf::parse(&consumer.object.data) else {
        return found;
    };
    if need != Need::Linked {
        // A build that removes libraries from DT_NEEDED loads them before the object, which requires their symbol versions.
        let files: BTreeSet<&[u8]> = elf
            .required_versions()
            .into_iter()
            .map(|(file, _)| file)
            .filter(|file| elf.needed().all(|needed| needed != *file))
            .collect();
        let names: Vec<String> = files
            .iter()
            .map(|file| String::from_utf8_lossy(file).into_owned())
            .collect();
        found.extend(opened_names(&names, asker, &[], need));
    }
    if found.is_empty() {
        return found;
    }
    let imports = symbols::imports(&elf, is_library, |file: &str, symbol: &str| {
        catalog().may_export(file_name(file), symbol)
    });
    for requirement in found.clone() {
        let mut symbols = imports.clone();
        symbols.retain(|symbol| Some(file_name(&symbol.file)) == requirement.named());
        if !symbols.is_empty() {
            found.push(LibraryRequirement {
                want: Want::Symbols(symbols),
                ..requirement
            });
        }
    }
    found
}

/// A requirement for each name of a known family.
pub(super) fn opened_names<'n>(
    names: impl IntoIterator<Item = &'n String>,
    asker: &Asker,
    search_first: &[EarlierDirectory],
    need: Need,
) -> Vec<LibraryRequirement> {
    names
        .into_iter()
        .filter_map(|name| {
            let (family, _) = catalog().family_of(name)?;
            Some(LibraryRequirement {
                family: family.name.clone(),
                want: Want::Name(name.clone()),
                need,
                by: asker.clone(),
                search_first: search_first.to_vec(),
            })
        })
        .collect()
}

/// The requirement of a library that is opened by its path, if the file exists.
pub(super) fn by_path(
    host: &Host,
    path: &Path,
    asker: &Asker,
    need: Need,
) -> Option<LibraryRequirement> {
    let path = host.absolute(path);
    let name = path.file_name()?.to_str()?.to_owned();
    let first = EarlierDirectory {
        directory: path.parent()?.to_owned(),
        rule: Before::AbsolutePath,
    };
    host.is_file(&path)
        .then(|| opened_names([&name], asker, &[first], need).pop())?
}

/// Requirements for the library names and paths in an object's constants: it may open them. The flag is true if a
/// path starts from the current directory.
pub(super) fn written_in(
    host: &Host,
    consumer: &Consumer,
    asker: &Asker,
) -> (Vec<LibraryRequirement>, bool) {
    let Ok(elf) = Elf::parse(&consumer.object.data) else {
        return (Vec::new(), false);
    };
    let (mut found, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for constants in elf.constants() {
        found.extend(names::libraries(constants));
        found.extend(names::packed_libraries(constants, &is_library));
        paths.extend(names::library_paths(constants));
    }
    consumer.object.data.release();
    found.retain(|name| is_library(name) && !consumer.needed.contains(name));
    paths.retain(|path| !consumer.needed.contains(path));
    let mut opened = opened_names(
        &found,
        asker,
        &EarlierDirectory::rpath(&consumer.search_first),
        Need::Named,
    );
    let is_relative = paths
        .iter()
        .any(|path| depends_on_directory(path.as_bytes()) && is_library(file_name(path)));
    opened.extend(
        paths
            .iter()
            .filter_map(|path| by_path(host, &at_origin(path, consumer), asker, Need::Named)),
    );
    (opened, is_relative)
}

/// The reason why the loader ignores the environment: set-user-id, set-group-id, or file capabilities.
pub(super) fn secure_execution(host: &Host, real: &Path) -> Option<&'static str> {
    let stat = host.stat(real).ok()?;
    if stat.mode & 0o4000 != 0 && stat.uid != host.uid {
        return Some("set-user-id");
    }
    if stat.mode & 0o2000 != 0
        && stat.mode & 0o010 != 0
        && (host.is_rerooted() || stat.gid != host.gid)
    {
        return Some("set-group-id");
    }
    (host.uid != 0 && host.has_capabilities(real)).then_some("file capabilities")
}

fn file_name(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

pub(super) fn is_system(path: &Path) -> bool {
    ["/lib", "/usr/lib", "/lib64", "/usr/lib64"]
        .iter()
        .any(|directory| path.starts_with(directory))
}
