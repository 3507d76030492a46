//! What was passed over while looking, and why: a file that could have been a library, or could have told of one.

use std::io;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::error::Category;

use crate::formats::elf::ElfError;
use crate::text;

/// What was passed over, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Warning {
    #[serde(serialize_with = "text::path")]
    pub path: PathBuf,
    #[serde(flatten)]
    pub fault: ReadFault,
}

/// What is wrong with a file that could have been a library, or could have told of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "fault", rename_all = "kebab-case")]
pub enum ReadFault {
    /// A link that leads nowhere, or round in a circle.
    DanglingLink,
    /// Something else: a linker script, a git-lfs pointer, an empty file.
    NotElf,
    /// 32-bit or big-endian.
    WrongClass,
    /// Made for another kind of machine, by its number in the ELF header.
    WrongMachine {
        machine: u16,
    },
    Malformed {
        what: String,
    },
    /// A fifo, a socket, a device: never opened.
    NotRegular,
    Unreadable {
        error: String,
    },
    /// A directory that was to be looked into and is not there.
    NoDirectory,
    /// A record of a package manager or a cache that is not what it should be.
    BadRecord {
        what: String,
    },
}

impl ReadFault {
    pub(super) fn unreadable(error: &io::Error) -> ReadFault {
        // The words of the operating system, without its number.
        let text = error.to_string();
        let error = text.split(" (os error").next().unwrap_or_default().to_lowercase();
        ReadFault::Unreadable { error }
    }

    /// Where JSON is not what it should be; what stands there instead may be megabytes.
    pub(super) fn bad_json(error: &serde_json::Error) -> ReadFault {
        let what = match error.classify() {
            Category::Eof => "ends too early",
            Category::Data => "holds something else than it should",
            Category::Syntax | Category::Io => "not JSON",
        };
        ReadFault::BadRecord { what: format!("{what}, line {} column {}", error.line(), error.column()) }
    }

    /// Whether it is a sound library for other programs than ours.
    pub(super) fn is_foreign(&self) -> bool {
        matches!(self, ReadFault::WrongClass | ReadFault::WrongMachine { .. })
    }
}

impl From<ElfError> for ReadFault {
    fn from(error: ElfError) -> ReadFault {
        match error {
            ElfError::NotElf => ReadFault::NotElf,
            ElfError::WrongClass => ReadFault::WrongClass,
            ElfError::Malformed(what) => ReadFault::Malformed { what: what.to_owned() },
        }
    }
}
