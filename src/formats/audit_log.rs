//! The log that the audit module writes: one record for each object that the loader mapped.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use serde::Serialize;

/// How an object was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// The executable itself.
    Program,
    /// The module answered.
    Pinned,
    /// By a name with a slash.
    Path,
    /// DT_RPATH or DT_RUNPATH.
    Rpath,
    LibraryPath,
    Cache,
    Default,
    Secure,
    /// The loader itself, and what is opened by its path into a namespace of its own.
    Unasked,
}

/// An object that was mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub pid: u32,
    pub rule: Rule,
    /// The object that asked for it; empty for the executable.
    pub requester: PathBuf,
    pub name: OsString,
    pub path: PathBuf,
}

/// What the module has written. The last record may still be on its way; what is no record is passed over.
pub fn records(bytes: &[u8]) -> Vec<Record> {
    let mut records = Vec::new();
    let mut rest = bytes;
    while let Some(end) = memchr::memmem::find(rest, b"\0\n") {
        records.extend(record(&rest[..end]));
        rest = &rest[end + 2..];
    }
    records
}

impl Rule {
    const WORDS: [(&'static str, Rule); 9] = [
        ("program", Rule::Program),
        ("pinned", Rule::Pinned),
        ("path", Rule::Path),
        ("rpath", Rule::Rpath),
        ("library-path", Rule::LibraryPath),
        ("cache", Rule::Cache),
        ("default", Rule::Default),
        ("secure", Rule::Secure),
        ("unasked", Rule::Unasked),
    ];

    fn of(word: &[u8]) -> Option<Rule> {
        Rule::WORDS.iter().find(|(known, _)| known.as_bytes() == word).map(|(_, rule)| *rule)
    }
}

/// `PID\0RULE\0REQUESTER\0NAME\0PATH`.
fn record(bytes: &[u8]) -> Option<Record> {
    let fields: Vec<&[u8]> = bytes.split(|byte| *byte == 0).collect();
    let [pid, rule, requester, name, path] = fields.try_into().ok()?;
    let text = |field| OsStr::from_bytes(field).to_owned();
    Some(Record {
        pid: std::str::from_utf8(pid).ok()?.parse().ok()?,
        rule: Rule::of(rule)?,
        requester: text(requester).into(),
        name: text(name),
        path: text(path).into(),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn records_are_read_back_and_damage_costs_only_what_is_damaged() {
        let log = b"7\0program\0\0\0/bin/a\nb\0\n7\0cache\0/bin\n\0libc.so.6\0/lib/libc.so.6\0\n";
        let whole = records(log);
        assert_eq!(whole.len(), 2);
        assert_eq!(whole[0].path, Path::new("/bin/a\nb"));
        assert_eq!((whole[1].pid, whole[1].rule), (7, Rule::Cache));
        assert_eq!(whole[1].requester, Path::new("/bin\n"));
        for end in 0..log.len() {
            assert_eq!(records(&log[..end]), whole[..usize::from(end >= 22)], "{end}");
        }
        for place in 0..log.len() {
            let mut damaged = log.to_vec();
            damaged[place] ^= 0x55;
            assert!(records(&damaged).len() <= 2);
        }
        assert_eq!(records(&[b"7\0torn\0\n".as_slice(), log].concat()).len(), 2);
    }
}
