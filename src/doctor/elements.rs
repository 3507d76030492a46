//! The elements of `LD_LIBRARY_PATH` and `LD_PRELOAD`: their targets, their libraries, the lines that set them.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::finding::FindingEvidence;
use super::startup::{StartupLine, StartupLines};
use super::subject::{DoctorSubject, installations_in};
use crate::solve::Summary;
use crate::variables;

#[derive(Clone, Debug)]
pub struct JudgedElement {
    pub variable: &'static str,
    /// Starts at 1.
    pub position: usize,
    pub text: OsString,
    /// The directory, or the file, that it leads to.
    pub leads_to: Option<PathBuf>,
    pub holds: Vec<Summary>,
    /// The family of a preloaded file.
    pub family: Option<String>,
    /// Lines that may have set it.
    pub set_by: Vec<StartupLine>,
}

pub(super) fn elements(subject: &DoctorSubject<'_>, lines: &StartupLines) -> Vec<JudgedElement> {
    let inventory = subject.inventory;
    let mut elements = Vec::new();
    for (element, position) in inventory.search.library_path.iter().zip(1..) {
        let mut holds = Vec::new();
        if let Some(directory) = &element.directory {
            holds.extend(installations_in(inventory, directory).map(Summary::of));
        }
        elements.push(JudgedElement {
            variable: variables::LIBRARY_PATH,
            position,
            text: element.text.clone(),
            leads_to: element.directory.clone(),
            holds,
            family: None,
            set_by: lines.with_element(variables::LIBRARY_PATH, &element.text),
        });
    }
    for (element, position) in inventory.search.preload.iter().zip(1..) {
        let file = subject.host.absolute(Path::new(&element.text));
        elements.push(JudgedElement {
            variable: variables::PRELOAD,
            position,
            text: element.text.clone(),
            leads_to: subject.host.is_file(&file).then_some(file),
            holds: Vec::new(),
            family: element.family.clone(),
            set_by: lines.with_element(variables::PRELOAD, &element.text),
        });
    }
    elements
}

impl JudgedElement {
    pub fn evidence(&self) -> FindingEvidence {
        FindingEvidence::Element {
            variable: self.variable,
            position: self.position,
            text: self.text.clone(),
        }
    }

    pub(super) fn is_path(&self) -> bool {
        self.variable == variables::LIBRARY_PATH
    }

    /// True for a name without a directory, which the loader searches like any other.
    pub(super) fn is_bare_name(&self) -> bool {
        !self.is_path() && !self.text.as_bytes().contains(&b'/')
    }

    /// True if it has tokens of the loader: its target depends on the program.
    pub(super) fn has_token(&self) -> bool {
        self.text.as_bytes().contains(&b'$')
    }

    pub(super) fn is_relative(&self) -> bool {
        !self.text.is_empty() && !self.has_token() && Path::new(&self.text).is_relative()
    }
}
