//! What was found out about projects, for the hook: good until something that it was read from has changed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::files;
use super::key::Key;
use super::seen::{Seen, holds, see};
use crate::host::Host;

/// Changes when the meaning of an answer changes.
const FORMAT: u32 = 1;
/// Where they stand.
const PLACE: &str = "answers";

#[derive(Serialize, Deserialize)]
struct Entry<'b> {
    format: u32,
    key: &'b [u8],
    text: &'b str,
    #[serde(borrow)]
    watched: Vec<(&'b [u8], Seen<'b>)>,
}

/// The answer that was kept for this key, if it still holds.
pub fn find(host: &Host, directories: &[PathBuf], key: &Key) -> Option<String> {
    let name = key.file_name();
    let bytes = directories.iter().find_map(|it| files::read(host, &it.join(PLACE), &name))?;
    let entry: Entry<'_> = postcard::from_bytes(&bytes).ok()?;
    let is_it = entry.format == FORMAT && entry.key == key.0.as_slice();
    (is_it && holds(host, &entry.watched)).then(|| entry.text.to_owned())
}

/// Keeps an answer that was read from what is `watched`, and for which it matters which files are `located`. What changed
/// meanwhile is not kept.
pub fn keep(
    host: &Host,
    directory: &Path,
    key: &Key,
    text: &str,
    watched: &BTreeSet<PathBuf>,
    located: &BTreeSet<PathBuf>,
) {
    let Some(watched) = see(host, watched, located, &[]) else { return };
    let entry = Entry { format: FORMAT, key: &key.0, text, watched };
    if let Ok(bytes) = postcard::to_stdvec(&entry) {
        files::write(host, &directory.join(PLACE), &key.file_name(), &bytes);
    }
}
