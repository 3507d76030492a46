//! The line that a person at a terminal sees while a scan takes long.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::cli::Common;
use crate::host::Host;
use crate::report;

/// After this time, a line shows the current step.
pub(super) const PATIENCE: Duration = Duration::from_millis(500);

/// Held during the scan; dropping it clears the line.
pub(super) struct Progress(Option<(Sender<()>, JoinHandle<bool>)>);

/// Shows progress on a terminal, unless the verb is to be quiet or runs before each prompt.
pub(super) fn begin(host: &Host, common: &Common, is_hook: bool) -> Progress {
    if is_hook || common.quiet || !host.stderr_is_terminal() {
        return Progress(None);
    }
    // A thread of its own: the scan may wait for a slow disk.
    let (done, waited) = mpsc::channel();
    let shown = move || {
        let is_late = waited.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout);
        if is_late {
            report::say(&report::looking());
        }
        is_late
    };
    let clock = thread::Builder::new().spawn(shown);
    Progress(clock.ok().map(|clock| (done, clock)))
}

impl Drop for Progress {
    fn drop(&mut self) {
        let Some((done, clock)) = self.0.take() else { return };
        drop(done);
        if clock.join().is_ok_and(|is_shown| is_shown) {
            report::say(report::NO_MORE_PROGRESS);
        }
    }
}
