//! From a plan to the program: what exec will get, exec itself, and a program that is waited for.
#![allow(
    unsafe_code,
    reason = "hands on what Rust's runtime has changed; each block says what makes it sound"
)]

mod inheritance;
mod relay;
mod replacement;
mod tree;

use std::convert::Infallible;
use std::ffi::{CString, OsStr, OsString};
use std::io::Write as _;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;
use std::{io, thread};

use nix::errno::Errno;
use nix::libc;
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use crate::environment::{Diff, Environment};
use crate::error::Error;
use crate::host::{self, FileId};
use crate::program::Command;
use crate::signals;
use crate::variables;
use inheritance::restore_inherited;
use relay::Relay;
use replacement::{SealedStart, c_texts};

pub use inheritance::{has_output, record_inherited};
pub use replacement::{
    become_it, enter, executed_file, followed_by, is_replaced, refuse, tree_change,
};
pub(crate) use tree::{names::means_no, start_time};

/// The process number of the watched program.
static PROGRAM: AtomicI32 = AtomicI32::new(0);
/// The process number of this process while it watches a program.
static WATCHER: AtomicI32 = AtomicI32::new(0);
/// The last signal that came before there was a program.
static EARLY: AtomicI32 = AtomicI32::new(0);

/// The pseudo-terminal that a watched program has as its standard error.
static TERMINAL: AtomicI32 = AtomicI32::new(-1);

/// Everything that exec needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exec {
    pub program: PathBuf,
    pub argv0: OsString,
    pub arguments: Vec<OsString>,
    pub diff: Diff,
}

/// True if cudarun decided about a process, or gave its executable a plan, by the variable of the tree in its environment, its
/// number in its own namespace, and its line in `/proc`.
pub fn was_decided(
    tree: &OsStr,
    process: Option<u32>,
    line: &[u8],
    executable: Option<FileId>,
) -> bool {
    let tree = tree::ProcessTree::parse(tree);
    let is_it = |decided: &tree::Decided| {
        Some(decided.process) == process.map(u64::from) && decided.start == tree::start_time(line)
    };
    tree.decided.as_ref().is_some_and(is_it)
        || executable.is_some_and(|file| tree.planned.contains(&(file.device, file.inode)))
}

/// The start of a program that is left as it is.
pub fn unchanged(program: &Path, command: &Command) -> Exec {
    Exec {
        program: program.to_owned(),
        argv0: replacement::own_name().unwrap_or_else(|| command.program.clone()),
        arguments: command.arguments.clone(),
        diff: Diff::default(),
    }
}

/// Replaces this process by the program.
pub fn exec(exec: &Exec) -> Result<Infallible, Error> {
    let error = command(exec).exec();
    Err(Error::Exec {
        path: exec.program.clone(),
        error,
    })
}

/// Like [`exec`], at any time: also before the inherited state was recorded.
pub fn exec_after_fault(exec: &Exec) -> Error {
    if !inheritance::is_recorded() {
        record_inherited();
    }
    let Err(error) = self::exec(exec);
    error
}

/// Replaces this process by the program before Rust's runtime starts and changes inherited state. Returns if the kernel
/// refuses.
pub fn exec_early(exec: &Exec, env: &Environment) {
    let words = std::iter::once(&exec.argv0).chain(&exec.arguments);
    let (Ok(program), Some(words)) = (
        CString::new(exec.program.as_os_str().as_bytes()),
        c_texts(words),
    ) else {
        return;
    };
    if exec.diff.is_empty() {
        let _ = nix::unistd::execv(&program, &words);
        return;
    }
    let env = env.with(&sealed(exec, env));
    if let Some(mut start) = SealedStart::new(&exec.program, &exec.argv0, &exec.arguments, &env) {
        start.become_it();
        return;
    }
    if let Some(entries) = c_texts(&replacement::entries(&env)) {
        let _ = nix::unistd::execve(&program, &words, &entries);
    }
}

/// Runs the program to its end, and forwards the signals that are sent to this process. The program gets those of the
/// terminal by itself.
pub fn run(exec: &Exec) -> Result<ExitStatus, Error> {
    run_to_end(command(exec)).map_err(|error| Error::Exec {
        path: exec.program.clone(),
        error,
    })
}

