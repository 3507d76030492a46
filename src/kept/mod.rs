//! Kept starts: a start that was worked out once is used again while everything that it was read from looks as it did. Answers
//! about projects for the shell hook are kept in the same way.

mod entries;
mod key;
mod path_states;

use crate::host::Host;
use crate::launch::{self, Exec};
use crate::program::{self, Command};
use crate::storage;

pub use entries::{find_answer, find_start, keep_answer, keep_start};
pub use key::{StartKey, decides, start_key};

/// The start that was kept for a command, if it still holds. Nothing slow happens here.
pub fn exec_of(host: &Host, command: &Command, is_build: bool) -> Option<Exec> {
    let program = program::locate(host, &command.program).ok()?;
    let key = start_key(host, &program, command, is_build)?;
    let diff = find_start(host, storage::candidates(host), &key)?;
    Some(Exec {
        diff,
        ..launch::unchanged(&program, command)
    })
}
