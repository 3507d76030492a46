//! What is heard of the child, and how it ended: within the time limit, whatever the child does with its
//! outputs, its process group or its own children. Nothing here waits for what the child decides.

use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::Child;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use super::interrupt;
use super::protocol::{self, Line, Place, Step};
use super::{Failure, Finding, Progress, Taken};
use crate::host::Host;

/// How long nothing is heard before it is asked whether the child still lives.
const GLANCE: Duration = Duration::from_millis(1);
/// How long what was said on standard error before the end may take to arrive.
const LINGER: Duration = Duration::from_millis(50);
/// How long the report may. The end of the output is heard at once, so this is waited for only where something that the child
/// has started holds the output open, or where this machine is too busy to run the thread that reads.
const ARRIVAL: Duration = Duration::from_secs(5);
/// How long a child that was killed may take to go: one that the kernel holds does not go at all.
const DEPARTURE: Duration = Duration::from_secs(2);
/// What the child may say on standard error before it is no longer kept.
const ERROR_LIMIT: usize = 16 << 10;
/// And on standard output.
const OUTPUT_LIMIT: u64 = 1 << 20;

/// What was heard of the child, and how it ended.
pub(super) struct Heard {
    pub steps: Vec<Taken>,
    pub current: Option<Place>,
    pub finding: Finding,
    /// How the child says that it came to its end.
    pub report: Option<Result<(), Failure>>,
    /// The end of what was said on standard error.
    pub last_words: String,
    pub end: End,
}

pub(super) enum End {
    /// None where nobody can know: whoever started us ignores SIGCHLD, and the kernel keeps no status.
    Code(Option<i32>),
    Signal(i32),
    TimedOut(u64),
}

/// An error is one of this process: it has no room for a thread.
pub(super) fn listen(
    host: &Host,
    mut child: Child,
    limit: Duration,
    progress: Progress<'_>,
) -> io::Result<Heard> {
    let heard = listen_to(host, &mut child, limit, progress);
    // Whatever it started goes with it, and it goes itself, even if it has left its group. It is not waited
    // for before: its number stays its own.
    let _ = killpg(pid_of(&child), Signal::SIGKILL);
    if !ended(&child) {
        let _ = child.kill();
    }
    let end = end_of(&mut child);
    let (mut heard, errors, timed_out) = heard?;
    heard.end = if timed_out { End::TimedOut(limit.as_secs()) } else { end };
    heard.last_words = errors.last_words();
    Ok(heard)
}

fn listen_to(
    host: &Host,
    child: &mut Child,
    limit: Duration,
    progress: Progress<'_>,
) -> io::Result<(Heard, Overheard, bool)> {
    let said = lines(child.stdout.take())?;
    let errors = Overheard::new(child.stderr.take())?;
    let mut heard = Heard {
        steps: Vec::new(),
        current: None,
        finding: Finding::default(),
        report: None,
        last_words: String::new(),
        end: End::Code(None),
    };
    let timed_out = heard.until_report(host, child, &said, limit, progress);
    Ok((heard, errors, timed_out))
}

impl Heard {
    /// What two children have found, as if it were one. Of two failures the first counts.
    pub(super) fn and(self, other: Heard) -> Heard {
        let is_well = matches!(self.report, Some(Ok(())));
        let (mut told, more) = if is_well { (other, self) } else { (self, other) };
        // In the order in which they would have been taken.
        let (first, then) = if is_well { (more.steps, told.steps) } else { (told.steps, more.steps) };
        let is_last = |taken: &Taken| taken.place.step == Step::Mapped;
        let (last, mut steps): (Vec<Taken>, Vec<Taken>) = first.into_iter().partition(is_last);
        steps.extend(then.into_iter().filter(|taken| !is_last(taken)));
        steps.extend(last);
        told.steps = steps;
        told.finding.join(more.finding);
        told
    }

