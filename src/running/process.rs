//! What the kernel tells about one process.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;

use crate::host::Host;
use crate::inventory::is_gpu_device;
use crate::launch;

/// When a process started, in ticks since this machine did, and the number of the process above it.
pub(super) struct Origin {
    pub start: u64,
    pub parent: u32,
}

pub(super) fn origin(host: &Host, pid: u32) -> Option<Origin> {
    let stat = host
        .read(&PathBuf::from(format!("/proc/{pid}/stat")))
        .ok()?;
    Some(Origin {
        start: launch::start_time(&stat),
        parent: parent(&stat)?,
    })
}

/// The second field behind the name, which is in brackets and may contain anything.
fn parent(stat: &[u8]) -> Option<u32> {
    let text = String::from_utf8_lossy(stat);
    let (_, after) = text.rsplit_once(')')?;
    after.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The device files of GPUs that a process has open.
pub(super) fn open_gpus(host: &Host, pid: u32) -> io::Result<BTreeSet<PathBuf>> {
    let descriptors = PathBuf::from(format!("/proc/{pid}/fd"));
    let entries = host.list(&descriptors)?.into_iter();
    let targets = entries.filter_map(|entry| host.read_link(&descriptors.join(entry.name)).ok());
    Ok(targets.filter(|target| is_gpu_device(target)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_read_behind_any_name() {
        assert_eq!(parent(b"12 (a) b) S 7 12 12 0"), Some(7));
        assert_eq!(parent(b"12 (a"), None);
    }
}
