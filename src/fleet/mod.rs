//! Descriptions of many machines: what is in one, which are equal, and how batch systems write the names of many hosts.
//! Decides nothing about programs.

mod description;
mod differences;
mod groups;
mod hosts;
mod privacy;

pub use description::{
    Answers, Description, DoctorPage, ExaminedProgram, Fact, FactKind, ProgramAnswer,
    SectionSummary, ShownCache, ShownElement, ShownEvidence, ShownFinding, ShownLibrary,
    UnreadReason,
};
pub use differences::{Difference, differences};
pub use groups::{Described, EqualMachines, Unread, find};
pub use hosts::{host_list, is_host};
pub use privacy::{HOME, hidden, is_kept};
