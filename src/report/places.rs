//! The reasons why a directory or a file of cudarun's own is not used.

use std::path::Path;

use super::words::quoted_to_show;
use crate::host::{Unsafe, UnsafeFault};
use crate::storage::Unfit;
use crate::text::{plain, show};

/// The reason why a directory is not used; names the file or directory at fault if that is another one.
pub(super) fn unfit(place: &Path, unfit: &Unfit) -> String {
    match unfit {
        Unfit::Name => "LD_LIBRARY_PATH cannot hold this name".to_owned(),
        Unfit::Unwritable { why } => plain(why).to_lowercase(),
        Unfit::Unsafe(way) => unsafe_way(place, way),
    }
}

/// Says how another user could replace what is at `place`.
pub(super) fn unsafe_way(place: &Path, Unsafe { path, fault }: &Unsafe) -> String {
    let subject = if path == place {
        "it".to_owned()
    } else {
        show(path)
    };
    let mode = |mode: &u32| format!("mode {:04o}", mode & 0o7777);
    match fault {
        UnsafeFault::Owner { uid, mode: bits } => {
            format!("{subject} belongs to user {uid} ({})", mode(bits))
        }
        UnsafeFault::Group {
            uid,
            gid,
            mode: bits,
        } => {
            format!(
                "group {gid} can write to {subject} (user {uid}, {})",
                mode(bits)
            )
        }
        UnsafeFault::Others { uid, mode: bits } => {
            format!("others can write to {subject} (user {uid}, {})", mode(bits))
        }
        UnsafeFault::NotDirectory => format!("{subject} is not a directory"),
        UnsafeFault::Unreadable { kind } => format!("{subject} cannot be read: {kind}"),
    }
}

/// The command that makes a directory safe, followed by `, or `; empty if there is none.
pub(super) fn mend_or(unfit: &Unfit) -> String {
    match unfit {
        Unfit::Unsafe(Unsafe {
            path,
            fault: UnsafeFault::Group { .. } | UnsafeFault::Others { .. },
        }) => {
            format!("chmod go-w {}, or ", quoted_to_show(path.as_os_str()))
        }
        _ => String::new(),
    }
}
