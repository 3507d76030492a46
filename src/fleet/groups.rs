//! Finds descriptions of machines, and puts those together that are equal but for what every machine has of its own.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::hosts::is_host;
use crate::host::Host;
use crate::machine::LARGEST;
use crate::parallel;
use crate::storage;
use crate::text::{plain, show};

/// Variables that batch systems and logins set for each machine or process.
const OF_PROCESS: [&str; 8] = [
    "\"SLURM",
    "\"OMPI_",
    "\"PMI",
    "\"PMIX",
    "\"HOSTNAME",
    "\"KUBERNETES_",
    "\"SSH_",
    "\"FLUX_",
];
/// Before the number by which one GPU differs from all others.
const UUIDS: [&[u8]; 2] = [b"GPU-", b"MIG-"];
/// Fewer digits are no such number.
const SHORTEST_UUID: usize = 8;

/// A machine, by the name of its description.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Described {
    pub name: String,
    pub path: PathBuf,
}

/// Machines whose descriptions are equal. Only the first one is examined.
#[derive(Debug)]
pub struct Group {
    pub machines: Vec<Described>,
}

/// A description that cannot be used.
#[derive(Debug)]
pub struct Unread {
    pub path: PathBuf,
    pub why: UnreadReason,
}

#[derive(Debug, thiserror::Error)]
pub enum UnreadReason {
    #[error("{}", plain(&.0.to_string()).to_lowercase())]
    Io(io::Error),
    #[error("it is too large for a description")]
    TooLarge,
    #[error("no machine can have this name")]
    NotAName,
    #[error("{} describes a machine of this name", show(.0))]
    Twice(PathBuf),
    #[error("{}", show(.0))]
    Unusable(String),
}

impl Unread {
    /// False for a directory that cannot be read, for a second description of a machine, and for one without a name.
    pub fn names_machine(&self) -> bool {
        !matches!(self.why, UnreadReason::Twice(_) | UnreadReason::NotAName)
            && is_description(&self.path)
    }
}

fn is_description(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "toml")
}

/// Finds the descriptions that are named, or that lie in directories that are named. The largest group comes first.
pub fn find(host: &Host, paths: &[PathBuf]) -> (Vec<Group>, Vec<Unread>) {
    let mut unread = Vec::new();
    let mut named: BTreeMap<String, PathBuf> = BTreeMap::new();
    for path in paths.iter().map(|path| host.absolute(path)) {
        let found = match host.list(&path) {
            Ok(entries) => {
                let names = entries.into_iter().map(|entry| path.join(entry.name));
                names.filter(|path| is_description(path)).collect()
            }
            Err(_) if host.is_file(&path) => vec![path],
            Err(error) => {
                unread.push(Unread {
                    path,
                    why: UnreadReason::Io(error),
                });
                continue;
            }
        };
        for path in found {
            let name = path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            match named.get(&name) {
                _ if !is_host(&name) => unread.push(Unread {
                    path,
                    why: UnreadReason::NotAName,
                }),
                Some(other) if *other == path => {}
                Some(other) => unread.push(Unread {
                    path,
                    why: UnreadReason::Twice(other.clone()),
                }),
                None => _ = named.insert(name, path),
            }
        }
    }
    let all: Vec<Described> = named
        .into_iter()
        .map(|(name, path)| Described { name, path })
        .collect();
    let digests = parallel::map_each(&all, |one| digest(host, &one.path));
    let mut groups: BTreeMap<String, Vec<Described>> = BTreeMap::new();
    for (machine, digest) in all.into_iter().zip(digests) {
        match digest {
            Ok(digest) => groups.entry(digest).or_default().push(machine),
            Err(why) => unread.push(Unread {
                path: machine.path,
                why,
            }),
        }
    }
    let mut groups: Vec<Group> = groups
        .into_values()
        .map(|machines| Group { machines })
        .collect();
    groups.sort_by(|a, b| {
        b.machines
            .len()
            .cmp(&a.machines.len())
            .then_with(|| a.machines[0].cmp(&b.machines[0]))
    });
    (groups, unread)
}

/// Returns the digest of what a description has in common with those of equal machines.
fn digest(host: &Host, path: &Path) -> Result<String, UnreadReason> {
    let bytes = host
        .read_start(path, LARGEST + 1)
        .map_err(UnreadReason::Io)?;
    if bytes.len() as u64 > LARGEST {
        return Err(UnreadReason::TooLarge);
    }
    let is_of_process = |line: &[u8]| {
        OF_PROCESS
            .iter()
            .any(|begin| line.starts_with(begin.as_bytes()))
    };
    let lines = bytes
        .split_inclusive(|byte| *byte == b'\n')
        .filter(|line| !is_of_process(line));
    let mut seen = BTreeMap::new();
    let mut common = Vec::with_capacity(bytes.len());
    lines.for_each(|line| number_uuids(line, &mut seen, &mut common));
    Ok(storage::full_digest([common.as_slice()]))
}

/// Writes a line with the order of first appearance in place of each UUID. A variable may name the beginning of one.
fn number_uuids<'l>(line: &'l [u8], seen: &mut BTreeMap<&'l [u8], usize>, out: &mut Vec<u8>) {
    let mut rest = line;
    while let Some(at) = UUIDS
        .iter()
        .filter_map(|mark| memchr::memmem::find(rest, mark))
        .min()
    {
        let (before, after) = rest.split_at(at + UUIDS[0].len());
        let is_digit = |byte: &u8| byte.is_ascii_hexdigit() || *byte == b'-';
        let (uuid, after) = after.split_at(
            after
                .iter()
                .position(|byte| !is_digit(byte))
                .unwrap_or(after.len()),
        );
        out.extend_from_slice(before);
        rest = after;
        if uuid.len() < SHORTEST_UUID {
            out.extend_from_slice(uuid);
            continue;
        }
        let beginning = seen
            .range(..=uuid)
            .next_back()
            .filter(|(known, _)| uuid.starts_with(known));
        let whole = || {
            seen.range(uuid..)
                .next()
                .filter(|(known, _)| known.starts_with(uuid))
        };
        let number = beginning
            .or_else(whole)
            .map_or(seen.len(), |(_, number)| *number);
        seen.entry(uuid).or_insert(number);
        out.extend_from_slice(format!("#{number}").as_bytes());
    }
    out.extend_from_slice(rest);
}
