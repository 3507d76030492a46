//! Signals that end cudarun while a proof is under way: what the proof has started goes first, then cudarun as the signal
//! would have it.

use std::sync::atomic::{AtomicI32, Ordering};

use nix::sys::signal::{SigSet, Signal, raise};
use nix::sys::signalfd::{SfdFlags, SignalFd};

const ENDING: [Signal; 4] = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM];

pub(super) struct Interrupts {
    /// None where there is no descriptor for it: then they end cudarun on the spot.
    signals: Option<SignalFd>,
    before: SigSet,
    came: AtomicI32,
}

impl Interrupts {
    /// From now on they wait to be asked for. What is started has them as ever.
    pub(super) fn hold() -> Interrupts {
        let mut ending = SigSet::empty();
        for signal in ENDING {
            ending.add(signal);
        }
        let before = SigSet::thread_get_mask().unwrap_or(SigSet::empty());
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        let signals = SignalFd::with_flags(&ending, flags).ok().filter(|_| ending.thread_block().is_ok());
        Interrupts { signals, before, came: AtomicI32::new(0) }
    }

    /// Whether one came.
    pub(super) fn came(&self) -> bool {
        if let Some(Ok(Some(signal))) = self.signals.as_ref().map(SignalFd::read_signal) {
            self.came.store(i32::try_from(signal.ssi_signo).unwrap_or(0), Ordering::SeqCst);
        }
        self.came.load(Ordering::SeqCst) != 0
    }

    /// Lets them through again, and does what the one that came is to do.
    pub(super) fn let_go(self) {
        let _ = self.before.thread_set_mask();
        if let Ok(signal) = Signal::try_from(self.came.load(Ordering::SeqCst)) {
            let _ = raise(signal);
        }
    }
}
