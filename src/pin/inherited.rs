//! What an outer cudarun has pinned in the environment as it is: its audit module and the table of that.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::edits::is_own_module;
use crate::environment::{Environment, audit_elements};
use crate::host::Host;
use crate::loader::search::Overlay;
use crate::pin::audit_module;
use crate::variables;

/// The view that the module answers from in a program that is called by this path; none where there is no module of ours,
/// or nothing for it to answer.
pub fn pins(host: &Host, env: &Environment, own: &[PathBuf], called: &Path) -> Option<Overlay> {
    let is_ours = |element: &&OsStr| is_own_module(Path::new(element), own);
    audit_elements(env.get(variables::AUDIT).unwrap_or_default()).iter().find(|element| is_ours(element))?;
    env.get(audit_module::FOR)
        .is_none_or(|value| audit_module::is_meant(host, value, called))
        .then_some(())?;
    let mut parts = env.get(audit_module::PINS)?.as_bytes().split(|byte| *byte == b':');
    let directory = Path::new(OsStr::from_bytes(parts.next()?)).to_owned();
    let (mut links, mut empty) = (BTreeMap::new(), BTreeSet::new());
    for name in parts.filter_map(|name| std::str::from_utf8(name).ok()) {
        let file = directory.join(name);
        if host.stat(&file).is_ok_and(|stat| stat.size > 0) {
            links.insert(name.to_owned(), host.canonical(&file).unwrap_or(file));
        } else {
            empty.insert(name.to_owned());
        }
    }
    Some(Overlay { directory, links, empty, answers: true })
}
