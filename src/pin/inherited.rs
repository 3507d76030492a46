//! Reads the pins of an outer cudarun from the environment: its audit module and the table of it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::audit_module;
use super::edits::is_own_module;
use crate::environment::{Environment, audit_elements};
use crate::host::Host;
use crate::loader::search::Overlay;
use crate::variables;

/// Returns the view that the module answers from in a program that is called by this path; `None` where no module of ours
/// is set, or it has nothing to answer.
pub fn pins(host: &Host, env: &Environment, own: &[PathBuf], called: &Path) -> Option<Overlay> {
    let auditors = audit_elements(env.get(variables::AUDIT)?);
    let is_meant = env
        .get(variables::PINS_FOR)
        .is_none_or(|value| audit_module::is_meant(host, value, called));
    if !is_meant
        || !auditors
            .iter()
            .any(|element| is_own_module(Path::new(element), own))
    {
        return None;
    }
    let mut parts = env
        .get(variables::PINS)?
        .as_bytes()
        .split(|byte| *byte == b':');
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
    Some(Overlay {
        directory,
        links,
        empty,
        answers: true,
    })
}
