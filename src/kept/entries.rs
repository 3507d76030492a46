//! Finished starts, and answers about projects for the shell hook, each kept until one of its sources changes. A kept one
//! names all its sources; a broken one counts as none. Reading costs a few dozen stat calls.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::key::StartKey;
use super::path_states::{Seen, holds, see};
use crate::environment::Diff;
use crate::host::Host;
use crate::storage;

/// Changes when the meaning of an entry changes.
const FORMAT: u32 = 4;
const STARTS: &str = "starts";
const ANSWERS: &str = "answers";

/// Borrows from the bytes that were read, since a copy of each path would cost a warm start much of its time.
#[derive(Serialize, Deserialize)]
struct KeptEntry<'b, T> {
    format: u32,
    key: &'b [u8],
    content: T,
    #[serde(borrow)]
    watched: Vec<(&'b [u8], Seen<'b>)>,
}

/// Returns the environment changes of the start that was kept for this key, if none of its sources has changed. The
/// directories must be safe, since a kept start can point the loader anywhere. An old one does not count: a start that is
/// worked out again notes that it uses fetched wheels.
pub fn find_start(
    host: &Host,
    directories: impl IntoIterator<Item = PathBuf>,
    key: &StartKey,
) -> Option<Diff> {
    let name = key.file_name();
    let bytes = directories
        .into_iter()
        .find_map(|above| storage::read_recent(host, &above.join(STARTS), &name))?;
    let changes: Vec<(&[u8], Option<&[u8]>)> = content(host, key, &bytes)?;
    let owned = |bytes| OsStr::from_bytes(bytes).to_owned();
    let changes = changes.into_iter();
    let changes = changes.map(|(name, value)| (owned(name), value.map(owned)));
    Some(Diff(changes.collect()))
}

/// Keeps a start that was read from the `watched` paths, and for which the identity of the `located` files matters but not
/// their content. This run has just published the `own` paths. If another path has changed since this run
/// began, keeps nothing and returns that path. Also keeps nothing if the file cannot be written.
pub fn keep_start(
    host: &Host,
    directory: &Path,
    key: &StartKey,
    diff: &Diff,
    watched: &BTreeSet<PathBuf>,
    located: &BTreeSet<PathBuf>,
    own: &[&Path],
) -> Option<PathBuf> {
    let changes = diff.0.iter();
    let changes: Vec<_> = changes
        .map(|(name, value)| (name.as_bytes(), value.as_deref().map(OsStr::as_bytes)))
        .collect();
    match see(host, watched, located, own) {
        Err(changed) => return Some(changed.to_owned()),
        Ok(seen) => keep(host, &directory.join(STARTS), key, changes, seen),
    }
    None
}

/// Returns the kept answer for this key, if it still holds.
pub fn find_answer(host: &Host, directories: &[PathBuf], key: &StartKey) -> Option<String> {
    let name = key.file_name();
    let bytes = directories
        .iter()
        .find_map(|above| storage::read(host, &above.join(ANSWERS), &name))?;
    content(host, key, &bytes).map(str::to_owned)
}

/// Keeps an answer, as [`keep_start`] does a start.
pub fn keep_answer(
    host: &Host,
    directory: &Path,
    key: &StartKey,
    text: &str,
    watched: &BTreeSet<PathBuf>,
    located: &BTreeSet<PathBuf>,
) {
    if let Ok(seen) = see(host, watched, located, &[]) {
        keep(host, &directory.join(ANSWERS), key, text, seen);
    }
}

fn content<'b, T: Deserialize<'b>>(host: &Host, key: &StartKey, bytes: &'b [u8]) -> Option<T> {
    let entry: KeptEntry<'b, T> = postcard::from_bytes(bytes).ok()?;
    let is_found = entry.format == FORMAT && entry.key == key.0 && holds(host, &entry.watched);
    is_found.then_some(entry.content)
}

fn keep<T: Serialize>(
    host: &Host,
    directory: &Path,
    key: &StartKey,
    content: T,
    watched: Vec<(&[u8], Seen<'_>)>,
) {
    let entry = KeptEntry {
        format: FORMAT,
        key: &key.0,
        content,
        watched,
    };
    if let Ok(bytes) = postcard::to_stdvec(&entry) {
        storage::write(host, directory, &key.file_name(), &bytes);
    }
}
