//! The inputs of a decision beside the machine and the program.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::host::FileId;
use crate::inventory::Origin;

/// The caller's preferences beyond the requirements of the program.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// Directories whose children are our own views: never an input.
    pub views: Vec<PathBuf>,
    /// Families for which search paths that come before `LD_LIBRARY_PATH` do not count, since a stronger mode
    /// answers before them.
    pub ignore_rpath_of: BTreeSet<String>,
    /// A mode that answers before those search paths can be had here.
    pub can_force: bool,
    /// Origins that the user prefers, the most preferred first.
    pub origins: Vec<Origin>,
    pub failed_proofs: Vec<FailedProof>,
    /// The files that the program maps without cudarun.
    pub mapped: BTreeSet<FileId>,
    /// The files of wheels in the directories that wheels come from, if the user named some.
    pub at_hand: Option<BTreeSet<String>>,
}

/// An installation that does not work here, as a proof has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedProof {
    pub family: String,
    pub directory: PathBuf,
}
