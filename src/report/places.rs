//! The command that makes a directory or a file of cudarun's own safe.

use super::words::quoted_to_show;
use crate::host::{Unsafe, UnsafeFault};
use crate::storage::Unfit;

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
