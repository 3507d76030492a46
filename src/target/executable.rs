//! An ELF executable: what its own start-up closure links against, and the names in its constants that it
//! may open at run time.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::{Asker, First, How, Need, Note, Requirement, Standing, Target, Want};
use crate::catalog::catalog;
use crate::error::Error;
use crate::formats::elf::{AARCH64, Elf, ElfError, X86_64};
use crate::formats::names;
use crate::host::Host;
use crate::loader::closure::{Consumer, Walk};
use crate::loader::search::{Object, Searcher};
use crate::symbols;

/// The executable that the kernel will run.
pub(super) struct Image {
    pub path: PathBuf,
    pub machine: u16,
}

/// Looks at the executable; none when nothing about it can be pinned, which is then noted.
pub(super) fn inspect(host: &Host, path: &Path, target: &mut Target) -> Result<Option<Image>, Error> {
    let refused = |why: String| Error::NotExecutable { path: path.to_owned(), why };
    let real = host.canonical(path).map_err(|error| refused(error.to_string()))?;
    target.watched.insert(real.clone());
    if let Some(why) = secure_execution(host, &real) {
        target.notes.push(Note::SecureExecution { why });
        return Ok(None);
    }
    let data = host.map(&real).map_err(|error| refused(error.to_string()))?;
    let elf = match Elf::parse(&data) {
        Ok(elf) => elf,
        Err(ElfError::WrongClass) => {
            target.notes.push(Note::ForeignMachine);
            return Ok(None);
        }
        // A script without a `#!` line is for the shell that finds it; the kernel will say so.
        Err(_) => {
            target.notes.push(Note::ScriptNotRead { interpreter: PathBuf::from("/bin/sh") });
            return Ok(None);
        }
    };
    if !matches!(elf.machine(), X86_64 | AARCH64) {
        target.notes.push(Note::ForeignMachine);
        return Ok(None);
    }
    match elf.interpreter().map(PathBuf::from) {
        None => target.notes.push(Note::Static),
        Some(loader) if loader.to_string_lossy().contains("ld-musl") => {
            target.notes.push(Note::ForeignLoader { loader });
        }
        Some(_) => return Ok(Some(Image { path: path.to_owned(), machine: elf.machine() })),
    }
    Ok(None)
}

/// What the closure and the constants of an executable ask for.
pub(super) fn read(host: &Host, searcher: &Searcher<'_>, image: &Image, target: &mut Target) {
    let real = host.canonical(&image.path).unwrap_or_else(|_| image.path.clone());
    let Some(executable) = searcher.object(&real) else { return };
    let mut walk = Walk::new(searcher, Some(executable.clone()), is_library);
    walk.from(executable);
    target.watched.extend(walk.consumers.iter().map(|consumer| consumer.object.path.clone()));
    if target.steps.iter().any(|step| matches!(step.how, How::Interpreter | How::Env)) {
        target.notes.push(Note::ScriptNotRead { interpreter: image.path.clone() });
    }
    let name = target.program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for consumer in &walk.consumers {
        target.own_directories.extend(consumer.search_later.iter().cloned());
        let by = asker(&name, &consumer.object.path, None, Standing::Imported);
        target.requirements.extend(linked(host, consumer, &by, Need::Linked));
        // Libraries of the system name many that they would use if they were there.
        if !is_system(&consumer.object.path) || consumer.object.path == real {
            let opened = names_in(host, &consumer.object);
            target.requirements.extend(opened_names(
                &opened,
                &by,
                &First::rpath(&consumer.search_first),
                Need::Named,
            ));
        }
    }
}

pub(super) fn asker(name: &str, file: &Path, cuda: Option<u32>, standing: Standing) -> Asker {
    Asker { name: name.to_owned(), file: file.to_owned(), line: None, cuda, standing }
}

pub(super) fn is_library(name: &str) -> bool {
    catalog().family_of(name).is_some()
}

/// The names and the symbols that an object's DT_NEEDED and imports ask for.
pub(super) fn linked(host: &Host, consumer: &Consumer, by: &Asker, need: Need) -> Vec<Requirement> {
    let mut found = opened_names(&consumer.needed, by, &First::rpath(&consumer.search_first), need);
    if consumer.needed.is_empty() {
        return found;
    }
    let Ok(data) = host.map(&consumer.object.path) else { return found };
    let Ok(elf) = Elf::parse(&data) else { return found };
    let imports = symbols::imports(&elf, is_library);
    for requirement in found.clone() {
        let Want::Name(name) = &requirement.want else { continue };
        let from_it: Vec<_> = imports.iter().filter(|symbol| symbol.file == *name).cloned().collect();
        if !from_it.is_empty() {
            found.push(Requirement { want: Want::Symbols(from_it), ..requirement });
        }
    }
    found
}

/// A requirement for each name.
pub(super) fn opened_names<'n>(
    names: impl IntoIterator<Item = &'n String>,
    by: &Asker,
    search_first: &[First],
    need: Need,
) -> Vec<Requirement> {
    let of = |name: &String| {
        let (family, _) = catalog().family_of(name)?;
        Some(Requirement {
            family: family.name.clone(),
            want: Want::Name(name.clone()),
            need,
            by: by.clone(),
            search_first: search_first.to_vec(),
        })
    };
    names.into_iter().filter_map(of).collect()
}

/// The library names that stand in an object's constants.
pub(super) fn names_in(host: &Host, object: &Rc<Object>) -> Vec<String> {
    let Ok(data) = host.map(&object.path) else { return Vec::new() };
    let Ok(elf) = Elf::parse(&data) else { return Vec::new() };
    let mut found: Vec<String> = elf.constants().into_iter().flat_map(names::libraries).collect();
    found.retain(|name| is_library(name) && !object.needed.contains(name));
    found.sort();
    found.dedup();
    found
}

/// Set-user-id, set-group-id and file capabilities make the loader drop what the environment says.
fn secure_execution(host: &Host, real: &Path) -> Option<&'static str> {
    let stat = host.stat(real).ok()?;
    if stat.mode & 0o4000 != 0 && stat.uid != host.uid {
        return Some("set-user-id");
    }
    if stat.mode & 0o2000 != 0 && stat.mode & 0o010 != 0 {
        return Some("set-group-id");
    }
    None
}

fn is_system(path: &Path) -> bool {
    ["/lib", "/usr/lib", "/lib64", "/usr/lib64"].iter().any(|directory| path.starts_with(directory))
}
