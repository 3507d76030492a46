//! What is heard of the child, and how it ended: within the time limit, whatever the child does with its
//! outputs, its process group or its own children. Nothing here waits for what the child decides.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::Child;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use super::Taken;
use super::protocol::{self, Line, Report, Step};

/// How long nothing is heard before it is asked whether the child still lives.
const GLANCE: Duration = Duration::from_millis(1);
/// How long what was said before the end may take to arrive.
const LINGER: Duration = Duration::from_millis(50);
/// How long a child that was killed may take to go: one that the kernel holds does not go at all.
const DEPARTURE: Duration = Duration::from_secs(2);
/// What the child may say on standard error before it is no longer kept.
const ERROR_LIMIT: usize = 16 << 10;
/// And on standard output.
const OUTPUT_LIMIT: u64 = 1 << 20;

/// What was heard of the child, and how it ended.
pub(super) struct Heard {
    pub steps: Vec<Taken>,
    pub current: Option<Step>,
    pub report: Option<Report>,
    pub last_words: Option<String>,
    pub end: End,
}

pub(super) enum End {
    /// None where nobody can know: whoever started us ignores SIGCHLD, and the kernel keeps no status.
    Code(Option<i32>),
    Signal(i32),
    TimedOut(u64),
}

pub(super) fn listen(mut child: Child, limit: Duration) -> Heard {
    let said = lines(child.stdout.take());
    let errors = Overheard::new(child.stderr.take());
    let mut heard =
        Heard { steps: Vec::new(), current: None, report: None, last_words: None, end: End::Code(None) };
    let timed_out = heard.until_report(&child, &said, limit);
    // Whatever it started goes with it, and it goes itself, even if it has left its group. It is not waited
    // for before: its number stays its own.
    let _ = killpg(pid_of(&child), Signal::SIGKILL);
    if !ended(&child) {
        let _ = child.kill();
    }
    let end = end_of(&mut child);
    heard.end = if timed_out { End::TimedOut(limit.as_secs()) } else { end };
    heard.last_words = errors.last_words();
    heard
}

impl Heard {
    /// Listens until there is a report, or the child has ended without one; true when it is too late for
    /// either. After a report there is nothing to hear.
    fn until_report(&mut self, child: &Child, said: &Receiver<String>, limit: Duration) -> bool {
        let started = Instant::now();
        let mut entered = started;
        // What the child has started may hold its output open after it has ended: both are watched.
        let mut has_ended = false;
        while self.report.is_none() {
            match said.recv_timeout(if has_ended { LINGER } else { GLANCE }) {
                Ok(line) => match protocol::parse(&line) {
                    Some(Line::Entering(step)) => {
                        self.finish_step(&mut entered);
                        self.current = Some(step);
                    }
                    Some(Line::Report(report)) => {
                        self.finish_step(&mut entered);
                        self.report = Some(report);
                    }
                    None => {}
                },
                Err(_) if has_ended => return false,
                Err(pause) => {
                    has_ended = ended(child);
                    if pause == RecvTimeoutError::Disconnected && !has_ended {
                        std::thread::sleep(GLANCE);
                    }
                }
            }
            if started.elapsed() >= limit {
                return self.report.is_none() && !has_ended;
            }
        }
        false
    }

    fn finish_step(&mut self, entered: &mut Instant) {
        if let Some(step) = self.current.take() {
            self.steps.push(Taken { step, milliseconds: entered.elapsed().as_secs_f64() * 1e3 });
        }
        *entered = Instant::now();
    }
}

/// The lines of the child's standard output, as they come.
fn lines(output: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (lines, received) = mpsc::channel();
    if let Some(output) = output {
        std::thread::spawn(move || {
            for line in BufReader::new(output.take(OUTPUT_LIMIT)).lines() {
                let Ok(line) = line else { break };
                if lines.send(line).is_err() {
                    break;
                }
            }
        });
    }
    received
}

/// The end of what is said on standard error. The thread that listens is never waited for: what the child
/// has started may hold the pipe for ever.
struct Overheard {
    kept: Arc<Mutex<Vec<u8>>>,
    is_over: Receiver<()>,
}

impl Overheard {
    fn new(errors: Option<impl Read + Send + 'static>) -> Overheard {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let (over, is_over) = mpsc::channel();
        if let Some(mut errors) = errors {
            let kept = Arc::clone(&kept);
            std::thread::spawn(move || {
                // Dropped when this thread ends, which is what the other side hears.
                let _over: mpsc::Sender<()> = over;
                let mut buffer = [0; 4096];
                while let Ok(count @ 1..) = errors.read(&mut buffer) {
                    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                    kept.extend_from_slice(&buffer[..count]);
                    if kept.len() > 2 * ERROR_LIMIT {
                        let surplus = kept.len() - ERROR_LIMIT;
                        kept.drain(..surplus);
                    }
                }
            });
        }
        Overheard { kept, is_over }
    }

    /// The last line that is not empty, of as much as is kept.
    fn last_words(&self) -> Option<String> {
        let _ = self.is_over.recv_timeout(LINGER);
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&kept);
        text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
    }
}

/// Whether the child has ended; it is left to be waited for.
fn ended(child: &Child) -> bool {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    !matches!(waitid(Id::Pid(pid_of(child)), flags), Ok(WaitStatus::StillAlive) | Err(Errno::EINTR))
}

/// How a child that was killed, or had ended before, did end.
fn end_of(child: &mut Child) -> End {
    let killed = Instant::now();
    while killed.elapsed() < DEPARTURE {
        match child.try_wait() {
            Ok(None) => std::thread::sleep(GLANCE),
            Ok(Some(status)) => return status.signal().map_or(End::Code(status.code()), End::Signal),
            Err(_) => break,
        }
    }
    End::Code(None)
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX))
}
