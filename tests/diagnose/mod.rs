//! Error messages in logs: the table of signatures, hostile and odd logs, and logs of programs that work.

use cudarun::diagnose::{Chain, LogReader, Message};

mod answers;
mod arm;
mod command;
mod cures;
mod doctor;
mod first_messages;
mod healthy;
mod logs;
mod running;
mod signatures;
mod targets;
mod travelled;

/// The messages of a log that is fed in one piece.
fn messages(log: &[u8]) -> Vec<Message> {
    let mut reading = LogReader::default();
    reading.take(log);
    reading.messages()
}

fn chain(log: &str) -> Chain {
    Chain::new(messages(log.as_bytes()))
}
