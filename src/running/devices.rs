//! The GPUs that a process has open.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::host::Host;
use crate::inventory::is_gpu_device;

/// Their device files; none of a process that may not be looked at.
pub(super) fn open_gpus(host: &Host, pid: u32) -> BTreeSet<PathBuf> {
    let descriptors = PathBuf::from(format!("/proc/{pid}/fd"));
    let entries = host.list(&descriptors).unwrap_or_default().into_iter();
    entries
        .filter_map(|entry| host.read_link(&descriptors.join(entry.name)).ok())
        .filter(|target| is_gpu_device(target))
        .collect()
}
