//! Signals that end cudarun while a proof is under way: what the proof has started goes first, then cudarun as the signal
//! would have it.

use std::mem;
use std::sync::atomic::{AtomicI32, Ordering};

use nix::libc::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, c_int, c_void, siginfo_t};
use nix::sys::signal::{Signal, raise};

use crate::signals;

/// The last one that came while they were held.
static CAME: AtomicI32 = AtomicI32::new(0);

/// Says that a proof is to be thrown away, whatever was heard of it.
pub(super) fn came() -> bool {
    CAME.load(Ordering::SeqCst) != 0
}

extern "C" fn remember(signal: c_int, _: *const siginfo_t, _: *const c_void) {
    CAME.store(signal, Ordering::SeqCst);
}

pub(super) struct Interrupts(Vec<c_int>);

impl Interrupts {
    /// From now on they wait to be asked for. A child has them as the caller gave them to us.
    pub(super) fn hold() -> Interrupts {
        Interrupts(signals::handle([SIGHUP, SIGINT, SIGQUIT, SIGTERM], remember))
    }

    /// Holds them no longer, and gives the one that came its effect. True if one came and this process still lives: the
    /// kernel ends the first process of a container by no signal that it leaves at its default.
    pub(super) fn let_go(&mut self) -> bool {
        signals::release(&mem::take(&mut self.0));
        let came = CAME.swap(0, Ordering::SeqCst);
        if let Ok(signal) = Signal::try_from(came) {
            let _ = raise(signal);
        }
        came != 0
    }
}
