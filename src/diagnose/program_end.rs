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
        let mut without_gpu = None;
        for message in &chain.leading {
            match message.row.kind {
                ErrorKind::Clue => continue,
                ErrorKind::Root => return ProgramEnd::Failure,
                _ if !status.success() => return ProgramEnd::Failure,
                _ => {}
            }
            if without_gpu.is_none() && may_miss_gpu(message) {
                without_gpu = Some(message);
            }
        }
        if let Some(message) = without_gpu {
            return if is_without_gpu {
                ProgramEnd::OnTheCpu(message)
            } else {
                ProgramEnd::Failure
            };
        }
        // An end that a person asked for needs no explanation.
        let signal = status.signal().or(status.code().map(|code| code - 128));
        let is_by_person =
            signal.is_some_and(|signal| [SIGHUP, SIGINT, SIGQUIT, SIGTERM].contains(&signal));
        if status.success() || is_by_person {
            ProgramEnd::Nothing
        } else if chain.leading.is_empty() {
            ProgramEnd::Unknown
        } else {
            ProgramEnd::Clue
        }
    }
}

fn may_miss_gpu(message: &Message) -> bool {
    message.row.cause.iter().any(|possible| {
        matches!(
            possible.cause,
            Fault::NoDriver | Fault::NoGpu | Fault::NoSuchGpu
        )
    })
}
