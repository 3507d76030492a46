//! All text for people, and the JSON for programs. Never reads the machine.

use std::io::{self, Write};

mod advise;
mod builds;
mod causes;
mod ci;
mod diagnose;
mod doctor;
mod errors;
mod explain;
mod extensions;
mod fetch;
mod fleet;
mod hints;
mod hooks;
pub mod json;
mod list;
mod notes;
mod page;
mod picture;
mod pin;
mod project;
mod refusal;
mod running;
mod settings;
mod shell;
mod style;
mod template;
mod trace;
mod verdict;
mod words;

pub use advise::{AdviceReport, advice};
pub use builds::{build_remarks, lacking_compilers, listed_toolkits};
pub use ci::{CiRunner, ci_examination, ci_fleet, ci_project};
pub use diagnose::{
    Diagnosis, ProgramChoice, diagnosis, ended, not_started, on_the_cpu, possible_cause,
    silent_input, unknown_failure, unused_gpu, unused_so_far,
};
pub use doctor::{
    doctor_page, examination, examined_program, hidden_findings, missing_program, not_described,
    saved,
};
pub use errors::{ABORTED, AfterFault, after_fault, cut_short, error_hint, panicked};
pub use explain::{
    Explanation, does_not_start, explained, followed, left, no_need, starts_as_called, summary,
};
pub use extensions::{listed_extensions, unfit_extensions};
pub use fetch::{
    MAY_FETCH, NOTHING_TO_FETCH, NoConsent, STORE_IGNORED, ToFetch, fetch_step, newer_on_offer,
    not_allowed_to_fetch, nothing_on_offer, nothing_on_offer_for, only_optional_missing, pruned,
    stored, to_fetch,
};
pub use fleet::{
    ExaminedGroup, FleetReport, NoCommonLock, answers, fleet, no_common_lock, older_driver,
    unread_descriptions, unverified,
};
pub use hints::{first_contact, option_of, own_command_line, shell_words};
pub use hooks::{
    as_root, drop_in, drop_in_removed, drop_in_written, kernel_removed, kernel_written, kernelspec,
    no_drop_in, no_kernels, starts_already,
};
pub use list::listed;
pub use notes::note;
pub use page::{PAGE_BEGIN, html, markdown, page_written};
pub use picture::{pictures, running_pictures};
pub use pin::{outside_if_imported, refusal, repaired, sets_library_path};
pub use project::{project_line, trouble};
pub use running::running;
pub use settings::{
    NotRecorded, allowed, never_allowed, not_recorded, now_allowed, recorded, revoked,
    setting_remark, written,
};
pub use shell::{
    follow_lines, no_variable_of_a_shell, quoted_to_show, shell_change, subshell, watch,
};
pub use style::Style;
pub use template::{example_of_settings, template};
pub use trace::{observation, prediction};
pub use verdict::{
    LOOKING, NO_MORE_PROGRESS, UNPACKING, failed_start, fallback, gpu_not_proved, not_kept,
    progress, proof_line, proving, verdict,
};
pub use words::warnings;

/// Writes to standard output. A closed pipe is not an error.
pub fn print(text: &str) -> io::Result<()> {
    match print_bytes(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Writes bytes to standard output, where a closed pipe is an error.
pub fn print_bytes(bytes: &[u8]) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(bytes).and_then(|()| output.flush())
}

/// Writes to standard error, and ignores a failure: there is no place to report it.
pub fn say(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}
