//! What a person at a terminal sees while the machine is looked at, where that takes long.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::cli::Common;
use crate::host::Host;
use crate::report;

/// After so long a person is shown what is being done.
pub(super) const PATIENCE: Duration = Duration::from_millis(500);

/// Held while the machine is looked at; once it is gone, nothing is left on the terminal.
pub(super) struct Looking(Option<(Sender<()>, JoinHandle<bool>)>);

impl Looking {
    pub(super) fn begin(host: &Host, common: &Common) -> Looking {
        if common.quiet || !host.stderr_is_terminal() {
            return Looking(None);
        }
        // Whoever looks cannot be asked in between: it may wait for a slow disk just then.
        let (done, waited) = mpsc::channel();
        let shown = move || {
            let is_late = waited.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout);
            if is_late {
                report::say(&report::looking());
            }
            is_late
        };
        let clock = thread::Builder::new().spawn(shown);
        Looking(clock.ok().map(|clock| (done, clock)))
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        let Some((done, clock)) = self.0.take() else { return };
        drop(done);
        if clock.join().is_ok_and(|is_shown| is_shown) {
            report::say(report::NO_MORE_PROGRESS);
        }
    }
}
