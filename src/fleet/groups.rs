//! Finds descriptions of machines, and puts those together that are equal but for what every machine has of its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;

use super::description::{self, UnreadReason};
use super::hosts::is_host;
use crate::host::Host;
use crate::parallel;
use crate::storage;

/// The numbers by which one GPU differs from all others, or their beginnings. Equal machines have others.
static UUIDS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new("(GPU|MIG)-[0-9a-fA-F]{8}[0-9a-fA-F-]*").expect("a pattern of ours")
});

/// A machine, by the name of its description.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Described {
    pub name: String,
    pub path: PathBuf,
}

/// Machines whose descriptions are equal. Only the first one counts.
#[derive(Debug)]
pub struct EqualMachines {
    pub machines: Vec<Described>,
}

/// A description that cannot be used.
#[derive(Debug)]
pub struct Unread {
    pub path: PathBuf,
    pub why: UnreadReason,
}

impl Unread {
    /// False for a directory that cannot be read, for a second description of a machine, and for one without a name.
    pub fn names_machine(&self) -> bool {
        !matches!(self.why, UnreadReason::Twice(_) | UnreadReason::NotAName)
            && is_description(&self.path)
    }
}

/// Version 0.2 wrote TOML.
fn is_description(path: &Path) -> bool {
    path.extension()
        .is_some_and(|ending| ending == "json" || ending == "toml")
}

/// Finds the descriptions that are named, or that lie in directories that are named. Machines are equal if their answers are, or
/// for an image their nodes and commands. The largest group comes first.
pub fn find(
    host: &Host,
    paths: &[PathBuf],
    is_for_image: bool,
) -> (Vec<EqualMachines>, Vec<Unread>) {
    let mut unread = Vec::new();
    let machines = find_machines(host, paths, &mut unread);
    let digests = parallel::map_each(&machines, |machine| {
        equality_digest(host, &machine.path, is_for_image)
    });
    let mut groups: BTreeMap<String, Vec<Described>> = BTreeMap::new();
    for (machine, digest) in machines.into_iter().zip(digests) {
        match digest {
            Ok(digest) => groups.entry(digest).or_default().push(machine),
            Err(why) => unread.push(Unread {
                path: machine.path,
                why,
            }),
        }
    }
    let mut groups: Vec<EqualMachines> = groups
        .into_values()
        .map(|machines| EqualMachines { machines })
        .collect();
    groups.sort_by(|a, b| {
        b.machines
            .len()
            .cmp(&a.machines.len())
            .then_with(|| a.machines[0].cmp(&b.machines[0]))
    });
    (groups, unread)
}

/// The machines that have a description, by name.
fn find_machines(host: &Host, paths: &[PathBuf], unread: &mut Vec<Unread>) -> Vec<Described> {
    let mut by_name: BTreeMap<String, PathBuf> = BTreeMap::new();
    for path in paths {
        let path = host.absolute(path);
        let files = match host.list(&path) {
            Ok(entries) => {
                let files = entries.into_iter().map(|entry| path.join(entry.name));
                files.filter(|file| is_description(file)).collect()
            }
            Err(_) if host.is_file(&path) => vec![path],
            Err(error) => {
                let why = UnreadReason::Io(error);
                unread.push(Unread { path, why });
                continue;
            }
        };
        for path in files {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            let why = match by_name.get(&*name) {
                _ if !is_host(&name) => UnreadReason::NotAName,
                None => {
                    by_name.insert(name.into_owned(), path);
                    continue;
                }
                Some(other) if *other == path => continue,
                // The new description of the same machine.
                Some(other) if other.with_extension("toml") == path => continue,
                Some(other) => UnreadReason::Twice(other.clone()),
            };
            unread.push(Unread { path, why });
        }
    }
    by_name
        .into_iter()
        .map(|(name, path)| Described { name, path })
        .collect()
}

/// A digest of all in which equal machines are equal.
fn equality_digest(host: &Host, path: &Path, is_for_image: bool) -> Result<String, UnreadReason> {
    let bytes = description::bytes(host, path)?;
    let text = if is_for_image {
        description::commands(&bytes)? + description::part(&bytes, "node")?
    } else {
        description::part(&bytes, "answers")?.to_owned()
    };
    let text = UUIDS.replace_all(&text, "$1");
    Ok(storage::full_digest([text.as_bytes()]))
}
