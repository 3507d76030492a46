//! Answers about projects for the shell hook, each kept until one of its sources changes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::files;
use super::key::Key;
use super::seen::{Seen, holds, see};
use crate::host::Host;

/// Changes when the meaning of an answer changes.
const FORMAT: u32 = 1;
const DIRECTORY: &str = "answers";

#[derive(Serialize, Deserialize)]
struct KeptAnswer<'b> {
    format: u32,
    key: &'b [u8],
    text: &'b str,
    #[serde(borrow)]
    watched: Vec<(&'b [u8], Seen<'b>)>,
}

/// Returns the kept answer for this key, if it still holds.
pub fn find(host: &Host, directories: &[PathBuf], key: &Key) -> Option<String> {
    let name = key.file_name();
    let bytes = directories.iter().find_map(|above| files::read(host, &above.join(DIRECTORY), &name))?;
    let answer: KeptAnswer<'_> = postcard::from_bytes(&bytes).ok()?;
    let is_found = answer.format == FORMAT && answer.key == key.0 && holds(host, &answer.watched);
    is_found.then(|| answer.text.to_owned())
}

/// Keeps an answer that was read from the `watched` paths, and for which the identity of the `located` files matters.
/// Keeps nothing if one of them changed in the meantime.
pub fn keep(
    host: &Host,
    directory: &Path,
    key: &Key,
    text: &str,
    watched: &BTreeSet<PathBuf>,
    located: &BTreeSet<PathBuf>,
) {
    let Some(watched) = see(host, watched, located, &[]) else { return };
    let answer = KeptAnswer { format: FORMAT, key: &key.0, text, watched };
    if let Ok(bytes) = postcard::to_stdvec(&answer) {
        files::write(host, &directory.join(DIRECTORY), &key.file_name(), &bytes);
    }
}
