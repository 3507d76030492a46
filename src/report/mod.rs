//! Every word that a person reads, and the JSON that a program reads. Must not look at the machine.

use std::io::{self, Write};

mod asked;
mod causes;
mod conflict;
mod doctor;
mod doctor_words;
mod errors;
mod explained;
mod hints;
pub mod json;
mod listed;
mod loader;
mod notes;
mod pinned;
mod project;
mod reasons;
mod settings;
mod shell;
mod style;
mod template;
mod traced;
mod verdict;
mod words;

pub use asked::caution;
pub use doctor::{examination, saved};
pub use errors::{error, error_hint};
pub use explained::{Explanation, explained, summary};
pub use hints::hint;
pub use listed::listed;
pub use pinned::{launches, refusal, too_old_for_auditors};
pub use project::trouble;
pub use settings::{
    NotRecorded, allowed, fault, fault_hint, fault_lines, never_allowed, not_recorded, now_allowed, place,
    recorded, revoked, setting_remark, written,
};
pub use shell::{no_variable_of_a_shell, shell_change, watch};
pub use style::Style;
pub use template::template;
pub use traced::{observation, prediction};
pub use verdict::{NO_MORE_PROGRESS, fallback, looking, proof_line, proving, verdict};
pub use words::{family, note, warnings};

/// Text for standard output. A reader that has gone away wants no more, and that is no error.
pub fn print(text: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Text for standard error. There is nowhere to complain to when that fails.
pub fn say(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}
