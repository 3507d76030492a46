//! From a plan to the program: what exec will get (pure), and exec itself.
#![allow(
    unsafe_code,
    reason = "hands on what Rust's runtime has changed; each block says what makes it sound"
)]

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::libc;

use crate::environment::{Diff, Environment, join_elements};
use crate::error::Error;
use crate::solve::Plan;
use crate::target::Command;

/// Tells the program, and a cudarun below it, which view it was started with.
pub const VIEW: &str = "CUDARUN_VIEW";

/// What this process was started with. Rust's runtime changes some of it before `main`: it ignores SIGPIPE, and
/// opens `/dev/null` in the place of each standard stream that is closed. SIGXFSZ we ignore ourselves.
static IGNORES_PIPE: AtomicBool = AtomicBool::new(false);
static IGNORES_FILE_SIZE: AtomicBool = AtomicBool::new(false);
static IS_CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

/// Everything that exec needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exec {
    pub program: PathBuf,
    pub argv0: OsString,
    pub arguments: Vec<OsString>,
    pub diff: Diff,
}

/// The start of a program that is left as it is.
pub fn unchanged(program: &Path, command: &Command) -> Exec {
    Exec {
        program: program.to_owned(),
        argv0: command.program.clone(),
        arguments: command.arguments.clone(),
        diff: Diff::default(),
    }
}

/// The start of a program with a plan; `view` is where the plan's view was published, if it has one.
pub fn prepare(
    program: &Path,
    command: &Command,
    plan: &Plan,
    view: Option<&Path>,
    env: &Environment,
) -> Exec {
    Exec { diff: environment(plan, view, env), ..unchanged(program, command) }
}

/// Starts the program in this process's place.
pub fn exec(exec: &Exec) -> Result<Infallible, Error> {
    #[allow(clippy::disallowed_methods, reason = "this is where the program is started")]
    let mut command = std::process::Command::new(&exec.program);
    command.arg0(&exec.argv0).args(&exec.arguments);
    for change in &exec.diff.0 {
        match &change.value {
            Some(value) => command.env(&change.name, value),
            None => command.env_remove(&change.name),
        };
    }
    // SAFETY: makes system calls and touches no memory but our statics.
    unsafe {
        command.pre_exec(|| {
            restore_inherited();
            Ok(())
        });
    }
    let error = command.exec();
    Err(Error::Exec { path: exec.program.clone(), error })
}

/// Remembers what the program is to be given back. Called before Rust's runtime starts, when nothing of the
/// standard library can be relied on.
pub extern "C" fn record_inherited() {
    // SAFETY: asks for a disposition, into a structure for which zeroes are a value, and sets another, with no
    // handler.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let is_known = libc::sigaction(libc::SIGPIPE, std::ptr::null(), &raw mut action) == 0;
        IGNORES_PIPE.store(is_known && action.sa_sigaction == libc::SIG_IGN, Ordering::Relaxed);
        // A file that may not grow is an error like any other: we only keep what can be worked out again.
        let before = libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        IGNORES_FILE_SIZE.store(before == libc::SIG_IGN, Ordering::Relaxed);
    }
    let mut streams = [0, 1, 2].map(|fd| libc::pollfd { fd, events: 0, revents: 0 });
    // SAFETY: asks about three descriptors, which need not be open, and waits for none.
    if unsafe { libc::poll(streams.as_mut_ptr(), 3, 0) } > 0 {
        for (stream, is_closed) in streams.iter().zip(&IS_CLOSED) {
            is_closed.store(stream.revents & libc::POLLNVAL != 0, Ordering::Relaxed);
        }
    }
}

/// The last thing before exec. `Command` has set SIGPIPE to its default by then, and nothing else.
fn restore_inherited() {
    if IGNORES_PIPE.load(Ordering::Relaxed) {
        // SAFETY: sets a disposition, and no handler.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
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

/// Whether there is a standard output at all: what is opened in its place would take anything.
pub fn has_output() -> bool {
    !IS_CLOSED[1].load(Ordering::Relaxed)
}

/// The view first, then what is kept of what was there.
fn environment(plan: &Plan, view: Option<&Path>, env: &Environment) -> Diff {
    let mut planned = Diff::default();
    let mut change = |name: &str, value: Option<OsString>| {
        if env.get(name) != value.as_deref() {
            planned.0.push(crate::environment::Change { name: OsString::from(name), value });
        }
    };
    let kept = plan.library_path.iter().filter(|element| element.removed.is_none());
    let elements: Vec<&OsStr> =
        view.map(Path::as_os_str).into_iter().chain(kept.map(|e| e.text.as_os_str())).collect();
    let was_empty = env.get("LD_LIBRARY_PATH").is_some_and(OsStr::is_empty);
    if !(elements.is_empty() && was_empty) {
        change("LD_LIBRARY_PATH", (!elements.is_empty()).then(|| join_elements(elements)));
    }
    if plan.preload.iter().any(|element| element.removed.is_some()) {
        let kept: Vec<&OsStr> = plan
            .preload
            .iter()
            .filter(|element| element.removed.is_none())
            .map(|e| e.text.as_os_str())
            .collect();
        change("LD_PRELOAD", (!kept.is_empty()).then(|| join_elements(kept)));
    }
    if let Some(view) = view {
        change(VIEW, Some(view.as_os_str().to_owned()));
    }
    planned
}
