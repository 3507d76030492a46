//! Gets wheels that are missing into a store of cudarun's own: the person's client downloads them, and each file is checked
//! before it counts. Nothing that is installed changes. cudarun itself opens no socket.
//!
//! The store has one directory for each wheel or toolkit, named by the SHA-256 of the wheel's file: the libraries, the
//! `dist-info` with the licence, and `meta.toml`, whose time notes the last use. An entry appears by one rename, and no
//! file of it is changed. One process writes at a time; others wait, and find the wheels there. The client runs in `/`.
//! cudarun computes the hash again where it unpacks the wheel itself: after `pip`, and with `--from`, of a private
//! copy, since others may write to that directory.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use crate::cli::ClientKind;
use crate::error::Error;
use crate::host::{Host, MappedBytes};
use crate::solve::MissingWheel;
use crate::storage;
use crate::text::hexadecimal;
use crate::text::shown;

mod client;
mod store;
mod unpack;

use client::Client;
pub use store::{About, DAY, Store, StoreLock, StoredWheel, note_uses};

/// The room that a wheel of this many bytes needs, unpacked and while it is unpacked.
pub fn room(size: u64) -> u64 {
    size / 10 * 21
}

/// The source of the wheels.
#[derive(Clone, Debug, Default)]
pub struct WheelSupply {
    /// Directories of wheels. If there are any, no client is started.
    pub from: Vec<PathBuf>,
    pub client: Option<ClientKind>,
}

/// A step to report.
pub enum FetchStep<'s> {
    /// Another process writes into the store.
    Waits,
    Begins(&'s MissingWheel),
    Done(&'s MissingWheel, Duration),
}

/// The names of the files in directories that wheels come from; `None` without directories.
pub fn at_hand(host: &Host, directories: &[PathBuf]) -> Option<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for directory in directories {
        for entry in host.list(&host.absolute(directory)).unwrap_or_default() {
            names.insert(entry.name.to_string_lossy().into_owned());
        }
    }
    (!directories.is_empty()).then_some(names)
}

