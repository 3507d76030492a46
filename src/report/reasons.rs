//! The reason why an installation was picked or rejected, in words.

use crate::catalog::display_name;
use crate::inventory::Inventory;
use crate::solve::Unpinned;
use crate::text::{show, shown};

/// One line about all libraries that the program would use but that are not pinned.
pub fn left(unpinned: &[Unpinned], inventory: &Inventory) -> Option<String> {
    let said: Vec<&Unpinned> = unpinned.iter().filter(|one| one.must_be_said).collect();
    let (first, others) = said.split_first()?;
    let why = if inventory.is_without_gpu() {
        "no GPU is reachable, and "
    } else {
        ""
    };
    let more = if others.is_empty() {
        String::new()
    } else {
        format!("; and {} more", others.len())
    };
    Some(format!("{why}{}{more}", self::unpinned(first)))
}

/// `libcufft.so.11 is not pinned: no cuFFT here fits; the nearest one: is for CUDA 13, but torch is for CUDA 12`
pub(super) fn unpinned(unpinned: &Unpinned) -> String {
    let (family, why) = (display_name(&unpinned.family), unpinned.why.to_string());
    let what = match unpinned.names.as_slice() {
        [] => format!("{family} is"),
        [name] => format!("{} is", show(name)),
        names => format!("{} are", shown(names)),
    };
    format!("{what} not pinned: no {family} here fits; the nearest one: {why}")
}
