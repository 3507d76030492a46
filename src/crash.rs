//! What happens if cudarun itself panics, in any thread, or reads a mapped file that was cut short: the program starts
//! unchanged, unless the user requires a set.

use std::panic::PanicHookInfo;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use nix::libc::{self, SIGABRT, SIGBUS};
use nix::sys::signal::{SigSet, Signal};

use crate::error::Form;
use crate::host::Host;
use crate::launch;
use crate::program::Command;
use crate::report::{self, AfterFault};
use crate::settings::may_demand_a_set;
use crate::signals;
use crate::verify;

/// The program that starts, once it is known.
static PROGRAM: OnceLock<Command> = OnceLock::new();
static HAS_STARTED: AtomicBool = AtomicBool::new(false);
/// The exit code of a fault after which nothing starts.
static CODE: AtomicU8 = AtomicU8::new(125);
/// Whether a fault refuses the program, once that is known.
static REFUSES: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const NO: u8 = 1;
const YES: u8 = 2;

/// Handles panics from here on.
pub fn handle_panics() {
    std::panic::set_hook(Box::new(|panic: &PanicHookInfo<'_>| {
        let place = panic
            .location()
            .map(ToString::to_string)
            .unwrap_or_default();
        let message = panic.payload_as_str().unwrap_or_default();
        end(&report::panicked(&place, message))
    }));
}

/// Handles files that are cut short while they are mapped.
pub fn handle_cut_files() {
    extern "C" fn cut_short(_: libc::c_int, _: &libc::siginfo_t, _: *const libc::c_void) {
        // The program inherits the mask. A blocked SIGBUS would have ended this process before.
        let _ = SigSet::from(Signal::SIGBUS).thread_unblock();
        end(&report::cut_short())
    }
    // Allocates, which a handler may do here: the fault is a read of mapped bytes, so no allocation is under way.
    signals::handle([SIGBUS], cut_short);
}

/// Handles the abort by which Rust ends a process that gets no memory. It allocates nothing, so it starts no program.
pub fn handle_aborts() {
    extern "C" fn aborted(_: libc::c_int, info: &libc::siginfo_t, _: *const libc::c_void) {
        if signals::is_from_outside(info) {
            return signals::obey(SIGABRT);
        }
        if !HAS_STARTED.load(Ordering::Relaxed) {
            let _ = SigSet::from(Signal::SIGABRT).thread_unblock();
            launch::become_it();
        }
        let _ = nix::unistd::write(std::io::stderr(), report::ABORTED.as_bytes());
        launch::end_at_once(CODE.load(Ordering::Relaxed))
    }
    signals::handle([SIGABRT], aborted);
}

/// Called once the command line is parsed: from here on, a fault ends with the exit code that this form has for one.
pub fn will_answer(form: Form) {
    CODE.store(if form == Form::Run { 125 } else { 2 }, Ordering::Relaxed);
}

/// Called as soon as the command line shows which program starts.
pub fn will_start(command: &Command) {
    let _ = PROGRAM.set(command.clone());
}

/// Called before the program runs beside this process: a later panic must not start it again.
pub fn has_started() {
    HAS_STARTED.store(true, Ordering::Relaxed);
}

/// Called when it becomes known whether a person demands a set: if so, a fault does not start the program without one.
pub fn refuses(is_demanded: bool) {
    REFUSES.store(if is_demanded { YES } else { NO }, Ordering::Relaxed);
}

fn is_refused() -> bool {
    match REFUSES.load(Ordering::Relaxed) {
        UNKNOWN => may_demand_a_set(&Host::for_a_glance()),
        known => known == YES,
    }
}

/// Says what happened, and starts the program or ends the process.
fn end(fault: &str) -> ! {
    static IS_ENDING: AtomicBool = AtomicBool::new(false);
    // Another thread is at it, and its exec or exit ends this one.
    while IS_ENDING.swap(true, Ordering::SeqCst) {
        std::thread::park();
    }
    verify::end_all();
    if !HAS_STARTED.load(Ordering::Relaxed) {
        launch::become_it();
    }
    let after = match PROGRAM
        .get()
        .filter(|_| !HAS_STARTED.load(Ordering::Relaxed))
    {
        Some(command) if is_refused() => AfterFault::NotStarted(&command.program),
        Some(command) => AfterFault::Unchanged(&command.program),
        None => AfterFault::Nothing,
    };
    report::say(&format!(
        "cudarun: {fault}{}\n",
        report::after_fault(&after)
    ));
    if let (AfterFault::Unchanged(_), Some(command)) = (&after, PROGRAM.get()) {
        let program = Path::new(&command.program);
        let error = launch::exec_after_fault(&launch::unchanged(program, command));
        report::say(&format!("cudarun: {error}\n"));
        launch::end_at_once(error.code(Form::Run));
    }
    launch::end_at_once(CODE.load(Ordering::Relaxed))
}
