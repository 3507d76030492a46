//! The log that the audit module writes: one record for each object that the loader mapped.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use serde::de::IntoDeserializer;
use serde::de::value::{Error as ValueError, StrDeserializer};
use serde::{Deserialize, Serialize};

/// How an object was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TracedRule {
    /// The executable itself.
    Program,
    /// The audit module answered.
    Pinned,
    /// By a name with a slash.
    Path,
    /// DT_RPATH or DT_RUNPATH.
    Rpath,
    LibraryPath,
    Cache,
    Default,
    Secure,
    /// The loader itself, and an object that is opened by path into a namespace of its own.
    Unasked,
}

/// An object that was mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceRecord {
    pub pid: u32,
    pub rule: TracedRule,
    /// The object that asked for it; empty for the executable.
    pub requester: PathBuf,
    pub name: OsString,
    pub path: PathBuf,
}

/// The records of a log, without damaged ones and without a last one that is still being written.
pub fn records(bytes: &[u8]) -> Vec<TraceRecord> {
    let mut records = Vec::new();
    let mut rest = bytes;
    while let Some(end) = memchr::memmem::find(rest, b"\0\n") {
        records.extend(record(&rest[..end]));
        rest = &rest[end + 2..];
    }
    records
}

/// `PID\0RULE\0REQUESTER\0NAME\0PATH`.
fn record(bytes: &[u8]) -> Option<TraceRecord> {
    let fields: Vec<&[u8]> = bytes.split(|byte| *byte == 0).collect();
    let [pid, rule, requester, name, path] = fields.try_into().ok()?;
    let rule: StrDeserializer<'_, ValueError> = std::str::from_utf8(rule).ok()?.into_deserializer();
    Some(TraceRecord {
        pid: std::str::from_utf8(pid).ok()?.parse().ok()?,
        rule: TracedRule::deserialize(rule).ok()?,
        requester: OsStr::from_bytes(requester).into(),
        name: OsStr::from_bytes(name).into(),
        path: OsStr::from_bytes(path).into(),
    })
}
