//! What a program, or a person for it, requires: of library families, and of the machine. Values with their sources; the rooms
//! that read programs, settings and locks make them, the solver judges them.

mod asker;
mod machine;
mod requirement;

pub use asker::{Asker, ImportCertainty};
pub use machine::{Demand, MachinePart, MachineRequirement};
pub use requirement::{
    Before, EarlierDirectory, LibraryRequirement, Load, Need, PinnedTo, Requirement, Want, WantKind,
};
