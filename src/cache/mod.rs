//! What is kept between runs: the finished start of a command, good until something that it was read from
//! has changed, and proofs that were made. An entry names all that could falsify it; what cannot be named
//! is not kept. Reading costs a few dozen stat calls; a broken entry is no entry.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::environment::{Change, Diff};
use crate::host::{Host, Kind, Stat};
use crate::inventory::Known;
use crate::launch::Exec;
use crate::pin::Places;
use crate::private;
use crate::target::Command;

pub mod answers;
mod key;
pub mod proofs;

pub use key::{Key, decides, reaches_libraries};

/// Changes when the meaning of an entry changes.
const FORMAT: u32 = 4;
/// Files of the kernel have no times of their own; what they say is compared.
const KERNEL: [&str; 2] = ["/proc", "/sys"];
/// A GPU that sleeps does not say of itself all that it says awake; what it is called is always the same.
const GPUS: &str = "/proc/driver/nvidia/gpus";
const GPU_LINES: [&[u8]; 2] = [b"Model:", b"Bus Location:"];
/// Device nodes are touched by being used; that they are there is compared. Other files here are files.
const DEVICES: &str = "/dev";
const CONTENT_LIMIT: u64 = 4096;
/// A file changed within this time of the start may change again without its time showing it.
const GRACE: Duration = Duration::from_millis(20);

/// The file of what is known about others.
const FACTS: &str = "facts";
/// More would take longer to read than it saves.
const FACTS_LIMIT: usize = 32 << 20;

/// Device, inode and time of a binary.
type Identity = (u64, u64, (i64, i64));

/// Read where it stands: to copy a few thousand bytes, one at a time, is much of what a warm start would do.
#[derive(Serialize, Deserialize)]
struct Entry<'b> {
    format: u32,
    key: &'b [u8],
    #[serde(borrow)]
    changes: Vec<(&'b [u8], Option<&'b [u8]>)>,
    #[serde(borrow)]
    watched: Vec<(&'b [u8], Seen<'b>)>,
}

/// How something that a plan was read from looked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Seen<'b> {
    Missing,
    Present,
    Stamp {
        device: u64,
        inode: u64,
        size: u64,
        modified: (i64, i64),
        changed: (i64, i64),
    },
    Content(#[serde(borrow)] Cow<'b, [u8]>),
    /// Which file it is, whatever is in it.
    Identity {
        device: u64,
        inode: u64,
    },
}

/// What is to be compared of a path.
#[derive(Clone, Copy)]
enum Way {
    Whole,
    Identity,
}

/// The start that was kept for this key, if nothing that it was read from has changed. The directories must be safe: an
/// entry can point the loader anywhere.
pub fn find(
    host: &Host,
    directories: impl IntoIterator<Item = impl AsRef<Path>>,
    key: &Key,
    program: &Path,
    command: &Command,
) -> Option<Exec> {
    let name = key.file_name();
    let read = |directory: &Path| private::read(host, &directory.join("starts"), &name);
    let bytes = directories.into_iter().find_map(|directory| read(directory.as_ref()))?;
    let entry: Entry<'_> = postcard::from_bytes(&bytes).ok()?;
    let is_it = entry.format == FORMAT && entry.key == key.0.as_slice();
    (is_it && holds(host, &entry.watched)).then(|| Exec {
        program: program.to_owned(),
        argv0: command.program.clone(),
        arguments: command.arguments.clone(),
        diff: Diff(entry.changes.into_iter().map(|(name, value)| change(name, value)).collect()),
    })
}

