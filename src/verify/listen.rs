//! Reads the child's messages until it ends, within the time limit, even if the child misuses its outputs, its process
//! group or its own children.

use std::io::{self, BufRead, BufReader, Read};
use std::mem;
use std::process::Child;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;

use super::protocol::{ChildMessage, ChildStep, ProofStep, StepFailure};
use super::verdict::{ChildFacts, StepRecord};
use crate::host::Host;

/// The interval between checks that the child still lives.
const INTERVAL: Duration = Duration::from_millis(1);
/// The longest time between two checks that counts. A longer one means that this process was stopped, as by Ctrl-Z.
const MAX_TICK: Duration = Duration::from_millis(500);
/// The time that the last output on standard error gets to arrive.
const STDERR_GRACE: Duration = Duration::from_millis(50);
/// The time that a report gets to arrive after the child's end. It passes only if a process that the child has started
/// holds the output open, or if this machine is too busy to run the reading thread.
const REPORT_GRACE: Duration = Duration::from_secs(5);
/// The time that a killed child gets to end. The kernel may hold it for ever.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);
/// So many bytes of standard error are kept, and so many of standard output are read.
const ERROR_LIMIT: usize = 16 << 10;
const OUTPUT_LIMIT: u64 = 1 << 20;

/// The children of the proofs that are under way. Each leads a process group.
static CHILDREN: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// Called often with the current step and the time since the start of the proof.
pub type OnProgress<'p> = &'p mut dyn FnMut(&ProofStep, Duration);

/// The messages of a child, and the way in which it ended.
pub(super) struct ChildOutput {
    pub steps: Vec<StepRecord>,
    pub current: Option<ProofStep>,
    pub finding: ChildFacts,
    /// The child's own verdict.
    pub report: Option<Result<(), StepFailure>>,
    /// The end of its standard error.
    pub stderr_tail: String,
    pub end: End,
}

pub(super) enum End {
    /// `None` for a killed child that the kernel does not let go, and in tests that ignore SIGCHLD.
    Code(Option<i32>),
    Signal(i32),
    TimedOut(u64),
}

/// Fails only if this process cannot start a thread.
pub(super) fn listen(
    host: &Host,
    mut child: Child,
    limit: Duration,
    progress: OnProgress<'_>,
) -> io::Result<ChildOutput> {
    let mut output = ChildOutput {
        steps: Vec::new(),
        current: None,
        finding: ChildFacts::default(),
        report: None,
        stderr_tail: String::new(),
        end: End::Code(None),
    };
    let outputs = lines(child.stdout.take())
        .and_then(|lines| Ok((lines, StderrTail::new(child.stderr.take())?)));
    let timed_out = outputs
        .as_ref()
        .is_ok_and(|(lines, _)| output.until_report(host, &child, lines, limit, progress));
    children().retain(|other| *other != pid_of(&child));
    let end = end(pid_of(&child));
    output.end = if timed_out {
        End::TimedOut(limit.as_secs())
    } else {
        end
    };
    output.stderr_tail = outputs?.1.text();
    Ok(output)
}

impl ChildOutput {
    /// Joins the messages of two children. The first failure counts.
    pub(super) fn merge(mut self, mut other: ChildOutput) -> ChildOutput {
        // In the order in which one child would take the steps.
        let is_last = |taken: &StepRecord| taken.place.step == ChildStep::Mapped;
        let mut steps = mem::take(&mut self.steps);
        steps.extend(other.steps.drain(..).filter(|taken| !is_last(taken)));
        steps.sort_by_key(is_last);
        let (mut failed, other) = if matches!(self.report, Some(Ok(()))) {
            (other, self)
        } else {
            (self, other)
        };
        failed.steps = steps;
        failed.finding.join(other.finding);
        failed
    }

    /// Listens until the child reports or has ended. Returns true if the time limit passed before.
    fn until_report(
        &mut self,
        host: &Host,
        child: &Child,
        lines: &Receiver<String>,
        limit: Duration,
        progress: OnProgress<'_>,
    ) -> bool {
        let mut entered = Instant::now();
        // The time in which this process was not stopped.
        let (mut checked, mut listened) = (entered, Duration::ZERO);
        // A process that the child has started may hold the output open after the child's end, so both are watched.
        let mut end: Option<Duration> = None;
        while self.report.is_none() {
            let line = lines.recv_timeout(INTERVAL);
            listened += checked.elapsed().min(MAX_TICK);
            checked = Instant::now();
            match (line, end) {
                (Ok(line), _) => self.take_line(host, &line, &mut entered),
                (Err(RecvTimeoutError::Disconnected), Some(_)) => return false,
                (Err(RecvTimeoutError::Timeout), Some(end)) if listened >= end + REPORT_GRACE => {
                    return false;
                }
                (Err(_), Some(_)) => {}
                (Err(pause), None) => {
                    end = ended(child).then_some(listened);
                    if pause == RecvTimeoutError::Disconnected && end.is_none() {
                        std::thread::sleep(INTERVAL);
                    }
                }
            }
            if let Some(place) = &self.current {
                progress(place, listened);
            }
            if listened >= limit {
                return self.report.is_none() && end.is_none();
            }
        }
        false
    }