    /// Listens until there is a report, or the child has ended without one; true when it is too late for
    /// either. After a report there is nothing to hear.
    fn until_report(
        &mut self,
        host: &Host,
        child: &Child,
        said: &Receiver<String>,
        limit: Duration,
        progress: Progress<'_>,
    ) -> bool {
        let started = Instant::now();
        let mut entered = started;
        // What the child has started may hold its output open after it has ended: both are watched.
        let mut end: Option<Instant> = None;
        while self.report.is_none() {
            match (said.recv_timeout(GLANCE), end) {
                (Ok(line), _) => self.hear(host, &line, &mut entered),
                (Err(RecvTimeoutError::Disconnected), Some(_)) => return false,
                (Err(RecvTimeoutError::Timeout), Some(end)) if end.elapsed() >= ARRIVAL => return false,
                (Err(_), Some(_)) => {}
                (Err(pause), None) => {
                    end = ended(child).then(Instant::now);
                    if pause == RecvTimeoutError::Disconnected && end.is_none() {
                        std::thread::sleep(GLANCE);
                    }
                }
            }
            if let Some(place) = &self.current {
                progress(place, started.elapsed());
            }
            if interrupt::came() {
                return false;
            }
            if started.elapsed() >= limit {
                return self.report.is_none() && end.is_none();
            }
        }
        false
    }

    fn hear(&mut self, host: &Host, line: &str, entered: &mut Instant) {
        match protocol::parse(line) {
            Some(Line::Entering(place)) => {
                self.finish_step(entered);
                self.current = Some(place);
            }
            Some(Line::Came(came)) => {
                self.finish_step(entered);
                self.steps.last_mut().into_iter().for_each(|taken| taken.came = Some(came.clone()));
            }
            Some(Line::Found(found)) => self.finding.take(host, found),
            Some(Line::Passed) => {
                self.finish_step(entered);
                self.report = Some(Ok(()));
            }
            Some(Line::Failed(failure)) => {
                self.finish_step(entered);
                self.report = Some(Err(failure));
            }
            None => {}
        }
    }

    fn finish_step(&mut self, entered: &mut Instant) {
        if let Some(place) = self.current.take() {
            let milliseconds = entered.elapsed().as_secs_f64() * 1e3;
            self.steps.push(Taken { place, milliseconds, came: None });
        }
        *entered = Instant::now();
    }
}

/// The lines of the child's standard output, as they come. What is more than a report can be is heard and forgotten, so
/// that nobody is kept waiting.
fn lines(output: Option<impl Read + Send + 'static>) -> io::Result<Receiver<String>> {
    let (lines, received) = mpsc::channel();
    if let Some(output) = output {
        std::thread::Builder::new().spawn(move || {
            let mut output = BufReader::new(output);
            let (mut line, mut left) = (Vec::new(), OUTPUT_LIMIT);
            while let Ok(count @ 1..) = (&mut output).take(left).read_until(b'\n', &mut line) {
                left = left.saturating_sub(count as u64);
                if lines.send(String::from_utf8_lossy(&line).trim_end().to_owned()).is_err() {
                    break;
                }
                line.clear();
            }
            let _ = io::copy(&mut output, &mut io::sink());
        })?;
    }
    Ok(received)
}

/// The end of what is said on standard error. The thread that listens is never waited for: what the child
/// has started may hold the pipe for ever.
struct Overheard {
    kept: Arc<Mutex<Vec<u8>>>,
    is_over: Receiver<()>,
}

impl Overheard {
    fn new(errors: Option<impl Read + Send + 'static>) -> io::Result<Overheard> {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let (over, is_over) = mpsc::channel();
        if let Some(mut errors) = errors {
            let kept = Arc::clone(&kept);
            std::thread::Builder::new().spawn(move || {
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
            })?;
        }
        Ok(Overheard { kept, is_over })
    }

    /// As much as is kept of it.
    fn last_words(&self) -> String {
        let _ = self.is_over.recv_timeout(LINGER);
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&kept).into_owned()
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
