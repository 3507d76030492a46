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

use super::protocol::{ChildMessage, ProofStep, StepFailure};
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
    pub facts: ChildFacts,
    /// The child's own verdict.
    pub report: Option<Result<(), StepFailure>>,
    /// The end of its standard error.
    pub stderr_tail: String,
    pub end: End,
}

#[derive(Clone, Copy)]
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
        facts: ChildFacts::default(),
        report: None,
        stderr_tail: String::new(),
        end: End::Code(None),
    };
    let lines = read_lines(child.stdout.take());
    let stderr_tail = StderrTail::new(child.stderr.take());
    let timed_out = match &lines {
        Ok(lines) if stderr_tail.is_ok() => {
            output.until_report(host, &child, lines, limit, progress)
        }
        _ => false,
    };
    children().retain(|other| *other != pid_of(&child));
    output.end = end_child(pid_of(&child));
    if timed_out {
        output.end = End::TimedOut(limit.as_secs());
    }
    lines?;
    output.stderr_tail = stderr_tail?.text();
    Ok(output)
}

impl ChildOutput {
    /// Joins the messages of two children. The first failure counts.
    pub(super) fn merge(mut self, mut other: ChildOutput) -> ChildOutput {
        let mut steps = mem::take(&mut self.steps);
        for record in mem::take(&mut other.steps) {
            if !record.lists_files() {
                steps.push(record);
            }
        }
        // In the order in which one child would take the steps.
        steps.sort_by_key(StepRecord::lists_files);
        let (mut failed, other) = if matches!(self.report, Some(Ok(()))) {
            (other, self)
        } else {
            (self, other)
        };
        failed.steps = steps;
        failed.facts.join(other.facts);
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
        let mut step_start = Instant::now();
        let mut last_check = step_start;
        // The time in which this process was not stopped.
        let mut listened = Duration::ZERO;
        // A process that the child has started may hold the output open after the child's end, so both are watched.
        let mut end: Option<Duration> = None;
        while self.report.is_none() {
            let line = lines.recv_timeout(INTERVAL);
            listened += last_check.elapsed().min(MAX_TICK);
            last_check = Instant::now();
            match (line, end) {
                (Ok(line), _) => self.take_line(host, &line, &mut step_start),
                (Err(RecvTimeoutError::Disconnected), Some(_)) => return false,
                (Err(RecvTimeoutError::Timeout), Some(end)) if listened >= end + REPORT_GRACE => {
                    return false;
                }
                (Err(_), Some(_)) => {}
                (Err(pause), None) => {
                    end = has_ended(child).then_some(listened);
                    if pause == RecvTimeoutError::Disconnected && end.is_none() {
                        std::thread::sleep(INTERVAL);
                    }
                }
            }
            if let Some(step) = &self.current {
                progress(step, listened);
            }
            if listened >= limit {
                return self.report.is_none() && end.is_none();
            }
        }
        false
    }

    fn take_line(&mut self, host: &Host, line: &str, step_start: &mut Instant) {
        let message = match serde_json::from_str(line) {
            Ok(ChildMessage::Found(observation)) => return self.facts.add(host, observation),
            Ok(message) => message,
            Err(_) => return,
        };
        // Every other message ends the current step.
        if let Some(step) = self.current.take() {
            self.steps.push(StepRecord {
                place: step,
                milliseconds: step_start.elapsed().as_secs_f64() * 1e3,
                result: None,
            });
        }
        *step_start = Instant::now();
        match message {
            ChildMessage::Entering(step) => self.current = Some(step),
            ChildMessage::Result(result) => {
                if let Some(record) = self.steps.last_mut() {
                    record.result = Some(result);
                }
            }
            ChildMessage::Passed => self.report = Some(Ok(())),
            ChildMessage::Failed(failure) => self.report = Some(Err(failure)),
            ChildMessage::Found(_) => {}
        }
    }
}

/// The lines of the child's standard output. Output beyond the limit is read and dropped, so that the child never waits.
fn read_lines(output: Option<impl Read + Send + 'static>) -> io::Result<Receiver<String>> {
    let (sender, lines) = mpsc::channel();
    if let Some(output) = output {
        std::thread::Builder::new().spawn(move || {
            let mut output = BufReader::new(output);
            let (mut line, mut left) = (Vec::new(), OUTPUT_LIMIT);
            while let Ok(count @ 1..) = (&mut output).take(left).read_until(b'\n', &mut line) {
                left = left.saturating_sub(count as u64);
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                if sender.send(text).is_err() {
                    break;
                }
                line.clear();
            }
            let _ = io::copy(&mut output, &mut io::sink());
        })?;
    }
    Ok(lines)
}

/// The end of the child's standard error. The reading thread is never joined, since another process may hold the pipe
/// open for ever.
struct StderrTail {
    bytes: Arc<Mutex<Vec<u8>>>,
    /// Nothing is sent: it wakes when the reading thread drops its side.
    end: Receiver<()>,
}

impl StderrTail {
    fn new(errors: Option<impl Read + Send + 'static>) -> io::Result<StderrTail> {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let (sender, end) = mpsc::channel();
        if let Some(mut errors) = errors {
            let bytes = Arc::clone(&bytes);
            std::thread::Builder::new().spawn(move || {
                let _sender: mpsc::Sender<()> = sender;
                let mut buffer = [0; 4096];
                while let Ok(count @ 1..) = errors.read(&mut buffer) {
                    let mut bytes = bytes.lock().unwrap_or_else(PoisonError::into_inner);
                    bytes.extend_from_slice(&buffer[..count]);
                    if bytes.len() > 2 * ERROR_LIMIT {
                        let surplus = bytes.len() - ERROR_LIMIT;
                        bytes.drain(..surplus);
                    }
                }
            })?;
        }
        Ok(StderrTail { bytes, end })
    }

    fn text(&self) -> String {
        let _ = self.end.recv_timeout(STDERR_GRACE);
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// The child stays a zombie.
fn has_ended(child: &Child) -> bool {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    !matches!(
        waitid(Id::Pid(pid_of(child)), flags),
        Ok(WaitStatus::StillAlive) | Err(Errno::EINTR)
    )
}

/// Ends a child's group, and the child itself if it has left its group. It was not waited for yet: that frees its number.
fn end_child(child: Pid) -> End {
    let _ = (killpg(child, Signal::SIGKILL), kill(child, Signal::SIGKILL));
    let start = Instant::now();
    while start.elapsed() < KILL_TIMEOUT {
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
        for child in children.drain(..) {
            end_child(child);
        }
    }
}

pub(super) fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(child.id().cast_signed())
}
