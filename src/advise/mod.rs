//! Which published releases of packages work together on a machine, by the table of `profiles/builds.toml` (pure).
//!
//! [`advise`] tries all of the table: the newest release of the first package that is asked for counts most. Releases work
//! together where each requirement of each holds, all are for one CUDA major that the driver runs, and the GPUs have code.

mod choice;
mod model;
mod reason;
mod table;

pub use choice::advise;
pub use model::{
    Advice, AdvisedMachine, AdvisedRelease, AskedPackage, KeptFramework, PassedOver, Relaxed,
    ReleaseObstacle, Role,
};
pub use table::{ReleaseCandidate, ReleaseTable, known_names, there};
