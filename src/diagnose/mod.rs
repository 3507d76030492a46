//! Error messages in a log: lines, signatures, and which of them is the cause of the others. Pure, and in linear time: it
//! must not read files or the environment. `profiles/errors.toml` holds the signatures, and
//! `profiles/clues.toml` the words that say more where none is known.

mod chain;
mod clues;
mod lines;
mod literals;
mod log;
mod messages;
mod paths;
mod program_end;
mod signatures;

pub use chain::Chain;
pub use clues::of_line as clues_of_line;
pub use lines::{LogLine, LogLines};
pub use log::{Log, LogReader};
pub use messages::Message;
pub use paths::NamedPaths;
pub use program_end::ProgramEnd;
pub use signatures::{Captures, Match, Signatures, groups_of};
