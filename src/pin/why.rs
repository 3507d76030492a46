//! Why a mode is not enough for a plan.

use std::ffi::OsString;
use std::path::PathBuf;

use serde::Serialize;

use super::Mode;
use crate::loader::process::Failure;
use crate::predict::Predicted;
use crate::text;
use crate::version::Version;

/// Why a mode was passed over.
#[derive(Debug, Serialize)]
pub struct NotEnough {
    pub mode: Mode,
    #[serde(flatten)]
    pub why: Why,
}

#[derive(Debug, Serialize)]
#[serde(tag = "why", rename_all = "kebab-case")]
pub enum Why {
    /// The program would get these from outside the plan.
    Leaks { files: Vec<Predicted> },
    /// What a search path that comes before `LD_LIBRARY_PATH` leads to does not fit.
    LedAstray { families: Vec<String> },
    /// Nobody is seen to ask for these, which a person has named.
    Unseen { families: Vec<String> },
    /// Another installation of the family can be reached by some look-up.
    Reachable {
        family: String,
        #[serde(serialize_with = "text::path")]
        directory: PathBuf,
    },
    /// This element of `LD_LIBRARY_PATH` leads to another directory after each `chdir`.
    Relative {
        #[serde(serialize_with = "text::path")]
        element: OsString,
    },
    /// The program would not find these of the plan.
    NotFound { names: Vec<String> },
    /// Not every directory was looked into: a person has excluded some.
    SearchIsLimited,
    /// Something in the environment has to be removed.
    Harmful,
    /// The module could not tell the program from its children: it is not known which program will run.
    ProgramNotKnown,
    /// The program puts a directory of its own before all others.
    RewritesLibraryPath,
    /// A wrapper on the way to the program sets it anew, or takes it away.
    Undone { variable: &'static str },
    /// Auditors slow every call on this C library.
    OldLoader { glibc: Option<Version> },
    /// The model has nothing to go by.
    NotStarted {
        #[serde(skip)]
        failure: Failure,
    },
    /// There is no module for this kind of machine, or its table does not fit into a variable.
    NoModule,
}
