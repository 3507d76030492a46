//! Questions that the system did not answer: the disk failed, or a limit was reached. A missing file or a missing permission
//! is an answer.

use std::io;
use std::path::Path;
use std::sync::OnceLock;

use nix::errno::Errno;

use crate::text::{plain, show};

const FAULTS: [Errno; 8] = [
    Errno::EIO,
    Errno::EMFILE,
    Errno::ENFILE,
    Errno::ENOMEM,
    Errno::ESTALE,
    Errno::ETIMEDOUT,
    Errno::EUCLEAN,
    Errno::ENOTCONN,
];
/// Files of the kernel refuse for reasons of their own.
const KERNEL: [&str; 3] = ["/proc", "/sys", "/dev"];
static FIRST: OnceLock<String> = OnceLock::new();

/// Records the first of [`FAULTS`], and returns the result as it is.
pub(super) fn noted<T, E: Into<io::Error>>(path: &Path, result: Result<T, E>) -> io::Result<T> {
    result.map_err(|error| {
        let error: io::Error = error.into();
        let number = error.raw_os_error().map(Errno::from_raw);
        let is_fault = number.is_some_and(|number| FAULTS.contains(&number));
        if is_fault && !KERNEL.iter().any(|kernel| path.starts_with(kernel)) {
            FIRST.get_or_init(|| {
                let path = show(path);
                let reason = error.to_string();
                let reason = plain(&reason);
                format!("cannot read {path}: {reason}: the choice may be wrong")
            });
        }
        error
    })
}

/// The first question of this process that the system did not answer, in words.
pub fn unanswered() -> Option<String> {
    FIRST.get().cloned()
}
