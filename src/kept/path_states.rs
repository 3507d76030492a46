//! The state of watched paths when something was kept, and its comparison with their state now.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::host::{FileKind, Host, Stat};
use crate::storage::stamp;

/// Files of the kernel have no useful times, so their content is compared.
const KERNEL: [&str; 2] = ["/proc", "/sys"];
/// A sleeping GPU leaves some lines empty. These lines are always the same.
const GPUS: &str = "/proc/driver/nvidia/gpus";
const GPU_LINES: [&[u8]; 2] = [b"Model:", b"Bus Location:"];
/// Use changes the times of device nodes, so only their presence is compared.
const DEVICES: &str = "/dev";
const CONTENT_LIMIT: u64 = 4096;
/// A file changed within this time of the start may change again without its time showing it.
const GRACE: Duration = Duration::from_millis(20);

/// The state of a watched path.
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
    /// A `located` file, whose content does not matter.
    Identity {
        device: u64,
        inode: u64,
    },
}

/// True if all paths look as they did.
pub(super) fn holds(host: &Host, watched: &[(&[u8], Seen<'_>)]) -> bool {
    watched.iter().all(|(path, seen)| {
        let path = Path::new(OsStr::from_bytes(path));
        let now = if matches!(seen, Seen::Identity { .. }) {
            identity(host, path)
        } else {
            look(host, path)
        };
        now == *seen
    })
}

/// Returns the state of all these paths, or a path other than our `own` that has changed since this run began.
pub(super) fn see<'p>(
    host: &Host,
    watched: &'p BTreeSet<PathBuf>,
    located: &'p BTreeSet<PathBuf>,
    own: &[&'p Path],
) -> Result<Vec<(&'p [u8], Seen<'static>)>, &'p Path> {
    let mut seen = Vec::with_capacity(watched.len() + located.len() + own.len());
    let mut see =
        |path: &'p Path, now: Seen<'static>| seen.push((path.as_os_str().as_bytes(), now));
    let mut absent: BTreeSet<&Path> = BTreeSet::new();
    for path in watched {
        let now = look(host, path);
        if now == Seen::Missing {
            // One missing directory covers all missing paths below it.
            let is_missing =
                |above: &&Path| *above != Path::new("") && look(host, above) == Seen::Missing;
            absent.insert(
                path.ancestors()
                    .take_while(is_missing)
                    .last()
                    .unwrap_or(path),
            );
            continue;
        }
        if !own.contains(&path.as_path()) && changed_since(host, &now) {
            return Err(path);
        }
        see(path, now);
    }
    for path in located {
        see(path, identity(host, path));
    }
    for path in absent {
        see(path, Seen::Missing);
    }
    // This run may have published them a moment ago.
    for path in own {
        see(path, look(host, path));
    }
    Ok(seen)
}

fn identity(host: &Host, path: &Path) -> Seen<'static> {
    let identity = |stat: Stat| Seen::Identity {
        device: stat.id.device,
        inode: stat.id.inode,
    };
    host.stat(path).map_or(Seen::Missing, identity)
}

fn look(host: &Host, path: &Path) -> Seen<'static> {
    if KERNEL.iter().any(|kernel| is_below(path, kernel)) {
        return content(host, path).map_or(Seen::Missing, |content| Seen::Content(content.into()));
    }
    match host.stat(path) {
        Err(_) => Seen::Missing,
        Ok(Stat {
            kind: FileKind::Other,
            ..
        }) if is_below(path, DEVICES) => Seen::Present,
        Ok(Stat {
            id,
            size,
            modified,
            changed,
            ..
        }) => Seen::Stamp {
            device: id.device,
            inode: id.inode,
            size,
            modified,
            changed,
        },
    }
}

/// `Path::starts_with` for each watched path of a warm start, without the cost of splitting it into components.
fn is_below(path: &Path, directory: &str) -> bool {
    let below = path
        .as_os_str()
        .as_bytes()
        .strip_prefix(directory.as_bytes());
    below.is_some_and(|below| below.is_empty() || below.starts_with(b"/"))
}

/// The content of a kernel's file, or the names of a kernel's directory.
fn content(host: &Host, path: &Path) -> Option<Vec<u8>> {
    match host.read_start(path, CONTENT_LIMIT) {
        Ok(bytes) if path.starts_with(GPUS) => {
            let lines = bytes.split_inclusive(|byte| *byte == b'\n');
            let named = |line: &&[u8]| GPU_LINES.iter().any(|name| line.starts_with(name));
            return Some(lines.filter(named).collect::<Vec<_>>().concat());
        }
        Ok(bytes) => return Some(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        // A directory, or an unreadable file.
        Err(_) => {}
    }
    let entries = host.list(path).unwrap_or_default();
    Some(
        entries
            .iter()
            .flat_map(|entry| entry.name.as_bytes().iter().copied().chain([0]))
            .collect(),
    )
}

fn changed_since(host: &Host, seen: &Seen<'_>) -> bool {
    let Seen::Stamp {
        modified, changed, ..
    } = seen
    else {
        return false;
    };
    let began = host.started.checked_sub(GRACE).map_or((0, 0), stamp);
    // A change gives both times, but some file systems have only one. A person can give a file any time of modification,
    // and none that lies ahead tells of a change.
    let now = stamp(host.started + host.started.elapsed().unwrap_or_default());
    *changed >= began || (began..=now).contains(modified)
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
        let host = Host::at(
            root.path(),
            crate::environment::Environment::default(),
            "/".into(),
        )
        .unwrap();
        let says = |model: &str, id: &str| {
            let text =
                format!("Model: \t {model}\nGPU UUID: \t {id}\nBus Location: \t 0000:01:00.0\n");
            fs::File::create(&real)
                .unwrap()
                .write_all(text.as_bytes())
                .unwrap();
            look(&host, file)
        };
        let awake = says("NVIDIA A100", "GPU-6d1c");
        assert!(matches!(awake, Seen::Content(_)));
        assert_eq!(says("NVIDIA A100", "GPU-????"), awake);
        assert_ne!(says("NVIDIA H100", "GPU-6d1c"), awake);
    }
}
