//! A page: its answer, its sections, and their parts.

use super::picture::Picture;

/// A page: one answer, then its sections.
pub struct Page {
    pub(super) title: String,
    pub(super) verdict: String,
    pub(super) tone: Tone,
    pub(super) sections: Vec<Section>,
}

/// How good a statement is. Colours repeat what the words say.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Good,
    Warning,
    Bad,
    Plain,
}

pub(super) struct Section {
    pub title: String,
    pub parts: Vec<Part>,
}

pub(super) enum Part {
    Picture(Picture),
    /// Without a head, the first cell of each row is its title.
    Table {
        head: Vec<String>,
        rows: Vec<Vec<String>>,
    },
    Finding(FindingPart),
    /// Commands to type, one a line.
    Commands(Vec<String>),
    Text(String),
}

/// A fault, what shows it, and what to do.
pub(super) struct FindingPart {
    pub tone: Tone,
    pub label: String,
    pub text: String,
    pub evidence: Vec<String>,
    /// Commands and instructions.
    pub remedies: Vec<String>,
}

impl Page {
    pub(super) fn new(title: impl Into<String>, verdict: String, tone: Tone) -> Page {
        Page {
            title: title.into(),
            verdict,
            tone,
            sections: Vec::new(),
        }
    }

    /// Adds a section, if it has anything.
    pub(super) fn add(&mut self, title: impl Into<String>, parts: Vec<Part>) {
        let parts: Vec<Part> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        if !parts.is_empty() {
            self.sections.push(Section {
                title: title.into(),
                parts,
            });
        }
    }
}

impl Part {
    pub(super) fn table(head: &[&str], rows: Vec<Vec<String>>) -> Part {
        Part::Table {
            head: head.iter().map(|cell| (*cell).to_owned()).collect(),
            rows,
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Part::Picture(picture) => picture.is_empty(),
            Part::Table { rows, .. } => rows.is_empty(),
            Part::Commands(commands) => commands.is_empty(),
            Part::Text(text) => text.is_empty(),
            Part::Finding(_) => false,
        }
    }
}

impl Tone {
    pub(super) fn class(self) -> &'static str {
        match self {
            Tone::Good => "good",
            Tone::Warning => "warning",
            Tone::Bad => "bad",
            Tone::Plain => "plain",
        }
    }
}
