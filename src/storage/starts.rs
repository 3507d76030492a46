//! Finished starts, each kept until one of its sources changes. A kept start names all its sources; a broken one counts as
//! none. Reading costs a few dozen stat calls.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::files;
use super::key::Key;
use super::seen::{Seen, holds, see};
use crate::environment::{Change, Diff};
use crate::host::Host;

/// Changes when the meaning of an entry changes.
const FORMAT: u32 = 4;
const DIRECTORY: &str = "starts";

/// Borrows from the bytes that were read, since a copy of each path would cost a warm start much of its time.
#[derive(Serialize, Deserialize)]
struct KeptStart<'b> {
    format: u32,
    key: &'b [u8],
    #[serde(borrow)]
    changes: Vec<(&'b [u8], Option<&'b [u8]>)>,
    #[serde(borrow)]
    watched: Vec<(&'b [u8], Seen<'b>)>,
}

/// Returns the environment changes of the start that was kept for this key, if none of its sources has changed. The
/// directories must be safe, since a kept start can point the loader anywhere.
pub fn find(host: &Host, directories: impl IntoIterator<Item = impl AsRef<Path>>, key: &Key) -> Option<Diff> {
    let name = key.file_name();
    let read = |directory: &Path| files::read(host, &directory.join(DIRECTORY), &name);
    let bytes = directories.into_iter().find_map(|directory| read(directory.as_ref()))?;
    let start: KeptStart<'_> = postcard::from_bytes(&bytes).ok()?;
    if start.format != FORMAT || start.key != key.0 || !holds(host, &start.watched) {
        return None;
    }
    let owned = |bytes| OsStr::from_bytes(bytes).to_owned();
    let change = |(name, value): (_, Option<_>)| Change { name: owned(name), value: value.map(owned) };
    Some(Diff(start.changes.into_iter().map(change).collect()))
}

/// Keeps a start that was read from the `watched` paths, and for which the identity of the `located` files matters but not
/// their content. This run has just published the `own` paths. Keeps nothing if another path has changed since this run
/// began, or if the file cannot be written.
pub fn keep(
    host: &Host,
    directory: &Path,
    key: &Key,
    diff: &Diff,
    watched: &BTreeSet<PathBuf>,
    located: &BTreeSet<PathBuf>,
    own: &[&Path],
) {
    let Some(watched) = see(host, watched, located, own) else { return };
    let changes =
        diff.0.iter().map(|change| (change.name.as_bytes(), change.value.as_deref().map(OsStr::as_bytes)));
    let start = KeptStart { format: FORMAT, key: &key.0, changes: changes.collect(), watched };
    if let Ok(bytes) = postcard::to_stdvec(&start) {
        files::write(host, &directory.join(DIRECTORY), &key.file_name(), &bytes);
    }
}
