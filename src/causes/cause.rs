//! The types of the room.

use std::path::PathBuf;

use serde::Serialize;

use crate::catalog::Fault;
use crate::diagnose::Message;
use crate::doctor::{Finding, FindingEvidence};
use crate::program::Pip;
use crate::solve::{Hint, MissingWheel};

/// The result of a check; where nothing here tells, there is none.
pub(super) struct CheckAnswer {
    pub is_confirmed: bool,
    pub evidence: Vec<FindingEvidence>,
    /// The findings of `doctor` about it.
    pub findings: Vec<Finding>,
    /// It is about the machine, not about the program.
    pub is_by_doctor: bool,
}

impl CheckAnswer {
    pub(super) fn new(
        is_confirmed: impl Into<Option<bool>>,
        evidence: Vec<FindingEvidence>,
    ) -> Option<CheckAnswer> {
        Some(CheckAnswer {
            is_confirmed: is_confirmed.into()?,
            evidence,
            findings: Vec::new(),
            is_by_doctor: false,
        })
    }
}

/// The most certain first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Certainty {
    /// The check confirms it.
    Is,
    /// Nothing here tells.
    MayBe,
    /// The check rules it out.
    IsNot,
}

/// A possible cause of a message, judged on this machine.
#[derive(Clone, Debug)]
pub struct Cause<'m> {
    pub fault: Fault,
    pub certainty: Certainty,
    /// The check rules it out here, and the text may be from another machine.
    pub is_not_here: bool,
    pub message: &'m Message,
    /// The library, file, version or tool that it is about.
    pub subject: Option<String>,
    pub evidence: Vec<FindingEvidence>,
    pub findings: Vec<Finding>,
    /// Those of the findings of another machine.
    pub remedies: Vec<String>,
    /// An installation that helps, as the solver has checked.
    pub hint: Option<Hint>,
    /// The wheels that the program lacks, if they bring the library.
    pub to_fetch: Vec<MissingWheel>,
    /// The variable by which the program's framework is told another file of the tool.
    pub tool_variable: Option<&'static str>,
    /// The way to call pip for the program's Python.
    pub pip: Option<Pip>,
    /// With the plan, the check rules it out: cudarun removes the cause.
    pub plan_helps: bool,
    /// With this directory first in `LD_LIBRARY_PATH`, the check rules it out.
    pub directory_helps: Option<PathBuf>,
    /// Without `LD_LIBRARY_PATH`, the check rules it out.
    pub unset_helps: bool,
}
