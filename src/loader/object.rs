//! The part of a file's information that the loader uses, or the reason why it does not take the file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::formats::elf::Elf;
use crate::formats::elf::loading::{self, Unloadable};
use crate::host::{FileId, Host, MappedBytes};

/// A file as the loader sees it.
#[derive(Clone, Debug)]
pub struct Object {
    /// The path that it was found under. `$ORIGIN` is its directory, with links not resolved.
    pub path: PathBuf,
    pub id: FileId,
    /// Its bytes.
    pub data: Arc<MappedBytes>,
    pub soname: Option<String>,
    pub needed: Vec<String>,
    pub rpath: Option<Vec<u8>>,
    pub runpath: Option<Vec<u8>>,
    pub no_defaults: bool,
    /// The loader that a program asks for.
    pub interpreter: Option<PathBuf>,
    /// The version nodes that it requires, by the file that must define them.
    pub required_versions: Vec<(String, Vec<String>)>,
    /// The version nodes that it defines. The loader checks no versions of a file that defines none.
    pub defines: Option<Vec<String>>,
    /// True for a program, which the loader does not load into another one.
    pub is_program: bool,
}

/// The reason why the loader does not take a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathRefusal {
    /// It cannot be opened; the error number decides if the search goes on in this list of directories.
    Absent(i32),
    /// It is for another kind of machine, so the loader skips it.
    Foreign,
    /// The loader ends the program with this fault.
    Bad(&'static str),
}

/// Linux's error numbers.
pub(super) const ENOENT: i32 = 2;
pub(super) const EACCES: i32 = 13;
pub(super) const ENOTDIR: i32 = 20;

pub(super) fn read(host: &Host, machine: u16, path: &Path) -> Result<Object, PathRefusal> {
    let (stat, data) = match host.stat_and_map(path) {
        Ok((stat, Some(data))) => (stat, Arc::new(data)),
        Ok((stat, None)) if stat.is_directory() => return Err(PathRefusal::Bad("a directory")),
        Ok(_) => return Err(PathRefusal::Bad("not a regular file")),
        Err(error) => return Err(PathRefusal::Absent(error.raw_os_error().unwrap_or(ENOENT))),
    };
    match loading::check(&data, machine) {
        Ok(()) => {}
        Err(Unloadable::Foreign) => return Err(PathRefusal::Foreign),
        Err(Unloadable::Broken(reason)) => return Err(PathRefusal::Bad(reason)),
    }
    let elf = Elf::parse(&data).map_err(|_| PathRefusal::Bad("a damaged ELF file"))?;
    if !elf.is_loadable() {
        return Err(PathRefusal::Bad("an ELF file with nothing to load"));
    }
    let mut required_versions: Vec<(String, Vec<String>)> = Vec::new();
    for (file, version) in elf.required_versions() {
        match required_versions
            .iter_mut()
            .find(|(name, _)| name.as_bytes() == file)
        {
            Some((_, versions)) => versions.push(text(version)),
            None => required_versions.push((text(file), vec![text(version)])),
        }
    }
    Ok(Object {
        path: path.to_owned(),
        id: stat.id,
        data: data.clone(),
        soname: elf.soname().map(text),
        needed: elf.needed().map(text).collect(),
        rpath: elf.rpath().map(<[u8]>::to_vec),
        runpath: elf.runpath().map(<[u8]>::to_vec),
        no_defaults: elf.has_no_default_libraries(),
        interpreter: elf.interpreter().map(PathBuf::from),
        required_versions,
        defines: elf
            .has_versions()
            .then(|| elf.defined_versions().into_iter().map(text).collect()),
        is_program: elf.is_program(),
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
