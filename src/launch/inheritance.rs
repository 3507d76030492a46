//! The state that this process inherited, and that a program must get back.

use std::sync::atomic::{AtomicBool, Ordering};

use nix::libc;

/// The state that this process inherited. Rust's runtime changes some of it before `main`: it ignores SIGPIPE, and opens
/// `/dev/null` in the place of each closed standard stream. cudarun itself ignores SIGXFSZ, and resets SIGCHLD, since a
/// process that ignores SIGCHLD cannot wait for a child.
static IGNORES_PIPE: AtomicBool = AtomicBool::new(false);
static IGNORES_CHILD: AtomicBool = AtomicBool::new(false);
static IGNORES_FILE_SIZE: AtomicBool = AtomicBool::new(false);
static IS_CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];
static IS_RECORDED: AtomicBool = AtomicBool::new(false);

/// Restores the state that this process inherited, also where nothing has changed it yet.
pub(super) fn restore_before_exec() {
    if IS_RECORDED.load(Ordering::Relaxed) {
        // SAFETY: sets a disposition, and no handler.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        restore_inherited();
    }
}

/// Records the inherited state that the program must get back. It runs before Rust's runtime, so it uses nothing that
/// the runtime sets up.
pub fn record_inherited() {
    // SAFETY: asks for a disposition, into a structure for which zeroes are a value, and sets others, with no
    // handler.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let is_known = libc::sigaction(libc::SIGPIPE, std::ptr::null(), &raw mut action) == 0;
        IGNORES_PIPE.store(
            is_known && action.sa_sigaction == libc::SIG_IGN,
            Ordering::Relaxed,
        );
        // A write beyond the limit of file sizes is then an error like any other.
        let before = libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        IGNORES_FILE_SIZE.store(before == libc::SIG_IGN, Ordering::Relaxed);
        let before = libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        IGNORES_CHILD.store(before == libc::SIG_IGN, Ordering::Relaxed);
    }
    let mut streams = [0, 1, 2].map(|fd| libc::pollfd {
        fd,
        events: 0,
        revents: 0,
    });
    // SAFETY: asks about three descriptors, which need not be open, and waits for none.
    if unsafe { libc::poll(streams.as_mut_ptr(), 3, 0) } > 0 {
        for (stream, is_closed) in streams.iter().zip(&IS_CLOSED) {
            is_closed.store(stream.revents & libc::POLLNVAL != 0, Ordering::Relaxed);
        }
    }
    IS_RECORDED.store(true, Ordering::Relaxed);
}

/// Runs last before exec, when `Command` has reset SIGPIPE to its default.
pub(super) fn restore_inherited() {
    for (signal, is_ignored) in [
        (libc::SIGPIPE, &IGNORES_PIPE),
        (libc::SIGCHLD, &IGNORES_CHILD),
    ] {
        if is_ignored.load(Ordering::Relaxed) {
            // SAFETY: sets a disposition, and no handler.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
        }
    }
    if !IGNORES_FILE_SIZE.load(Ordering::Relaxed) {
        // SAFETY: as above.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_DFL) };
    }
    for (descriptor, is_closed) in (0..).zip(&IS_CLOSED) {
        if is_closed.load(Ordering::Relaxed) {
            // SAFETY: a standard stream that the runtime has opened, and that nothing of ours owns.
            unsafe { libc::close(descriptor) };
        }
    }
}

/// False if this process was started with its standard output closed. The runtime opens `/dev/null` in its place, where
/// writes succeed.
pub fn has_output() -> bool {
    !IS_CLOSED[1].load(Ordering::Relaxed)
}

/// True once the state was recorded.
pub(super) fn is_recorded() -> bool {
    IS_RECORDED.load(Ordering::Relaxed)
}

/// True if this process was started with its standard error closed.
pub(super) fn lacks_standard_error() -> bool {
    IS_CLOSED[2].load(Ordering::Relaxed)
}