/// Like [`run`], and gives to `tee` each piece that the program has written to standard error, after it was forwarded.
pub fn run_relayed(exec: &Exec, tee: impl FnMut(&[u8]) + Send) -> Result<ExitStatus, Error> {
    if inheritance::lacks_standard_error() {
        return run(exec);
    }
    let (Ok((mut relay, end)), Ok((stopped, stop))) = (Relay::new(), io::pipe()) else {
        return run(exec);
    };
    let mut command = command(exec);
    command.stderr(end);
    TERMINAL.store(relay.number(), Ordering::Relaxed);
    let handled = signals::handle([libc::SIGWINCH], resize);
    let (status, open_relay) = thread::scope(|scope| {
        let thread = scope.spawn(move || {
            let is_open = relay.run(stopped.as_fd(), tee);
            TERMINAL.store(-1, Ordering::Relaxed);
            is_open.then_some(relay)
        });
        let status = run_to_end(command);
        drop(stop);
        (status, thread.join().ok().flatten())
    });
    signals::release(&handled);
    if let Some(relay) = open_relay {
        relay.outlive();
    }
    status.map_err(|error| Error::Exec {
        path: exec.program.clone(),
        error,
    })
}

fn run_to_end(mut command: std::process::Command) -> io::Result<ExitStatus> {
    WATCHER.store(std::process::id().cast_signed(), Ordering::Relaxed);
    let mut handled = signals::handle(signals::ending().chain([libc::SIGTSTP]), forward);
    handled.extend(signals::handle([libc::SIGCONT], continue_program));
    let child = command.spawn();
    // It holds the program's end of a relay.
    drop(command);
    // The program has the mask that this process got. A signal that is blocked there waits there, not here.
    let forwarded: SigSet = handled
        .iter()
        .filter_map(|signal| Signal::try_from(*signal).ok())
        .collect();
    let mask = forwarded.thread_swap_mask(SigmaskHow::SIG_UNBLOCK);
    let status = child.and_then(wait_for);
    if let Ok(mask) = mask {
        let _ = mask.thread_set_mask();
    }
    signals::release(&handled);
    status
}

fn wait_for(mut child: Child) -> io::Result<ExitStatus> {
    let id = child.id().cast_signed();
    PROGRAM.store(id, Ordering::Relaxed);
    let early = EARLY.swap(0, Ordering::Relaxed);
    if early > 0 {
        // SAFETY: sends a signal to a child that was not waited for yet.
        unsafe { libc::kill(id, early) };
    }
    stop_with(id);
    // Its number is free once it was waited for, and must get no signal then.
    PROGRAM.store(0, Ordering::Relaxed);
    child.wait()
}

/// Returns when the program ends. While it is stopped, this process is stopped as well, so that a shell sees it.
fn stop_with(id: libc::pid_t) {
    while is_stopped(id, WaitPidFlag::WEXITED) {
        // A signal to the group wakes both, one after the other.
        thread::sleep(Duration::from_millis(10));
        relay::settle(TERMINAL.load(Ordering::Relaxed));
        if is_stopped(id, WaitPidFlag::WNOHANG) {
            // SAFETY: sends a signal to ourselves.
            unsafe { libc::raise(libc::SIGSTOP) };
            // A signal to this process alone is for both.
            if is_stopped(id, WaitPidFlag::WNOHANG) {
                // SAFETY: sends a signal to a child that was not waited for yet.
                unsafe { libc::kill(id, libc::SIGCONT) };
            }
        }
    }
}

fn is_stopped(id: libc::pid_t, flags: WaitPidFlag) -> bool {
    let flags = flags | WaitPidFlag::WSTOPPED | WaitPidFlag::WNOWAIT;
    let state = waitid(Id::Pid(Pid::from_raw(id)), flags);
    matches!(state, Ok(WaitStatus::Stopped(..)))
}

/// Ends this process by the program's signal, or gives the program's exit code. The program's core file stays: this
/// process writes none in its place.
pub fn end_as(status: ExitStatus) -> u8 {
    if let Some(signal) = status.signal() {
        // SAFETY: says that no core of ours is wanted.
        unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) };
        signals::obey(signal);
        return u8::try_from(signal).map_or(u8::MAX, |signal| signal.wrapping_add(128));
    }
    status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .unwrap_or(u8::MAX)
}

/// Runs a function in a thread with a stack of its own, if a limit for the program leaves this process too little.
pub fn with_enough_stack(run: impl FnOnce() -> u8 + Send) -> u8 {
    const ENOUGH: usize = 1 << 20;
    let limit = getrlimit(Resource::RLIMIT_STACK);
    if limit.is_ok_and(|(limit, _)| limit >= ENOUGH as u64) {
        return run();
    }
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .stack_size(2 * ENOUGH)
            .spawn_scoped(scope, run);
        match thread {
            // A panic has ended the process.
            Ok(thread) => thread.join().unwrap_or(125),
            Err(error) => {
                let _ = writeln!(
                    std::io::stderr(),
                    "cudarun: `ulimit -s` leaves too little stack, and no thread can be started: {error}"
                );
                125
            }
        }
    })
}

