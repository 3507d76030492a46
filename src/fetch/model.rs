//! The reasons for which a wheel cannot be had.

use std::io;
use std::path::{Path, PathBuf};

use crate::cli::ClientKind;
use crate::host::Unsafe;
use crate::solve::MissingWheel;
use crate::text::show;

/// The reason why a wheel was not fetched.
#[derive(Debug)]
pub enum FetchFault {
    /// Neither `uv` nor `pip` is found, or not the one that was asked for.
    NoClient {
        asked: Option<ClientKind>,
    },
    /// The client could not be started.
    ClientNotStarted {
        client: ClientKind,
        error: io::Error,
    },
    /// The client ended with an error; `text` is the end of its messages, without passwords.
    ClientFailed {
        client: ClientKind,
        wheel: Box<MissingWheel>,
        text: Vec<String>,
    },
    /// No directory of `--from` has the file.
    NotInDirectories {
        wheel: Box<MissingWheel>,
        from: Vec<PathBuf>,
    },
    /// The file has another size than in the table; in bytes.
    OtherSize {
        wheel: Box<MissingWheel>,
        found: u64,
    },
    /// The bytes are others than those in the table.
    OtherBytes {
        wheel: Box<MissingWheel>,
        found: String,
    },
    /// The wheel itself is at fault.
    Wheel {
        wheel: Option<Box<MissingWheel>>,
        why: WheelFault,
    },
    /// There is too little room; both in bytes.
    NoRoom {
        place: PathBuf,
        needs: u64,
        free: u64,
    },
    /// Libraries cannot be mapped from there.
    NoExec {
        place: PathBuf,
    },
    /// An administrator, or a setting, forbids it.
    Forbidden,
    /// There is no home directory.
    NoHome,
    /// Other users can change the directory.
    Unsafe {
        place: PathBuf,
        why: Unsafe,
    },
    Write {
        path: PathBuf,
        error: io::Error,
    },
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
