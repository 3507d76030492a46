//! What happens if cudarun itself panics, in any thread, or reads a mapped file that was cut short: the program starts
//! unchanged, unless the user requires a set.

use std::panic::PanicHookInfo;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use nix::libc::{self, SIGABRT, SIGBUS};
use nix::sys::signal::{SigSet, Signal};

use crate::cli::{Common, StartOptions, VerifyWhen};
use crate::error::Form;
use crate::host::Host;
use crate::launch;
use crate::program::Command;
use crate::report::{self, AfterFault};
use crate::settings::{Layers, SettingKey, files};
use crate::signals;
use crate::variables;
use crate::verify;

/// The program that starts, once it is known.
static PROGRAM: OnceLock<Command> = OnceLock::new();
static HAS_STARTED: AtomicBool = AtomicBool::new(false);
/// The exit code of a fault after which nothing starts.
static CODE: AtomicU8 = AtomicU8::new(125);
/// Whether the user requires a set, once the settings are known.
static MUST_PIN: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
/// A file that an option names may require one.
const UNREAD_FILE: u8 = 1;
const NO: u8 = 2;
const YES: u8 = 3;

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

/// Called as soon as options are known. Without a demand among them, variables and files may hold one.
pub fn has_options(common: &Common, start: &StartOptions) {
    let wishes = &start.wishes;
    let wants = !wishes.pin.is_empty() || !wishes.require.is_empty() || wishes.locked;
    let is_demanded =
        wants || wishes.pin_mode.is_some() || start.verify == Some(VerifyWhen::Always);
    if is_demanded || !common.elsewhere().is_empty() {
        MUST_PIN.store(YES, Ordering::Relaxed);
    } else if common.config.is_some() {
        MUST_PIN.store(UNREAD_FILE, Ordering::Relaxed);
    }
}

/// Called as soon as all settings are known.
pub fn has_settings(layers: &Layers) {
    let is_demanded = layers.iter().any(|setting| setting.key.is_demand())
        || layers.is_locked()
        || layers.choice(SettingKey::Verify) == Some(VerifyWhen::Always);
    MUST_PIN.fetch_max(if is_demanded { YES } else { NO }, Ordering::Relaxed);
}

/// True if the user requires a set, or may do so in a file that was not read yet.
fn must_pin() -> bool {
    let names = [
        variables::CONFIG,
        variables::LOCKED,
        variables::PIN,
        variables::PIN_MODE,
        variables::REQUIRE,
        variables::VERIFY,
    ];
    match MUST_PIN.load(Ordering::Relaxed) {
        NO => false,
        UNREAD_FILE | YES => true,
        _ => {
            let host = Host::for_a_glance();
            names.iter().any(|name| host.env.non_empty(name).is_some()) || files::exist(&host)
        }
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
        Some(command) if must_pin() => AfterFault::NotStarted(&command.program),
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
