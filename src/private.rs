//! What is ours alone on disk: directories that nobody else can write to, names for what is not finished yet,
//! names by content. Must not know what is kept there.
#![allow(clippy::disallowed_methods, reason = "makes directories of our own, and nothing else")]

use std::fmt::Write as _;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use sha2::{Digest, Sha256};

use crate::host::{Host, Stat};

/// Whether it belongs to us and nobody else can write to it.
pub fn is_ours(host: &Host, stat: &Stat) -> bool {
    stat.uid == host.uid && stat.mode & 0o022 == 0
}

/// Makes a directory, and those above it that are missing, for us alone, whatever the umask says.
pub fn create_directory(directory: &Path) -> io::Result<()> {
    let create = || fs::DirBuilder::new().mode(0o700).create(directory);
    let created = match (create(), directory.parent()) {
        (Err(error), Some(parent)) if error.kind() == ErrorKind::NotFound => {
            create_directory(parent)?;
            create()
        }
        (created, _) => created,
    };
    match created {
        Ok(()) => fs::set_permissions(directory, fs::Permissions::from_mode(0o700)),
        // Somebody was faster, or it is no directory: the next step will tell.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// A name that nobody else has, for what is renamed once it is whole: `.PID-TIME`.
pub fn unfinished(host: &Host, directory: &Path) -> PathBuf {
    let since = host.started.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    directory.join(format!(".{}-{since}", std::process::id()))
}

/// A name for all of these together: the same content has the same name, and another content another.
pub fn digest<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().iter().take(12).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
