//! The module for the dynamic loader, which the build script compiles from `audit/`: its bytes, the place where they are
//! published, and the variables that it reads.
//!
//! The table is the view's directory and the names in it, so that `$ORIGIN` is the view in every mode. The module answers only
//! in the process that the variable of the tree names, whichever object asks: a library that Python opens through ctypes is
//! requested by a module of the base Python, which two environments may share.

#[path = "../audit/binary.rs"]
pub(crate) mod binary;
#[path = "../audit/pins.rs"]
mod pins;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::environment::fits_library_path;
use crate::host::{Host, judge_file};
use crate::storage;
use binary::{Access, MARKER, ROOM};

pub use crate::variables::TRACE;

/// The table of pinned names; see [`pins()`].
pub const PINS: &str = pins::VARIABLE;

/// The module's directory below a cache directory, beside the views.
pub const DIRECTORY: &str = "audit";

/// The kernel takes 128 kB in one variable; all of the environment shares another limit.
const TABLE_LIMIT: usize = 100_000;

/// Empty where there is no loader that could use it.
static MODULE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/audit.so"));

/// The module for this machine's loader.
pub fn bytes() -> Option<&'static [u8]> {
    (!MODULE.is_empty()).then_some(MODULE)
}

/// The place of the module in an installation, from the directory with cudarun.
const INSTALLED: &str = "../lib/cudarun/follow.so";

/// The module that was installed with this binary. Other users can read it, unlike one in a cache.
pub fn installed(host: &Host) -> Option<PathBuf> {
    let own = host.own_executable().ok()?;
    let path = host.canonical(&own.parent()?.join(INSTALLED)).ok()?;
    // Whoever can change it decides what each program below loads.
    judge_file(host, &path).ok()?;
    let found = host.read(&path).ok()?;
    (fits_library_path(&path) && found == for_binary(&own)).then_some(path)
}

/// True if the module starts this binary in place of other programs: it and its directories are only for root and this user.
pub fn starts_this_binary(host: &Host) -> bool {
    // It is asked several times in each start.
    static ANSWER: OnceLock<bool> = OnceLock::new();
    if host.is_rerooted() {
        is_for_us_alone(host)
    } else {
        *ANSWER.get_or_init(|| is_for_us_alone(host))
    }
}

fn is_for_us_alone(host: &Host) -> bool {
    let Ok(own) = host.own_executable() else {
        return false;
    };
    own.ancestors().all(|path| {
        host.stat(path).is_ok_and(|stat| {
            let access = Access {
                owner: stat.uid,
                group: stat.gid,
                mode: stat.mode,
            };
            access.is_only_for(host.uid)
        })
    })
}

fn of_this_binary(host: &Host) -> Vec<u8> {
    for_binary(&host.own_executable().unwrap_or_default())
}

/// The module with the path of a cudarun in it: it starts no program that a variable names.
pub fn for_binary(own: &Path) -> Vec<u8> {
    let mut module = MODULE.to_vec();
    let own = own.as_os_str().as_bytes();
    let place = memchr::memmem::find(&module, MARKER);
    let room = ROOM - MARKER.len();
    if let Some(place) = place.filter(|_| own.starts_with(b"/") && own.len() < room) {
        let start = place + MARKER.len();
        module[start..start + own.len()].copy_from_slice(own);
    }
    module
}

/// The path of the cudarun that a module starts.
pub fn binary_of(module: &[u8]) -> Option<PathBuf> {
    let start = memchr::memmem::find(module, MARKER)? + MARKER.len();
    let path = module[start..].split(|byte| *byte == 0).next()?;
    (path.first() == Some(&b'/')).then(|| PathBuf::from(OsStr::from_bytes(path)))
}

/// The value of [`PINS`] that answers these names from a directory that holds all of them; `None` if it would be
/// too long, or could not be read back.
pub fn pins<'n>(directory: &Path, names: impl Iterator<Item = &'n str>) -> Option<OsString> {
    let mut table = directory.as_os_str().as_bytes().to_vec();
    let mut longest = "";
    for name in names {
        if !pins::is_name(name.as_bytes()) {
            return None;
        }
        longest = if name.len() > longest.len() {
            name
        } else {
            longest
        };
        table.push(b':');
        table.extend(name.as_bytes());
    }
    if table.len() > TABLE_LIMIT || !fits_library_path(directory) {
        return None;
    }
    // The longest path must fit the module's buffer.
    pins::Pins::parse(&table)?.answer(longest.as_bytes(), &mut [0; pins::PATH_LIMIT])?;
    Some(OsString::from_vec(table))
}

/// The path at which [`publish`] puts the module.
pub fn place(host: &Host, directory: &Path) -> PathBuf {
    place_of(&of_this_binary(host), directory)
}

fn place_of(module: &[u8], directory: &Path) -> PathBuf {
    directory
        .join(DIRECTORY)
        .join(format!("{}.so", storage::digest([module])))
}

/// Writes the module into a cache directory, once, for us alone. Fails where it could not be loaded from there: the loader
/// goes on without a module that is missing or cut short.
pub fn publish(host: &Host, directory: &Path) -> io::Result<PathBuf> {
    bytes().ok_or(io::ErrorKind::Unsupported)?;
    let module = of_this_binary(host);
    let path = place_of(&module, directory);
    let directory = directory.join(DIRECTORY);
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    if !fits_library_path(&path) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidFilename,
            "its name cannot stand in LD_AUDIT",
        ));
    }
    let is_there = || storage::read(host, &directory, name).as_ref() == Some(&module);
    if !is_there() {
        storage::write(host, &directory, name, &module);
        if !is_there() {
            return Err(io::Error::other("it could not be written"));
        }
    }
    if host.room(&path).is_some_and(|room| room.is_noexec) {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "nothing may be executed there (noexec)",
        ));
    }
    Ok(path)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "arranges what is looked at")]
mod tests {
    use super::*;

    #[test]
    fn the_module_and_the_crate_name_one_variable() {
        assert_eq!(PINS, crate::variables::PINS, "the table");
    }

    #[test]
    fn a_table_is_read_back_and_what_cannot_be_is_none() {
        for (directory, names, table) in [
            (
                "/v",
                vec!["liba.so", "libb.so.1"],
                Some("/v:liba.so:libb.so.1".into()),
            ),
            ("/v", vec![], None),
            ("v", vec!["liba.so"], None),
            ("/a:b", vec!["liba.so"], None),
            ("/$LIB", vec!["liba.so"], None),
            ("/v", vec!["a/b"], None),
            ("/v", vec!["a:b"], None),
            ("/v", vec![""], None),
            ("/v", vec![".."], None),
        ] {
            let found = pins(Path::new(directory), names.iter().copied());
            assert_eq!(found, table, "{directory} {names:?}");
        }
        let many: Vec<String> = (0..10_000)
            .map(|number| format!("lib{number}.so"))
            .collect();
        assert_eq!(pins(Path::new("/v"), many.iter().map(String::as_str)), None);
    }
}