/// Whether all of it looks as it did.
fn holds(host: &Host, watched: &[(&[u8], Seen<'_>)]) -> bool {
    let is_same = |(path, seen): &(&[u8], Seen<'_>)| {
        look(host, Path::new(OsStr::from_bytes(path)), seen.way()) == *seen
    };
    watched.iter().all(is_same)
}

/// Keeps a start that was read from what is `watched`, and for which it matters which files are `located`, but
/// not what is in them; what stands in `places` is our own. What changed while it was worked out is not kept, and neither is
/// what cannot be written: the next start works it out again.
pub fn keep(
    host: &Host,
    directory: &Path,
    key: &Key,
    exec: &Exec,
    watched: &BTreeSet<PathBuf>,
    located: &BTreeSet<PathBuf>,
    places: &Places,
) {
    let own: Vec<&Path> = places.view.iter().chain(&places.module).map(PathBuf::as_path).collect();
    let Some(watched) = see(host, watched, located, &own) else { return };
    let changes = exec
        .diff
        .0
        .iter()
        .map(|change| (change.name.as_bytes(), change.value.as_ref().map(|value| value.as_bytes())));
    let entry = Entry { format: FORMAT, key: &key.0, changes: changes.collect(), watched };
    if let Ok(bytes) = postcard::to_stdvec(&entry) {
        private::write(host, &directory.join("starts"), &key.file_name(), &bytes);
    }
}

/// How all of it looks; nothing where some of it has changed since we began to look, other than what is our own.
fn see<'p>(
    host: &Host,
    watched: &'p BTreeSet<PathBuf>,
    located: &'p BTreeSet<PathBuf>,
    own: &[&'p Path],
) -> Option<Vec<(&'p [u8], Seen<'static>)>> {
    let mut seen = Vec::with_capacity(watched.len() + located.len() + own.len());
    let mut see = |path: &'p Path, now: Seen<'static>| seen.push((path.as_os_str().as_bytes(), now));
    let mut absent: BTreeSet<&Path> = BTreeSet::new();
    for path in watched {
        let now = look(host, path, Way::Whole);
        if now == Seen::Missing {
            // Below a directory that is missing there is nothing, however much was looked for.
            let above = path.ancestors().take_while(|it| *it != Path::new("") && is_missing(host, it));
            absent.insert(above.last().unwrap_or(path));
            continue;
        }
        if !own.contains(&path.as_path()) && changed_since(host, &now) {
            return None;
        }
        see(path, now);
    }
    for path in located {
        see(path, look(host, path, Way::Identity));
    }
    for path in absent {
        see(path, Seen::Missing);
    }
    // It may have been published a moment ago: that was us.
    for path in own {
        see(path, look(host, path, Way::Whole));
    }
    Some(seen)
}

/// What was learnt of the files on this machine, by this very binary.
pub fn known(host: &Host, directories: &[PathBuf]) -> Known {
    let read = |directory: &PathBuf| private::read(host, directory, FACTS);
    let known = directories.iter().find_map(read).and_then(|bytes| {
        let (sum, facts) = bytes.split_first_chunk()?;
        if u64::from_le_bytes(*sum) != checksum(facts) {
            return None;
        }
        let (by, known): (Identity, Known) = postcard::from_bytes(facts).ok()?;
        (Some(by) == own_identity(host)).then_some(known)
    });
    known.unwrap_or_default()
}

/// Tells a damaged file from a whole one. Who could forge it could write to the directory, which is ours alone.
fn checksum(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

pub fn keep_known(host: &Host, directory: &Path, known: &mut Known) {
    known.tidy();
    let facts = own_identity(host).and_then(|by| postcard::to_stdvec(&(by, &*known)).ok());
    if let Some(facts) = facts.filter(|facts| facts.len() < FACTS_LIMIT) {
        private::write(host, directory, FACTS, &[&checksum(&facts).to_le_bytes(), facts.as_slice()].concat());
    }
}

/// Which binary this is: another one may mean something else by the same bytes.
fn own_identity(host: &Host) -> Option<Identity> {
    let own = host.stat(Path::new("/proc/self/exe")).ok()?;
    Some((own.id.device, own.id.inode, own.modified))
}

fn change(name: &[u8], value: Option<&[u8]>) -> Change {
    let owned = |bytes| OsStr::from_bytes(bytes).to_owned();
    Change { name: owned(name), value: value.map(owned) }
}

impl Seen<'_> {
    /// In which way it was looked at. What was missing is there now if anything is, in any way.
    fn way(&self) -> Way {
        if matches!(self, Seen::Identity { .. }) { Way::Identity } else { Way::Whole }
    }
}

fn look(host: &Host, path: &Path, way: Way) -> Seen<'static> {
    let by_kernel = || KERNEL.iter().any(|kernel| is_below(path, kernel));
    if matches!(way, Way::Whole) && by_kernel() {
        return content(host, path).map_or(Seen::Missing, |content| Seen::Content(content.into()));
    }
    match (host.stat(path), way) {
        (Err(_), _) => Seen::Missing,
        (Ok(Stat { id, .. }), Way::Identity) => Seen::Identity { device: id.device, inode: id.inode },
        (Ok(Stat { kind: Kind::Other, .. }), _) if is_below(path, DEVICES) => Seen::Present,
        (Ok(Stat { id, size, modified, changed, .. }), _) => {
            Seen::Stamp { device: id.device, inode: id.inode, size, modified, changed }
        }
    }
}

/// As `starts_with`, but without a look at each component: every watched path is asked this.
fn is_below(path: &Path, directory: &str) -> bool {
    let below = path.as_os_str().as_bytes().strip_prefix(directory.as_bytes());
    below.is_some_and(|below| below.is_empty() || below.starts_with(b"/"))
}

/// What a file of the kernel says, or which entries a directory of it has.
fn content(host: &Host, path: &Path) -> Option<Vec<u8>> {
    match host.read_start(path, CONTENT_LIMIT) {
        Ok(bytes) if path.starts_with(GPUS) => {
            let lines = bytes.split_inclusive(|byte| *byte == b'\n');
            let named = |line: &&[u8]| GPU_LINES.iter().any(|name| line.starts_with(name));
            return Some(lines.filter(named).collect::<Vec<_>>().concat());
        }
        Ok(bytes) => return Some(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        // A directory, or what says nothing to us.
        Err(_) => {}
    }
    let entries = host.list(path).unwrap_or_default();
    Some(entries.iter().flat_map(|entry| entry.name.as_bytes().iter().copied().chain([0])).collect())
}

fn is_missing(host: &Host, path: &Path) -> bool {
    look(host, path, Way::Whole) == Seen::Missing
}

fn changed_since(host: &Host, seen: &Seen<'_>) -> bool {
    let Seen::Stamp { modified, changed, .. } = seen else { return false };
    *modified.max(changed) >= host.started.checked_sub(GRACE).map_or((0, 0), stamp)
}

/// A moment as a file system has it: seconds and nanoseconds.
fn stamp(at: SystemTime) -> (i64, i64) {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    (i64::try_from(since.as_secs()).unwrap_or(i64::MAX), i64::from(since.subsec_nanos()))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "arranges what is looked at")]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    #[test]
    fn gpus_are_compared_by_name_only() {
        let root = tempfile::tempdir().unwrap();
        let file = Path::new("/proc/driver/nvidia/gpus/0000:01:00.0/information");
        let real = root.path().join(file.strip_prefix("/").unwrap());
        fs::create_dir_all(real.parent().unwrap()).unwrap();
        let host = Host::at(root.path(), crate::environment::Environment::default(), "/".into()).unwrap();
        let says = |model: &str, id: &str| {
            let text = format!("Model: \t {model}\nGPU UUID: \t {id}\nBus Location: \t 0000:01:00.0\n");
            fs::File::create(&real).unwrap().write_all(text.as_bytes()).unwrap();
            look(&host, file, Way::Whole)
        };
        let awake = says("NVIDIA A100", "GPU-6d1c");
        assert!(matches!(awake, Seen::Content(_)));
        assert_eq!(says("NVIDIA A100", "GPU-????"), awake);
        assert_ne!(says("NVIDIA H100", "GPU-6d1c"), awake);
    }
}
