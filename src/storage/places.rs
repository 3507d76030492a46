//! Chooses the directory in which cudarun keeps things between runs: the first candidate that is writable, safe from other
//! users, and fit for `LD_LIBRARY_PATH`.

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

use super::files;
use crate::environment::fits_library_path;
use crate::host::{Host, Unsafe, judge_own};
use crate::text::plain;

/// The reason why a candidate is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnusablePlace {
    /// `LD_LIBRARY_PATH` cannot hold its name.
    Name,
    /// Another user can replace its content.
    Unsafe(Unsafe),
    /// The operating system refuses.
    Unwritable { why: String },
}

impl UnusablePlace {
    /// The sentence; it names the file or directory at fault if that is not `place`.
    pub fn at(&self, place: &Path) -> String {
        match self {
            UnusablePlace::Name => "LD_LIBRARY_PATH cannot hold this name".to_owned(),
            UnusablePlace::Unwritable { why } => plain(why).to_lowercase(),
            UnusablePlace::Unsafe(fault) => fault.at(place),
        }
    }
}

/// No candidate can be used.
#[derive(Debug)]
pub struct NoPlace {
    pub tried: Vec<(PathBuf, UnusablePlace)>,
}

/// The reason why nothing was written in a candidate.
pub enum WriteRefusal<E> {
    /// The next candidate is tried.
    Here(UnusablePlace),
    /// No candidate can help.
    Everywhere(E),
}

impl<E> From<UnusablePlace> for WriteRefusal<E> {
    fn from(unfit: UnusablePlace) -> WriteRefusal<E> {
        WriteRefusal::Here(unfit)
    }
}

impl From<io::Error> for UnusablePlace {
    fn from(error: io::Error) -> UnusablePlace {
        UnusablePlace::Unwritable {
            why: error.to_string(),
        }
    }
}

/// The user's store of fetched wheels; none without a home.
pub fn user_store(host: &Host) -> Option<PathBuf> {
    host.user_data().map(|data| data.join("cudarun/store"))
}

/// Creates and returns the first candidate that can be used.
pub fn cache_directory(host: &Host) -> Result<PathBuf, NoPlace> {
    first_usable(host, |directory| Ok(directory.to_owned()))
}

/// Returns the result of `cache_directory`, and creates nothing.
pub fn planned_cache_directory(host: &Host) -> Result<PathBuf, NoPlace> {
    first_possible(host, |directory| Ok(directory.to_owned()))
}

/// The candidates whose content can be trusted, existing or not.
pub fn safe_directories(host: &Host) -> impl Iterator<Item = PathBuf> {
    candidates(host)
        .into_iter()
        .filter(|directory| is_suitable(host, directory).is_ok())
}

/// Writes something in the first candidate that can be used and takes it.
pub fn first_usable<T, E: From<NoPlace>>(
    host: &Host,
    write: impl Fn(&Path) -> Result<T, WriteRefusal<E>>,
) -> Result<T, E> {
    first(host, |directory| {
        make_usable(host, directory)?;
        write(directory)
    })
}

/// Asks the candidates that could be used, in order, and creates nothing.
pub fn first_possible<T, E: From<NoPlace>>(
    host: &Host,
    ask: impl Fn(&Path) -> Result<T, WriteRefusal<E>>,
) -> Result<T, E> {
    first(host, |directory| {
        could_be_used(host, directory)?;
        ask(directory)
    })
}

/// Every candidate in order of preference, and why it cannot be used; creates nothing.
pub fn examined_candidates(host: &Host) -> Vec<(PathBuf, Result<(), UnusablePlace>)> {
    let fitness = |directory: &PathBuf| could_be_used(host, directory);
    candidates(host)
        .into_iter()
        .map(|directory| (directory.clone(), fitness(&directory)))
        .collect()
}

/// The candidates in order of preference, unexamined.
pub fn candidates(host: &Host) -> Vec<PathBuf> {
    let user = host.user_cache().map(|directory| directory.join("cudarun"));
    let session = host
        .env
        .non_empty("XDG_RUNTIME_DIR")
        .map(|directory| Path::new(directory).join("cudarun"));
    // systemd makes it for a service with `CacheDirectory=`, which may have no home and no `/tmp` to write to.
    let service = host.env.non_empty("CACHE_DIRECTORY").and_then(|all| {
        let first = all.as_bytes().split(|byte| *byte == b':').next()?;
        let first = Path::new(OsStr::from_bytes(first));
        first.is_absolute().then(|| first.join("cudarun"))
    });
    let last = PathBuf::from(format!("/tmp/cudarun-{}", host.uid));
    let above = user.into_iter().chain(session).chain(service);
    above.chain([last]).collect()
}

fn first<T, E: From<NoPlace>>(
    host: &Host,
    ask: impl Fn(&Path) -> Result<T, WriteRefusal<E>>,
) -> Result<T, E> {
    let mut tried = Vec::new();
    for directory in candidates(host) {
        match ask(&directory) {
            Ok(answer) => return Ok(answer),
            Err(WriteRefusal::Here(why)) => tried.push((directory, why)),
            Err(WriteRefusal::Everywhere(error)) => return Err(error),
        }
    }
    Err(NoPlace { tried }.into())
}

fn is_suitable(host: &Host, directory: &Path) -> Result<(), UnusablePlace> {
    if !fits_library_path(directory) {
        return Err(UnusablePlace::Name);
    }
    judge_own(host, directory).map_err(UnusablePlace::Unsafe)
}

/// The nearest directory that exists must be writable; on another machine, it must exist.
fn could_be_used(host: &Host, directory: &Path) -> Result<(), UnusablePlace> {
    is_suitable(host, directory)?;
    let nearest = directory
        .ancestors()
        .find(|above| host.lstat(above).is_ok())
        .unwrap_or(directory);
    if !host.is_directory(nearest) {
        return Err(io::Error::from(ErrorKind::NotADirectory).into());
    }
    if !host.is_rerooted() {
        access(nearest, AccessFlags::W_OK).map_err(io::Error::from)?;
    }
    Ok(())
}

/// Creates the directory if it is missing, and tries to write in it.
fn make_usable(host: &Host, directory: &Path) -> Result<(), UnusablePlace> {
    is_suitable(host, directory)?;
    files::create_directory(directory)?;
    // Another user may have made it in the meantime.
    is_suitable(host, directory)?;
    files::temporary_file(directory, 0o600)?;
    Ok(())
}
