//! Holds signals that would end cudarun during a proof, until the processes of the proof have ended.

use std::mem;
use std::sync::atomic::{AtomicI32, Ordering};

use nix::libc::{c_int, c_void, siginfo_t};

use crate::signals;

/// The last signal that came while they were held.
static CAME: AtomicI32 = AtomicI32::new(0);

/// True if a signal came, so the proof must be dropped.
pub(super) fn came() -> bool {
    CAME.load(Ordering::SeqCst) != 0
}

extern "C" fn remember(signal: c_int, _: &siginfo_t, _: *const c_void) {
    CAME.store(signal, Ordering::SeqCst);
}

pub(super) struct Interrupts(Vec<c_int>);

impl Interrupts {
    /// Holds the signals. A child inherits the caller's dispositions.
    pub(super) fn hold() -> Interrupts {
        Interrupts(signals::handle(signals::ending(), remember))
    }

    /// Releases the signals, and raises the one that came. Returns true if one came and this process survived it, as the
    /// first process of a container does.
    pub(super) fn let_go(&mut self) -> bool {
        signals::release(&mem::take(&mut self.0));
        let came = CAME.swap(0, Ordering::SeqCst);
        if came != 0 {
            signals::obey(came);
        }
        came != 0
    }
}
