//! How a program ended, as far as its messages explain it.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use nix::libc::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use super::chain::Chain;
use super::messages::Message;
use crate::catalog::{ErrorKind, Fault};

pub enum ProgramEnd<'m> {
    Nothing,
    /// The program has worked, and reports that it found no GPU, where there is none.
    OnTheCpu(&'m Message),
    Failure,
    /// The program failed, and a line names a part and a failure.
    Clue,
    /// The program failed without a known message.
    Unknown,
}

impl ProgramEnd<'_> {
    /// Judges the end of a program by its messages. `is_without_gpu` is about the machine.
    pub fn of(chain: &Chain, status: ExitStatus, is_without_gpu: bool) -> ProgramEnd<'_> {
        let is_clue = |message: &&Message| message.row.kind == ErrorKind::Clue;
        let leading: Vec<&Message> = chain
            .leading
            .iter()
            .filter(|message| !is_clue(message))
            .collect();
        let misses_gpu = |message: &&&Message| {
            let mut causes = message.row.cause.iter().map(|possible| possible.cause);
            causes.any(|cause| matches!(cause, Fault::NoDriver | Fault::NoGpu | Fault::NoSuchGpu))
        };
        // An end that a person asked for needs no explanation.
        let signal = status.signal().or(status.code().map(|code| code - 128));
        let is_ended =
            signal.is_some_and(|signal| [SIGHUP, SIGINT, SIGQUIT, SIGTERM].contains(&signal));
        let has_root = leading
            .iter()
            .any(|message| message.row.kind == ErrorKind::Root);
        match leading.iter().find(misses_gpu) {
            _ if has_root || !status.success() && !leading.is_empty() => ProgramEnd::Failure,
            Some(message) if is_without_gpu => ProgramEnd::OnTheCpu(message),
            Some(_) => ProgramEnd::Failure,
            None if status.success() || is_ended => ProgramEnd::Nothing,
            None if !chain.leading.is_empty() => ProgramEnd::Clue,
            None => ProgramEnd::Unknown,
        }
    }
}
