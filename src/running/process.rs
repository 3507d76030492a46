//! What the kernel tells about one process.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;

use crate::host::Host;
use crate::inventory::is_gpu_device;
use crate::launch;

/// A file of the process in `/proc`.
pub(super) fn read(host: &Host, pid: u32, name: &str) -> Option<Vec<u8>> {
    host.read(&PathBuf::from(format!("/proc/{pid}/{name}")))
        .ok()
}

/// When the process started, in ticks since the machine did.
pub(super) fn start_time(host: &Host, pid: u32) -> Option<u64> {
    let stat = read(host, pid, "stat")?;
    Some(launch::start_time(&stat))
}

/// The number of the process that started it.
pub(super) fn parent(host: &Host, pid: u32) -> Option<u32> {
    parent_in(&read(host, pid, "stat")?)
}

/// The second field after the name, which is in brackets and may contain anything.
fn parent_in(stat: &[u8]) -> Option<u32> {
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
        assert_eq!(parent_in(b"12 (a) b) S 7 12 12 0"), Some(7));
        assert_eq!(parent_in(b"12 (a"), None);
    }
}
