//! A finding: a fault of the machine, its evidence, and the programs that it stops.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use crate::catalog::{Fault, Section, Severity, Text};
use crate::inventory::{self, Extension, Installation, Problem};
use crate::settings::{Remark, SettingFault, container::Malformed};
use crate::solve::Summary;
use crate::storage::UnusablePlace;

#[derive(Clone, Debug)]
pub struct Finding {
    pub fault: Fault,
    pub severity: Severity,
    /// The facts in its sentence and in its cure.
    pub texts: Vec<Text>,
    pub detail: Detail,
    pub evidence: Vec<FindingEvidence>,
    /// The other cure of its row is the right one.
    pub has_other_cure: bool,
}

/// What a few faults are about; their words are not in the table of faults.
#[derive(Clone, Debug)]
pub enum Detail {
    None,
    Problem(Problem),
    /// The first of several modules of one package.
    Extension {
        first: Extension,
        more: usize,
    },
    Setting(SettingFault),
    UnknownKey(Remark),
    NotAllowed {
        file: PathBuf,
        keys: BTreeSet<String>,
    },
    Malformed(Malformed),
}

/// The programs that an error stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stops {
    Programs,
    /// Only programs that cudarun starts.
    Us,
}

/// Evidence for a finding.
#[derive(Clone, Debug, PartialEq)]
pub enum FindingEvidence {
    /// The content of a file, in a line if that is known.
    File {
        path: PathBuf,
        line: Option<usize>,
        text: String,
    },
    /// A path that does not exist.
    Absent { path: PathBuf },
    /// Permissions of a file: mode, and on this machine owner and group.
    Mode {
        path: PathBuf,
        mode: u32,
        owner: Option<(u32, u32)>,
    },
    /// A variable whose value is no secret.
    Variable { name: String, value: String },
    /// A variable whose value may be secret.
    Set { name: String },
    /// An element of a list in a variable; `position` starts at 1.
    Element {
        variable: &'static str,
        position: usize,
        text: OsString,
    },
    /// A card on the PCI bus.
    Card {
        bus: String,
        id: String,
        model: Option<&'static str>,
        driver: Option<String>,
    },
    /// An installation at fault, or one to compare it with.
    Installation(Summary),
    /// A file that cannot be used.
    Fault {
        path: PathBuf,
        fault: inventory::ReadFault,
    },
    /// A symbol, or a version of symbols, that a library has or lacks.
    Symbol {
        path: PathBuf,
        symbol: String,
        has: bool,
    },
    /// A directory that is refused for the cache.
    Place { path: PathBuf, why: UnusablePlace },
    /// The words of a description.
    Told { at: String, says: String },
}

impl Finding {
    /// With the usual severity of the fault.
    pub(super) fn new(fault: Fault, evidence: Vec<FindingEvidence>) -> Finding {
        Finding {
            fault,
            severity: fault.row().severity[0],
            texts: Vec::new(),
            detail: Detail::None,
            evidence,
            has_other_cure: false,
        }
    }

    #[allow(clippy::needless_pass_by_value, reason = "most facts are made for it")]
    pub(super) fn with(mut self, name: &'static str, fact: impl ToString) -> Finding {
        self.texts.push((name, fact.to_string()));
        self
    }

    /// With the second severity of the fault, if it has one and this holds.
    pub(super) fn milder(mut self, is_milder: bool) -> Finding {
        if let Some(severity) = self.fault.row().severity.get(1).filter(|_| is_milder) {
            self.severity = *severity;
        }
        self
    }

    pub(super) fn detail(self, detail: Detail) -> Finding {
        Finding { detail, ..self }
    }

    pub(super) fn other_cure(self, has_other_cure: bool) -> Finding {
        Finding {
            has_other_cure,
            ..self
        }
    }

    pub fn section(&self) -> Section {
        let section = self.fault.row().section;
        section.expect("doctor reports only faults with a section")
    }

    /// The programs that it stops if it is an error.
    pub fn stops(&self) -> Stops {
        match self.section() {
            Section::Project | Section::Cache => Stops::Us,
            _ => Stops::Programs,
        }
    }
}

impl FindingEvidence {
    pub fn file(path: impl Into<PathBuf>, text: impl Into<String>) -> FindingEvidence {
        FindingEvidence::File {
            path: path.into(),
            line: None,
            text: text.into(),
        }
    }

    pub fn variable(name: &str, value: &OsStr) -> FindingEvidence {
        FindingEvidence::Variable {
            name: name.to_owned(),
            value: value.to_string_lossy().into_owned(),
        }
    }

    pub fn absent(path: impl Into<PathBuf>) -> FindingEvidence {
        FindingEvidence::Absent { path: path.into() }
    }

    pub fn installation(installation: &Installation) -> FindingEvidence {
        FindingEvidence::Installation(Summary::of(installation))
    }
}
