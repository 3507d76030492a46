//! The reasons for which a wheel cannot be had.

use std::io;
use std::path::{Path, PathBuf};

use crate::cli::ClientKind;
use crate::host::Unsafe;
use crate::solve::MissingWheel;
use crate::text::{plain, show, shown, size};

/// The reason why a wheel was not fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchFault {
    #[error("{} in PATH", .asked.map_or_else(|| "neither `uv` nor `pip` is".to_owned(), |client| format!("`{}` is not", client.name())))]
    NoClient { asked: Option<ClientKind> },
    #[error("`{}` cannot be started: {}", .client.name(), plain(&.error.to_string()))]
    ClientNotStarted {
        client: ClientKind,
        error: io::Error,
    },
    /// `text` is the end of its messages, without passwords.
    #[error("`{}` could not get {} {}{}", .client.name(), .wheel.distribution, .wheel.version, indented(.text))]
    ClientFailed {
        client: ClientKind,
        wheel: Box<MissingWheel>,
        text: Vec<String>,
    },
    #[error("{}", not_in(.wheel, .from))]
    NotInDirectories {
        wheel: Box<MissingWheel>,
        from: Vec<PathBuf>,
    },
    #[error("{}: its size is {found} bytes, expected {}", .wheel.file, .wheel.size)]
    OtherSize {
        wheel: Box<MissingWheel>,
        found: u64,
    },
    #[error("{}: its sha256 is {found}, expected {}", .wheel.file, .wheel.sha256)]
    OtherBytes {
        wheel: Box<MissingWheel>,
        found: String,
    },
    #[error("{}{why}", .wheel.as_ref().map(|wheel| format!("{}: ", wheel.file)).unwrap_or_default())]
    Wheel {
        wheel: Option<Box<MissingWheel>>,
        why: WheelFault,
    },
    /// Both in bytes.
    #[error("{} has {} free, and {} are needed", show(.place), size(*.free), size(*.needs))]
    NoRoom {
        place: PathBuf,
        needs: u64,
        free: u64,
    },
    #[error("{} is mounted `noexec`: no library there can be loaded", show(.place))]
    NoExec { place: PathBuf },
    #[error("settings forbid to fetch (`when = \"never\"`)")]
    Forbidden,
    #[error("there is no home directory for the store")]
    NoHome,
    #[error("{} cannot be used: {}", show(.place), .why.at(.place))]
    Unsafe { place: PathBuf, why: Unsafe },
    #[error("`{}`: {}", show(.path), plain(&.error.to_string()).to_lowercase())]
    Write { path: PathBuf, error: io::Error },
}

pub fn not_in(wheel: &MissingWheel, from: &[PathBuf]) -> String {
    format!("{} is not in {}", wheel.file, shown(from))
}

fn indented(lines: &[String]) -> String {
    lines
        .iter()
        .map(|line| format!("\n  {}", show(line)))
        .collect()
}

/// The reason why a wheel is refused.
#[derive(Debug, thiserror::Error)]
pub enum WheelFault {
    #[error("not a wheel: {}", show(.why))]
    NotArchive { why: String },
    #[error("`{}` leads outside of the wheel", show(.name))]
    Outside { name: String },
    #[error("`{}` is a link", show(.name))]
    Link { name: String },
    #[error("`{}` is packed by an unknown method", show(.name))]
    Method { name: String },
    #[error("`{}` is there twice", show(.name))]
    Twice { name: String },
    #[error("`{}` is damaged: {}", show(.name), show(.why))]
    Damaged { name: String, why: String },
    #[error("no RECORD")]
    NoRecord,
    #[error("`{}` is not as RECORD says", show(.name))]
    NotAsRecorded { name: String },
}

impl FetchFault {
    pub(super) fn write(path: &Path, error: io::Error) -> FetchFault {
        FetchFault::Write {
            path: path.to_owned(),
            error,
        }
    }

    /// Names the wheel in a fault of its content.
    pub(super) fn with(self, wheel: &MissingWheel) -> FetchFault {
        match self {
            FetchFault::Wheel { why, .. } => FetchFault::Wheel {
                wheel: Some(Box::new(wheel.clone())),
                why,
            },
            other => other,
        }
    }
}

impl From<WheelFault> for FetchFault {
    fn from(why: WheelFault) -> FetchFault {
        FetchFault::Wheel { wheel: None, why }
    }
}
