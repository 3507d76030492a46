//! The line that a person at a terminal sees while something takes long.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::host::Host;
use crate::report;

/// After this time, a line shows the current step.
pub(super) const PATIENCE: Duration = Duration::from_millis(500);

/// Held meanwhile; dropping it clears the line.
pub struct ProgressLine(Option<(Sender<()>, JoinHandle<bool>)>);

/// Shows a line on a terminal, unless the verb is to be quiet.
pub fn begin(host: &Host, is_quiet: bool, line: &'static str) -> ProgressLine {
    if is_quiet || !host.stderr_is_terminal() {
        return ProgressLine(None);
    }
    // A thread of its own: this one may wait for a slow disk.
    let (done, waited) = mpsc::channel();
    let shown = move || {
        let is_late = waited.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout);
        if is_late {
            report::say(&report::progress(line));
        }
        is_late
    };
    let clock = thread::Builder::new().spawn(shown);
    ProgressLine(clock.ok().map(|clock| (done, clock)))
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        let Some((done, clock)) = self.0.take() else {
            return;
        };
        drop(done);
        if clock.join().is_ok_and(|is_shown| is_shown) {
            report::say(report::NO_MORE_PROGRESS);
        }
    }
}
