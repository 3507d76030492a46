//! What the loader reads of a file, or why it does not take it.

use std::path::{Path, PathBuf};

use crate::formats::elf::Elf;
use crate::formats::elf::loading::{self, Unfit};
use crate::host::{FileId, Host, Kind};

/// What the loader reads of a file.
#[derive(Clone, Debug)]
pub struct Object {
    /// The path it was found under: `$ORIGIN` is this path's directory, links not resolved.
    pub path: PathBuf,
    pub id: FileId,
    pub soname: Option<String>,
    pub needed: Vec<String>,
    pub rpath: Option<Vec<u8>>,
    pub runpath: Option<Vec<u8>>,
    pub no_defaults: bool,
    /// The loader that it asks for, as a program.
    pub interpreter: Option<PathBuf>,
    /// What it wants of each thread's own memory, in bytes.
    pub tls: u64,
    /// The version nodes that it cannot do without, by the file that it wants them of.
    pub asks: Vec<(String, Vec<String>)>,
    /// The version nodes that it has; none where it has no versions at all, and none are checked.
    pub defines: Option<Vec<String>>,
    /// A program is not loaded into another one.
    pub is_program: bool,
}

/// Why there is nothing to take under a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Nothing that can be opened, for the reason of this number: the search goes on, or leaves this list.
    Absent(i32),
    /// Of another kind of machine: passed over in silence.
    Foreign,
    /// The loader gives up, and with it the program.
    Bad(&'static str),
}

/// Linux's numbers for what stops the opening of a file.
pub(super) const ENOENT: i32 = 2;
pub(super) const EACCES: i32 = 13;
pub(super) const ENOTDIR: i32 = 20;

pub(super) fn read(host: &Host, machine: u16, path: &Path) -> Result<Object, Refusal> {
    let absent = |error: std::io::Error| Refusal::Absent(error.raw_os_error().unwrap_or(ENOENT));
    let stat = host.stat(path).map_err(absent)?;
    match stat.kind {
        Kind::File => {}
        Kind::Directory => return Err(Refusal::Bad("a directory")),
        _ => return Err(Refusal::Bad("not a regular file")),
    }
    let data = host.map(path).map_err(absent)?;
    loading::check(&data, machine).map_err(|unfit| match unfit {
        Unfit::Foreign => Refusal::Foreign,
        Unfit::Broken(why) => Refusal::Bad(why),
    })?;
    let elf = Elf::parse(&data).map_err(|_| Refusal::Bad("a damaged ELF file"))?;
    if !elf.is_loadable() {
        return Err(Refusal::Bad("an ELF file with nothing to load"));
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut asks: Vec<(String, Vec<String>)> = Vec::new();
    for (file, version) in elf.required_versions() {
        match asks.iter_mut().find(|(name, _)| name.as_bytes() == file) {
            Some((_, versions)) => versions.push(text(version)),
            None => asks.push((text(file), vec![text(version)])),
        }
    }
    Ok(Object {
        path: path.to_owned(),
        id: stat.id,
        soname: elf.soname().map(text),
        needed: elf.needed().map(text).collect(),
        rpath: elf.rpath().map(<[u8]>::to_vec),
        runpath: elf.runpath().map(<[u8]>::to_vec),
        no_defaults: elf.has_no_default_libraries(),
        interpreter: elf.interpreter().map(PathBuf::from),
        tls: elf.tls(),
        asks,
        defines: elf.has_versions().then(|| elf.defined_versions().into_iter().map(text).collect()),
        is_program: elf.is_program(),
    })
}
