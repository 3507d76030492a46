//! Files and directories that a scan could not use.

use std::io;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::error::Category;

use crate::formats::elf::ElfError;
use crate::text;

/// A file or directory that the scan skipped, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Warning {
    #[serde(serialize_with = "text::path")]
    pub path: PathBuf,
    #[serde(flatten)]
    pub fault: ReadFault,
}

/// A reason to skip a file that looks like a library, a record or a cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "fault", rename_all = "kebab-case")]
pub enum ReadFault {
    /// A link to a missing file, or in a circle.
    DanglingLink,
    /// A linker script, a git-lfs pointer, an empty file.
    NotElf,
    /// 32-bit or big-endian.
    WrongClass,
    /// For another kind of machine, by its number in the ELF header.
    WrongMachine { machine: u16 },
    /// Its headers or tables are damaged.
    Malformed { what: String },
    /// A fifo, a socket or a device, which is never opened.
    NotRegular,
    /// The operating system's message.
    Unreadable { error: String },
    /// A directory that the user or the configuration names does not exist.
    NoDirectory,
    /// A damaged record of a package manager, or a damaged cache.
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
