//! What was found out about projects, for the hook: good until something that it was read from has changed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Key, Seen, Way, changed_since, holds, look};
use crate::host::Host;
use crate::private;

/// Changes when the meaning of an answer changes.
const FORMAT: u32 = 1;
/// Where they stand.
const PLACE: &str = "answers";

#[derive(Serialize, Deserialize)]
struct Entry {
    format: u32,
    key: Vec<u8>,
    text: String,
    watched: Vec<(Vec<u8>, Seen)>,
}

/// The answer that was kept for this key, if it still holds.
pub fn find(host: &Host, directories: &[PathBuf], key: &Key) -> Option<String> {
    let name = key.file_name();
    let bytes = directories.iter().find_map(|it| private::read(host, &it.join(PLACE), &name))?;
    let entry: Entry = postcard::from_bytes(&bytes).ok()?;
    let is_it = entry.format == FORMAT && entry.key == key.0;
    (is_it && holds(host, &entry.watched)).then_some(entry.text)
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
    let seen = |path: &PathBuf, way| (path.as_os_str().as_encoded_bytes().to_vec(), look(host, path, way));
    let whole: Vec<(Vec<u8>, Seen)> = watched.iter().map(|path| seen(path, Way::Whole)).collect();
    if whole.iter().any(|(_, seen)| changed_since(host, seen)) {
        return;
    }
    let identities = located.iter().map(|path| seen(path, Way::Identity));
    let watched = whole.into_iter().chain(identities).collect();
    let entry = Entry { format: FORMAT, key: key.0.clone(), text: text.to_owned(), watched };
    if let Ok(bytes) = postcard::to_stdvec(&entry) {
        private::write(host, &directory.join(PLACE), &key.file_name(), &bytes);
    }
}
