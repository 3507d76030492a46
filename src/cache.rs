//! What is kept between runs: the finished start of a command, good until something that it was read from
//! has changed, and proofs that were made. An entry names all that could falsify it; what cannot be named
//! is not kept. Reading costs a few dozen stat calls; a broken entry is no entry.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::environment::{Change, Diff};
use crate::host::{Host, Stat};
use crate::launch::Exec;
use crate::target::{Command, significant_arguments};

/// Changes when the meaning of an entry changes.
const FORMAT: u32 = 1;
/// The variables that a plan depends on.
const VARIABLES: &[&str] = &[
    "CUDARUN_VIEW",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_VISIBLE_DEVICES",
    "HOME",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "PATH",
    "PYENV_DIR",
    "PYENV_VERSION",
    "PYTHONHOME",
    "PYTHONNOUSERSITE",
    "PYTHONPATH",
    "PYTHONUSERBASE",
    "XDG_CACHE_HOME",
    "XDG_RUNTIME_DIR",
];
/// Files of the kernel have no times of their own; what they say is compared.
const KERNEL: [&str; 2] = ["/proc", "/sys"];
/// Device nodes are touched by being used; that they are there is compared.
const DEVICES: &str = "/dev";
const CONTENT_LIMIT: u64 = 4096;
/// A file changed within this time of the start may change again without its time showing it.
const GRACE: Duration = Duration::from_millis(20);

/// What a cached start is found by.
#[derive(Debug)]
pub struct Key(Vec<u8>);

#[derive(Serialize, Deserialize)]
struct Entry {
    format: u32,
    key: Vec<u8>,
    changes: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    watched: Vec<(Vec<u8>, Seen)>,
}

/// How something that a plan was read from looked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Seen {
    Missing,
    Present,
    Stamp { device: u64, inode: u64, size: u64, modified: (i64, i64), changed: (i64, i64) },
    Content(Vec<u8>),
}

impl Key {
    /// For starting `program`, which is what PATH says of the command.
    pub fn of(host: &Host, program: &Path, command: &Command) -> Option<Key> {
        let own = host.stat(Path::new("/proc/self/exe")).ok()?;
        let (significant, needs_directory) = significant_arguments(&command.program, &command.arguments);
        let library_path = host.env.get("LD_LIBRARY_PATH").unwrap_or_default().as_bytes();
        let is_relative =
            |path: &[u8]| path.split(|b| matches!(b, b':' | b';')).any(|part| !part.starts_with(b"/"));
        let needs_directory =
            needs_directory || program.is_relative() || !library_path.is_empty() && is_relative(library_path);
        let mut bytes = Vec::with_capacity(1024);
        let mut part = |value: Option<&[u8]>| {
            let length = value.map_or(u32::MAX, |value| u32::try_from(value.len()).unwrap_or(u32::MAX - 1));
            bytes.extend_from_slice(&length.to_le_bytes());
            bytes.extend_from_slice(value.unwrap_or_default());
        };
        for number in
            [own.id.device, own.id.inode, own.modified.0.cast_unsigned(), own.modified.1.cast_unsigned()]
        {
            part(Some(&number.to_le_bytes()));
        }
        part(Some(&host.uid.to_le_bytes()));
        part(Some(program.as_os_str().as_bytes()));
        part(Some(command.program.as_bytes()));
        for argument in &command.arguments[..significant.min(command.arguments.len())] {
            part(Some(argument.as_bytes()));
        }
        part(None);
        part(needs_directory.then(|| host.cwd.as_os_str().as_bytes()));
        for name in VARIABLES {
            part(host.env.get(name).map(OsStr::as_bytes));
        }
        Some(Key(bytes))
    }

    fn file_name(&self) -> String {
        let mut hasher = DefaultHasher::new();
        self.0.hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    }
}

/// The start that was kept for this key, if nothing that it was read from has changed.
pub fn find(
    host: &Host,
    directories: &[PathBuf],
    key: &Key,
    program: &Path,
    command: &Command,
) -> Option<Exec> {
    let name = key.file_name();
    let bytes =
        directories.iter().find_map(|directory| read_private(host, &directory.join("starts"), &name))?;
    let entry: Entry = postcard::from_bytes(&bytes).ok()?;
    let holds = entry.format == FORMAT
        && entry.key == key.0
        && entry
            .watched
            .iter()
            .all(|(path, seen)| look(host, Path::new(OsStr::from_bytes(path)), seen) == *seen);
    holds.then(|| Exec {
        program: program.to_owned(),
        argv0: command.program.clone(),
        arguments: command.arguments.clone(),
        diff: Diff(entry.changes.into_iter().map(|(name, value)| change(name, value)).collect()),
    })
}

