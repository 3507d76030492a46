//! The types of the room: the modes, a pinned plan, and the reasons why a mode is not enough.

use std::ffi::OsString;
use std::path::PathBuf;

use super::view::ViewSpec;
use crate::loader::process::LoadFailure;
use crate::modes::Mode;
use crate::predict::{MissingLibrary, Predicted, Prediction};
use crate::solve::{Outcome, Pick};
use crate::version::Version;

/// How a plan is pinned.
#[derive(Debug, Default)]
pub struct Pinned {
    pub mode: Mode,
    pub spec: ViewSpec,
    /// The names in the view that are preloaded, in order.
    pub preload: Vec<String>,
    /// The files that the program maps in the environment as planned.
    pub after: Prediction,
}

/// The outcome of the solver with its pinning.
#[derive(Debug)]
pub struct Decision {
    pub outcome: Outcome,
    /// `None` without a plan, and where no mode is enough.
    pub pinned: Option<Pinned>,
    pub passed_over: Vec<NotEnough>,
    /// A mode that is enough, where the one that the user asked for is not.
    pub instead: Option<Mode>,
    /// Files from outside the plan that come with packages if the program imports them.
    pub outside_if_imported: Vec<Predicted>,
}

impl Decision {
    pub(super) fn new(
        outcome: Outcome,
        pinned: Option<Pinned>,
        passed_over: Vec<NotEnough>,
    ) -> Decision {
        Decision {
            outcome,
            pinned,
            passed_over,
            instead: None,
            outside_if_imported: Vec::new(),
        }
    }

    /// The names of libraries that the program's own are linked against, and that they do not find in the start that
    /// was decided on.
    pub fn missing(&self) -> &[MissingLibrary] {
        self.pinned
            .as_ref()
            .map_or(&[], |pinned| &pinned.after.missing)
    }

    /// True if something that the program surely imports asks for libraries of the plan.
    pub fn expects_gpu(&self) -> bool {
        let plan = self.outcome.plan();
        plan.is_some_and(|plan| plan.picks.iter().any(Pick::is_imported))
    }

    /// True if there is no set, or no way to make the loader take it.
    pub fn is_refused(&self) -> bool {
        matches!(self.outcome, Outcome::Conflict(_)) || self.leaks()
    }

    /// True if there is a set, and no way to make the loader take it.
    pub fn leaks(&self) -> bool {
        matches!(self.outcome, Outcome::Plan(_)) && self.pinned.is_none()
    }
}

/// A mode that was passed over.
#[derive(Debug)]
pub struct NotEnough {
    pub mode: Mode,
    pub why: Why,
}

impl NotEnough {
    pub(super) fn leaked(self) -> Option<Vec<Predicted>> {
        match self.why {
            Why::Leaks { files } => Some(files),
            _ => None,
        }
    }
}

#[derive(Debug)]
pub enum Why {
    /// The program would get these from outside the plan.
    Leaks { files: Vec<Predicted> },
    /// A search path that comes before `LD_LIBRARY_PATH` leads to installations that do not fit.
    ShadowedByRpath { families: Vec<String> },
    /// The user named these families, and the model sees no file that asks for them.
    Unseen { families: Vec<String> },
    /// Another installation of the family can be reached by some look-up.
    Reachable { family: String, directory: PathBuf },
    /// This element of `LD_LIBRARY_PATH` leads to another directory after each `chdir`.
    Relative { element: OsString },
    /// The program would not find these names of the plan.
    NotFound { names: Vec<String> },
    /// The user excluded directories, so not every installation is known.
    SearchIsLimited,
    /// Another process starts the program, and nothing is followed: the module would not know its process.
    NotFollowed,
    /// The program puts a directory of its own before all others.
    RewritesLibraryPath,
    /// The program opens libraries in a namespace of their own.
    OpensNamespaces,
    /// A wrapper on the way to the program sets or unsets the variable.
    Undone { variable: &'static str },
    /// Auditors slow every call on this C library.
    OldLoader { glibc: Option<Version> },
    /// The model cannot see the program start.
    NotStarted { failure: LoadFailure },
    /// There is no module for this kind of machine.
    NoModule,
    /// The table of the audit module cannot hold the names or the directory of the view.
    NoTable,
}