/// Gets each wheel that the store does not have. Complete ones stay if a later one fails.
pub fn get(
    store: &Store<'_>,
    wheels: &[MissingWheel],
    supply: &WheelSupply,
    host: &Host,
    say: &mut dyn FnMut(&FetchStep<'_>),
) -> Result<(), Error> {
    let client = if supply.from.is_empty() {
        Some(client::find(host, supply.client)?)
    } else {
        None
    };
    let lock = store.take_turn(|| say(&FetchStep::Waits))?;
    // Another process may have fetched them while this one waited.
    let mut missing: Vec<&MissingWheel> = wheels.iter().collect();
    missing.retain(|wheel| !store.has(&wheel.entry));
    store.must_take(missing.iter().map(|wheel| room(wheel.size)).sum())?;
    for wheels in missing.chunk_by(|one, next| one.entry == next.entry) {
        let stage = store.stage(&lock, &wheels[0].entry)?;
        let tree = stage.join("tree");
        storage::create_directory(&tree).map_err(Error::at(&tree))?;
        for wheel in wheels {
            say(&FetchStep::Begins(wheel));
            let start = Instant::now();
            add(host, wheel, client.as_ref(), &supply.from, &stage, &tree)?;
            say(&FetchStep::Done(wheel, start.elapsed()));
        }
        store.publish(&lock, &tree, wheels[0])?;
        store.clear(&lock, &stage)?;
    }
    Ok(())
}

/// Unpacks a wheel into a tree: by the client, or from the directories.
fn add(
    host: &Host,
    wheel: &MissingWheel,
    client: Option<&Client>,
    directories: &[PathBuf],
    stage: &Path,
    tree: &Path,
) -> Result<(), Error> {
    let own = stage.join(&wheel.file);
    match client {
        Some(client) if client.kind == ClientKind::Uv => {
            client.install(wheel, tree, stage)?;
            return unpack::prune(tree, &|name| is_kept(wheel, name))
                .and_then(|()| unpack::compare_all(tree))
                .map_err(|fault| content_error(wheel, &fault));
        }
        Some(client) => client.download(wheel, stage, stage)?,
        None => {
            let mut files = directories
                .iter()
                .map(|directory| host.absolute(directory).join(&wheel.file));
            let Some(file) = files.find(|file| host.is_file(file)) else {
                return Err(Error::Fetch {
                    why: not_in(wheel, directories),
                    hint: Some("on a machine with a network: cudarun fetch --into DIR …"),
                });
            };
            copy(host, wheel, &file, &own)?;
        }
    }
    unpack_file(host, wheel, &own, tree)
}

/// Copies a wheel's file. Others may write to the original, even between its hash and the moment in which it is unpacked.
fn copy(host: &Host, wheel: &MissingWheel, original: &Path, copy: &Path) -> Result<(), Error> {
    let (content, size) = host.open(original).map_err(Error::at(original))?;
    check_size(wheel, size)?;
    let mut content = BufReader::with_capacity(1 << 20, content.take(wheel.size));
    storage::new_file(copy, 0o600)
        .and_then(|mut copy| io::copy(&mut content, &mut copy))
        .map_err(Error::at(copy))?;
    Ok(())
}

/// Downloads wheels into a directory, for another machine.
pub fn download(
    wheels: &[MissingWheel],
    directory: &Path,
    host: &Host,
    say: &mut dyn FnMut(&FetchStep<'_>),
) -> Result<(), Error> {
    let directory = host.absolute(directory);
    let client = client::find(host, Some(ClientKind::Pip))?;
    storage::create_directory(&directory).map_err(Error::at(&directory))?;
    // Other people's files are here: a wheel gets its name here only after its hash is checked.
    let scratch = tempfile::Builder::new()
        .prefix(".cudarun-")
        .permissions(fs::Permissions::from_mode(0o700))
        .tempdir_in(&directory)
        .map_err(Error::at(&directory))?;
    for wheel in wheels {
        let file = directory.join(&wheel.file);
        if host.is_file(&file) && map_verified(host, wheel, &file).is_ok() {
            continue;
        }
        say(&FetchStep::Begins(wheel));
        let start = Instant::now();
        client.download(wheel, scratch.path(), scratch.path())?;
        let new = scratch.path().join(&wheel.file);
        map_verified(host, wheel, &new)?;
        fs::rename(&new, &file).map_err(Error::at(&file))?;
        say(&FetchStep::Done(wheel, start.elapsed()));
    }
    Ok(())
}

/// True for the files below the first directory of the libraries, and for those that describe the distribution.
fn is_kept(wheel: &MissingWheel, name: &str) -> bool {
    let top = wheel.directory.split('/').next();
    name.split_once('/')
        .is_some_and(|(first, _)| Some(first) == top || first.ends_with(".dist-info"))
}

fn unpack_file(host: &Host, wheel: &MissingWheel, file: &Path, tree: &Path) -> Result<(), Error> {
    let bytes = map_verified(host, wheel, file)?;
    unpack::unpack(&bytes, tree, &|name| is_kept(wheel, name))
        .map_err(|fault| content_error(wheel, &fault))
}

/// The bytes of a wheel's file, if they are those of the table.
fn map_verified(host: &Host, wheel: &MissingWheel, file: &Path) -> Result<MappedBytes, Error> {
    let bytes = host.map(file).map_err(Error::at(file))?;
    check_size(wheel, bytes.len() as u64)?;
    let sha256 = hexadecimal(&Sha256::digest(&*bytes));
    host.trip("hashed");
    if sha256 == wheel.sha256 {
        return Ok(bytes);
    }
    let fault = format!("its sha256 is {sha256}, expected {}", wheel.sha256);
    Err(content_error(wheel, &fault))
}

/// Fails if the table has another size, so that a file of any size is not read to its end.
fn check_size(wheel: &MissingWheel, size: u64) -> Result<(), Error> {
    if size == wheel.size {
        return Ok(());
    }
    let fault = format!("its size is {size} bytes, expected {}", wheel.size);
    Err(content_error(wheel, &fault))
}

pub fn not_in(wheel: &MissingWheel, from: &[PathBuf]) -> String {
    format!("{} is not in {}", wheel.file, shown(from))
}

fn content_error(wheel: &MissingWheel, fault: &str) -> Error {
    Error::Fetch {
        why: format!("{}: {fault}", wheel.file),
        hint: None,
    }
}
