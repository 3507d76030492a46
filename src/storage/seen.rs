//! How watched paths looked when something was kept, and whether they still look so.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::host::{Host, Kind, Stat};

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

/// How something that a plan was read from looked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Seen<'b> {
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

/// Whether all of it looks as it did.
pub(super) fn holds(host: &Host, watched: &[(&[u8], Seen<'_>)]) -> bool {
    let is_same = |(path, seen): &(&[u8], Seen<'_>)| {
        look(host, Path::new(OsStr::from_bytes(path)), seen.way()) == *seen
    };
    watched.iter().all(is_same)
}

/// How all of it looks; nothing where some of it has changed since we began to look, other than what is our own.
pub(super) fn see<'p>(
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
pub fn stamp(at: SystemTime) -> (i64, i64) {
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
