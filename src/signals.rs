//! Signals that this process handles for a while. A program inherits what is ignored and what is blocked, so this file
//! changes neither: an ignored signal stays ignored, and the kernel calls no handler for a blocked one.
#![allow(
    unsafe_code,
    reason = "sets handlers; each block says what makes it sound"
)]

use nix::libc;

/// Real-time signals are others.
const ENDING: [libc::c_int; 14] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGABRT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGTERM,
    libc::SIGSTKFLT,
    libc::SIGXCPU,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGIO,
    libc::SIGPWR,
];

/// Must do only what a handler may: system calls, and atomics for memory.
pub type Handler = extern "C" fn(libc::c_int, &libc::siginfo_t, *const libc::c_void);

/// Signals that would end this process, and leave processes that it has started behind.
pub fn ending() -> impl Iterator<Item = libc::c_int> {
    ENDING
        .into_iter()
        .chain(libc::SIGRTMIN()..=libc::SIGRTMAX())
}

/// Sets a handler for those signals that are not ignored, and returns them. An exec resets it to the default.
pub fn handle(
    signals: impl IntoIterator<Item = libc::c_int>,
    handler: Handler,
) -> Vec<libc::c_int> {
    let mut handled = Vec::new();
    for signal in signals {
        // SAFETY: asks for a disposition, into a structure for which zeroes are a value, and sets a handler that keeps to
        // its contract.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let is_known = libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0;
            if !is_known || action.sa_sigaction == libc::SIG_IGN {
                continue;
            }
            action.sa_sigaction = handler as *const () as libc::sighandler_t;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            if libc::sigaction(signal, &raw const action, std::ptr::null_mut()) == 0 {
                handled.push(signal);
            }
        }
    }
    handled
}

/// Returns handled signals to their default. Nothing else can have been inherited, since an ignored one is not handled.
pub fn release(handled: &[libc::c_int]) {
    for signal in handled {
        // SAFETY: sets a disposition, and no handler.
        unsafe { libc::signal(*signal, libc::SIG_DFL) };
    }
}

/// Gives this process a signal as if nothing handled it. Inside of a handler it comes when the handler returns.
pub fn obey(signal: libc::c_int) {
    // SAFETY: sets a disposition, and no handler; sends a signal to ourselves.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// True for a signal that another process sent, and not `abort` or a fault of this process.
pub fn is_from_outside(info: &libc::siginfo_t) -> bool {
    info.si_code == libc::SI_USER
}