/// Keeps a start. What changed while it was worked out is not kept, and neither is what cannot be written:
/// the next start works it out again.
pub fn keep(host: &Host, directory: &Path, key: &Key, exec: &Exec, watched: &BTreeSet<PathBuf>) {
    let mut seen = Vec::with_capacity(watched.len());
    for path in watched {
        let now = first_look(host, path);
        if changed_since(host, &now) {
            return;
        }
        seen.push((path.as_os_str().as_bytes().to_vec(), now));
    }
    let changes = exec.diff.0.iter().map(|change| {
        (change.name.as_bytes().to_vec(), change.value.as_ref().map(|value| value.as_bytes().to_vec()))
    });
    let entry = Entry { format: FORMAT, key: key.0.clone(), changes: changes.collect(), watched: seen };
    if let Ok(bytes) = postcard::to_stdvec(&entry) {
        write_private(host, &directory.join("starts"), &key.file_name(), &bytes);
    }
}

/// Whether a proof of this name was kept.
pub fn has_proof(host: &Host, directories: &[PathBuf], name: &str) -> bool {
    directories.iter().any(|directory| read_private(host, &directory.join("proofs"), name).is_some())
}

pub fn keep_proof(host: &Host, directory: &Path, name: &str) {
    write_private(host, &directory.join("proofs"), name, b"passed\n");
}

/// A name for all of these together.
pub fn digest(parts: &[&[u8]]) -> String {
    use sha2::{Digest, Sha256};
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().iter().take(12).map(|byte| format!("{byte:02x}")).collect()
}

fn change(name: Vec<u8>, value: Option<Vec<u8>>) -> Change {
    Change { name: OsString::from_vec(name), value: value.map(OsString::from_vec) }
}

fn first_look(host: &Host, path: &Path) -> Seen {
    let kind = if KERNEL.iter().any(|kernel| path.starts_with(kernel)) {
        Seen::Content(Vec::new())
    } else if path.starts_with(DEVICES) {
        Seen::Present
    } else {
        Seen::Stamp { device: 0, inode: 0, size: 0, modified: (0, 0), changed: (0, 0) }
    };
    look(host, path, &kind)
}

/// Looks at a path in the way in which it was looked at before.
fn look(host: &Host, path: &Path, before: &Seen) -> Seen {
    let by_kernel = || KERNEL.iter().any(|kernel| path.starts_with(kernel));
    if matches!(before, Seen::Content(_)) || matches!(before, Seen::Missing) && by_kernel() {
        return content(host, path).map_or(Seen::Missing, Seen::Content);
    }
    match host.stat(path) {
        Err(_) => Seen::Missing,
        Ok(_) if path.starts_with(DEVICES) => Seen::Present,
        Ok(Stat { id, size, modified, changed, .. }) => {
            Seen::Stamp { device: id.device, inode: id.inode, size, modified, changed }
        }
    }
}

/// What a file of the kernel says, or which entries a directory of it has.
fn content(host: &Host, path: &Path) -> Option<Vec<u8>> {
    match host.read_start(path, CONTENT_LIMIT) {
        Ok(bytes) => return Some(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        // A directory.
        Err(_) => {}
    }
    let entries = host.list(path).ok()?;
    Some(entries.iter().flat_map(|entry| entry.name.as_bytes().iter().copied().chain([0])).collect())
}

fn changed_since(host: &Host, seen: &Seen) -> bool {
    let Seen::Stamp { modified, changed, .. } = seen else { return false };
    let started =
        host.started.checked_sub(GRACE).and_then(|at| at.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    let started = (i64::try_from(started.as_secs()).unwrap_or(i64::MAX), i64::from(started.subsec_nanos()));
    *modified.max(changed) >= started
}

/// A file that only we can have written, in a directory that only we can write to.
fn read_private(host: &Host, directory: &Path, name: &str) -> Option<Vec<u8>> {
    let is_ours = |stat: Stat| stat.uid == host.uid && stat.mode & 0o022 == 0;
    let file = directory.join(name);
    let bytes = host.read(&file).ok()?;
    (host.lstat(&file).is_ok_and(is_ours) && host.lstat(directory).is_ok_and(is_ours)).then_some(bytes)
}

fn write_private(host: &Host, directory: &Path, name: &str, bytes: &[u8]) {
    let _ = fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
    let unique = host.started.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let temporary = directory.join(format!(".{}-{unique}", std::process::id()));
    let written = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| fs::rename(&temporary, directory.join(name)));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
}
