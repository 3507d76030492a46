//! Descriptions of many machines: what is in one, which are equal, and how batch systems write the names of many hosts.
//! Decides nothing about programs.
//!
//! A description is replaced by one rename, so nodes may write while `fleet` reads. If the largest row has fewer nodes
//! than there are other rows, no differences are shown, and the page names a command that compares two.

mod description;
mod differences;
mod groups;
mod hosts;
mod privacy;
mod required;

pub use description::{
    Answers, Description, DoctorPage, ExaminedProgram, Fact, FactKind, ProgramAnswer,
    SectionSummary, ShownCache, ShownElement, ShownEvidence, ShownFinding, ShownLibrary,
    UnreadReason,
};
pub use differences::{Difference, differences};
pub use groups::{Described, EqualMachines, Unread, find};
pub use hosts::{host_list, is_host};
pub use privacy::{HOME, hidden, is_kept};
pub use required::{NO_GPU, There, UnmetRequirement, lacking};
