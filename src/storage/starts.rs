//! Finished starts, each kept until something that it was read from has changed. An entry names all that could falsify it;
//! a start that cannot be named is not kept. Reading costs a few dozen stat calls; a broken entry counts as none.

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

/// Read where it stands: to installation a few thousand bytes, one at a time, is much of what a warm start would do.
#[derive(Serialize, Deserialize)]
struct Entry<'b> {
    format: u32,
    key: &'b [u8],
    #[serde(borrow)]
    changes: Vec<(&'b [u8], Option<&'b [u8]>)>,
    #[serde(borrow)]
    watched: Vec<(&'b [u8], Seen<'b>)>,
}

/// The environment changes of the start that was kept for this key, if nothing that it was read from has changed. The
/// directories must be safe: an entry can point the loader anywhere.
pub fn find(host: &Host, directories: impl IntoIterator<Item = impl AsRef<Path>>, key: &Key) -> Option<Diff> {
    let name = key.file_name();
    let read = |directory: &Path| files::read(host, &directory.join(DIRECTORY), &name);
    let bytes = directories.into_iter().find_map(|directory| read(directory.as_ref()))?;
    let entry: Entry<'_> = postcard::from_bytes(&bytes).ok()?;
    let is_found = entry.format == FORMAT && entry.key == key.0.as_slice() && holds(host, &entry.watched);
    is_found.then(|| Diff(entry.changes.into_iter().map(|(name, value)| change(name, value)).collect()))
}

/// Keeps a start that was read from the `watched` paths, and for which the identity of the `located` files matters but not
/// their content; `own` paths were published by us just now. A start is not kept when something changed while it was
/// worked out, or when the entry cannot be written: the next start works it out again.
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
    let changes = diff
        .0
        .iter()
        .map(|change| (change.name.as_bytes(), change.value.as_ref().map(|value| value.as_bytes())));
    let entry = Entry { format: FORMAT, key: &key.0, changes: changes.collect(), watched };
    if let Ok(bytes) = postcard::to_stdvec(&entry) {
        files::write(host, &directory.join(DIRECTORY), &key.file_name(), &bytes);
    }
}

fn change(name: &[u8], value: Option<&[u8]>) -> Change {
    let owned = |bytes| OsStr::from_bytes(bytes).to_owned();
    Change { name: owned(name), value: value.map(owned) }
}
