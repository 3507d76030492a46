//! The source of a requirement: who asks, where that is written, and whether the program surely uses it.

use std::path::PathBuf;

use serde::Serialize;

use crate::catalog::title;
use crate::text::{self, show};

/// The source of a requirement.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Asker {
    /// `torch 2.11.0`, or the program's own name.
    pub name: String,
    #[serde(serialize_with = "text::path")]
    pub file: PathBuf,
    pub line: Option<usize>,
    /// The CUDA major that it was built for.
    pub cuda: Option<u32>,
    #[serde(rename = "standing")]
    pub certainty: ImportCertainty,
}

impl Asker {
    /// `torch/lib/libtorch_cuda.so`, `train.py:3`
    pub fn place(&self) -> String {
        let mut place = show(&self.file);
        if self.file.as_os_str().len() > 40 {
            let last: Vec<_> = self.file.components().rev().take(2).collect();
            place = show(&last.into_iter().rev().collect::<PathBuf>());
        }
        match self.line {
            Some(line) => format!("{place}:{line}"),
            None => place,
        }
    }

    /// The name and the place; an option or a settings file is both.
    pub fn with_place(&self) -> String {
        let (by, place) = (title(&self.name), self.place());
        let file = place.trim_end_matches(|c: char| c.is_ascii_digit() || c == ':');
        if place.ends_with(&by) || file.ends_with(&by) {
            place
        } else {
            format!("{by}: {place}")
        }
    }

    /// The user, in `file`, or by an option or a variable of that name.
    pub fn person(name: &str, file: PathBuf, line: Option<usize>) -> Asker {
        Asker {
            name: name.to_owned(),
            file,
            line,
            cuda: None,
            certainty: ImportCertainty::Imported,
        }
    }
}

/// How certain it is that the program uses a package.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ImportCertainty {
    /// The program imports it.
    #[default]
    Imported,
    /// It is installed, and the program imports, runs or starts code that was not followed.
    Possible,
}