    fn take_line(&mut self, host: &Host, line: &str, entered: &mut Instant) {
        let line = match serde_json::from_str(line) {
            Ok(ChildMessage::Found(observation)) => return self.finding.add(host, observation),
            Ok(line) => line,
            Err(_) => return,
        };
        // Every other message ends the current step.
        if let Some(place) = self.current.take() {
            let milliseconds = entered.elapsed().as_secs_f64() * 1e3;
            self.steps.push(StepRecord {
                place,
                milliseconds,
                result: None,
            });
        }
        *entered = Instant::now();
        match line {
            ChildMessage::Entering(place) => self.current = Some(place),
            ChildMessage::Result(result) => {
                if let Some(taken) = self.steps.last_mut() {
                    taken.result = Some(result);
                }
            }
            ChildMessage::Passed => self.report = Some(Ok(())),
            ChildMessage::Failed(failure) => self.report = Some(Err(failure)),
            ChildMessage::Found(_) => {}
        }
    }
}

/// The lines of the child's standard output. Output beyond the limit is read and dropped, so that the child never waits.
fn lines(output: Option<impl Read + Send + 'static>) -> io::Result<Receiver<String>> {
    let (lines, received) = mpsc::channel();
    if let Some(output) = output {
        std::thread::Builder::new().spawn(move || {
            let mut output = BufReader::new(output);
            let (mut line, mut left) = (Vec::new(), OUTPUT_LIMIT);
            while let Ok(count @ 1..) = (&mut output).take(left).read_until(b'\n', &mut line) {
                left = left.saturating_sub(count as u64);
                if lines
                    .send(String::from_utf8_lossy(&line).trim_end().to_owned())
                    .is_err()
                {
                    break;
                }
                line.clear();
            }
            let _ = io::copy(&mut output, &mut io::sink());
        })?;
    }
    Ok(received)
}

/// The end of the child's standard error. The reading thread is never joined, since another process may hold the pipe
/// open for ever.
struct StderrTail {
    kept: Arc<Mutex<Vec<u8>>>,
    is_over: Receiver<()>,
}

impl StderrTail {
    fn new(errors: Option<impl Read + Send + 'static>) -> io::Result<StderrTail> {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let (over, is_over) = mpsc::channel();
        if let Some(mut errors) = errors {
            let kept = Arc::clone(&kept);
            std::thread::Builder::new().spawn(move || {
                // Dropped when this thread ends, which wakes the other side.
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
        Ok(StderrTail { kept, is_over })
    }

    fn text(&self) -> String {
        let _ = self.is_over.recv_timeout(STDERR_GRACE);
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&kept).into_owned()
    }
}

/// True if the child has ended. It stays a zombie.
fn ended(child: &Child) -> bool {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    !matches!(
        waitid(Id::Pid(pid_of(child)), flags),
        Ok(WaitStatus::StillAlive) | Err(Errno::EINTR)
    )
}

/// Ends a child's group, and the child itself if it has left its group. It was not waited for yet: that frees its number.
fn end(child: Pid) -> End {
    let _ = (killpg(child, Signal::SIGKILL), kill(child, Signal::SIGKILL));
    let killed = Instant::now();
    while killed.elapsed() < KILL_TIMEOUT {
        match waitpid(child, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => std::thread::sleep(INTERVAL),
            Ok(WaitStatus::Exited(_, code)) => return End::Code(Some(code)),
            Ok(WaitStatus::Signaled(_, signal, _)) => return End::Signal(signal as i32),
            Ok(_) | Err(_) => break,
        }
    }
    End::Code(None)
}

/// The children of the proofs that are under way.
pub(super) fn children() -> MutexGuard<'static, Vec<Pid>> {
    CHILDREN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends the children of the proofs that are under way: this process will not listen to them any more.
pub fn end_all() {
    // Of this thread, if a fault has interrupted it.
    if let Ok(mut children) = CHILDREN.try_lock() {
        children.drain(..).for_each(|child| _ = end(child));
    }
}

pub(super) fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(child.id().cast_signed())
}
