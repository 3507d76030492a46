//! Questions that the system did not answer: the disk failed, or a limit was reached. A missing file or a missing permission
//! is an answer.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use nix::errno::Errno;

const TROUBLE: [Errno; 8] = [
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
/// One shows the trouble; more would fill memory on a broken disk.
const LIMIT: usize = 100;

static UNANSWERED: Mutex<Vec<Unanswered>> = Mutex::new(Vec::new());

/// A question without an answer.
#[derive(Clone, Debug)]
pub struct Unanswered {
    pub path: PathBuf,
    /// The operating system's message.
    pub why: String,
}

/// Records trouble, and returns the result as it is.
pub(super) fn noted<T, E: Into<io::Error>>(path: &Path, result: Result<T, E>) -> io::Result<T> {
    result.map_err(|error| {
        let error: io::Error = error.into();
        let is_trouble = error
            .raw_os_error()
            .is_some_and(|raw| TROUBLE.contains(&Errno::from_raw(raw)));
        if is_trouble && !KERNEL.iter().any(|kernel| path.starts_with(kernel)) {
            let mut unanswered = UNANSWERED.lock().unwrap_or_else(PoisonError::into_inner);
            if unanswered.len() < LIMIT {
                unanswered.push(Unanswered {
                    path: path.to_owned(),
                    why: error.to_string(),
                });
            }
        }
        error
    })
}

/// The questions of this process that have no answer. A decision that was made without them may be wrong.
pub fn unanswered() -> Vec<Unanswered> {
    UNANSWERED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone()
}
