//! Files and directories that a scan could not use.

use std::io;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::error::Category;

use crate::formats::elf::ElfError;
use crate::text::{self, show};

/// A file or directory that the scan skipped, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Warning {
    #[serde(serialize_with = "text::path")]
    pub path: PathBuf,
    #[serde(flatten, serialize_with = "text::with_words")]
    pub fault: ReadFault,
}

/// A reason to skip a file that looks like a library, a record or a cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(tag = "fault", rename_all = "kebab-case")]
pub enum ReadFault {
    #[error("dangling link")]
    DanglingLink,
    #[error("not an ELF file")]
    NotElf,
    #[error("not a 64-bit little-endian ELF file")]
    WrongClass,
    #[error("for {}", architecture(*.machine))]
    WrongMachine { machine: u16 },
    #[error("malformed ELF file ({})", show(.what))]
    Malformed { what: String },
    #[error("not a regular file")]
    NotRegular,
    #[error("cannot be read: {}", show(.error))]
    Unreadable { error: String },
    #[error("no such directory")]
    NoDirectory,
    #[error("{}", show(.what))]
    BadRecord { what: String },
}

impl ReadFault {
    pub(super) fn unreadable(error: &io::Error) -> ReadFault {
        // The operating system's text without the error number.
        let text = error.to_string();
        let error = text
            .split(" (os error")
            .next()
            .unwrap_or_default()
            .to_lowercase();
        ReadFault::Unreadable { error }
    }

    /// Gives the position of the error and not the text, which may have megabytes.
    pub(super) fn bad_json(error: &serde_json::Error) -> ReadFault {
        let what = match error.classify() {
            Category::Eof => "ends too early",
            Category::Data => "holds something else than it should",
            Category::Syntax | Category::Io => "not JSON",
        };
        ReadFault::BadRecord {
            what: format!("{what}, line {} column {}", error.line(), error.column()),
        }
    }

    /// True for a sound library of another kind of machine.
    pub(super) fn is_foreign(&self) -> bool {
        matches!(self, ReadFault::WrongClass | ReadFault::WrongMachine { .. })
    }
}

impl From<ElfError> for ReadFault {
    fn from(error: ElfError) -> ReadFault {
        match error {
            ElfError::NotElf => ReadFault::NotElf,
            ElfError::WrongClass => ReadFault::WrongClass,
            ElfError::Malformed(what) => ReadFault::Malformed {
                what: what.to_owned(),
            },
        }
    }
}

/// By the number in the ELF header.
fn architecture(machine: u16) -> String {
    match machine {
        3 | 62 => "x86 machines".to_owned(),
        40 | 183 => "ARM machines".to_owned(),
        other => format!("another architecture (ELF machine {other})"),
    }
}