/// Ends this process without running anything else in it.
pub fn end_at_once(code: u8) -> ! {
    // SAFETY: ends this process and touches nothing in it.
    unsafe { libc::_exit(code.into()) }
}

/// The change of the environment. If it has the variable of the tree, cudarun follows: the value is what only this
/// start knows.
fn sealed(exec: &Exec, env: &Environment) -> Diff {
    let mut diff = exec.diff.clone();
    if let Some(tree) = diff.0.get_mut(OsStr::new(variables::TREE)) {
        *tree = Some(replacement::tree_for_start(
            &exec.program,
            &exec.argv0,
            &exec.arguments,
            env,
            &exec.diff,
        ));
    }
    diff
}

/// The program with its inherited state restored. The kernel resets our handlers at exec.
fn command(exec: &Exec) -> std::process::Command {
    #[allow(
        clippy::disallowed_methods,
        reason = "this is where the program is started"
    )]
    let mut command = std::process::Command::new(&exec.program);
    command.arg0(&exec.argv0).args(&exec.arguments);
    let env = host::environment();
    let diff = sealed(exec, &env);
    for (name, value) in &diff.0 {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let env = env.with(&diff);
    let mut sealed_start = SealedStart::new(&exec.program, &exec.argv0, &exec.arguments, &env);
    // SAFETY: makes system calls, and touches no memory but our statics and what the closure owns.
    unsafe {
        command.pre_exec(move || {
            restore_inherited();
            if let Some(start) = &mut sealed_start {
                start.become_it();
            }
            Ok(())
        });
    }
    command
}

/// Forwards a signal to the program, unless it came from the terminal's keys: the program got those as well, since its process was made.
/// Until its exec, that process has this handler too, and obeys.
extern "C" fn forward(signal: libc::c_int, info: &libc::siginfo_t, _: *const libc::c_void) {
    if std::process::id().cast_signed() != WATCHER.load(Ordering::Relaxed) {
        return signals::obey(signal);
    }
    let error = Errno::last_raw();
    let program = PROGRAM.load(Ordering::Relaxed);
    // Signals from processes have a code of at most 0.
    let is_of_process = info.si_code <= 0;
    let is_of_key =
        !is_of_process && matches!(signal, libc::SIGINT | libc::SIGQUIT | libc::SIGTSTP);
    // The kernel makes no process while a signal waits, so a child that is there now got it. The number may come later.
    let any = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    if is_of_key && (program != 0 || waitid(Id::All, any).is_ok()) {
        // The program has it.
    } else if program == 0 {
        EARLY.store(signal, Ordering::Relaxed);
    } else {
        // SAFETY: sends a signal to a child that was not waited for yet.
        unsafe { libc::kill(program, signal) };
    }
    Errno::set_raw(error);
}

/// Forwards a signal that takes a stop back. The program may have one that waits.
extern "C" fn continue_program(signal: libc::c_int, _: &libc::siginfo_t, _: *const libc::c_void) {
    let error = Errno::last_raw();
    let _ = EARLY.compare_exchange(libc::SIGTSTP, 0, Ordering::Relaxed, Ordering::Relaxed);
    send_to_program(signal);
    Errno::set_raw(error);
}

/// Forwards a new size of the terminal. The program may have asked for the size before it was set here, so it is told again.
extern "C" fn resize(signal: libc::c_int, _: &libc::siginfo_t, _: *const libc::c_void) {
    let error = Errno::last_raw();
    relay::resize(TERMINAL.load(Ordering::Relaxed));
    send_to_program(signal);
    Errno::set_raw(error);
}

fn send_to_program(signal: libc::c_int) {
    let program = PROGRAM.load(Ordering::Relaxed);
    if program != 0 {
        // SAFETY: sends a signal to a child that was not waited for yet.
        unsafe { libc::kill(program, signal) };
    }
}

/// True if this process has more rights than its user: set-user-ID, set-group-ID, or capabilities of its file. It must
/// then not choose code by that user's files and variables.
pub fn has_more_rights() -> bool {
    const AT_SECURE: libc::c_ulong = 23;
    // SAFETY: reads a number that the kernel gave to this process.
    unsafe { libc::getauxval(AT_SECURE) != 0 }
}
