//! The settings of builds and of wheels, and the toolkit that a build gets.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::model::{Key, Layers, Setting, TOOLKIT, Value};
use crate::builds::BuildPlan;
use crate::program::Asker;
use crate::range::Range;

/// The toolkit of a program that compiles.
#[derive(Debug)]
pub struct Build {
    pub plan: BuildPlan,
    /// The files that it was read from.
    pub watched: BTreeSet<PathBuf>,
    /// Its view, if it needs one.
    pub view: Option<PathBuf>,
}

impl Layers {
    /// Returns the versions of the toolkit for a build that a person demands.
    pub fn toolkit_ranges(&self) -> Vec<(Range, Asker)> {
        let key = Key::Requires(TOOLKIT.to_owned());
        let demands = self.get(&key);
        let range = |setting: &Setting| match &setting.value {
            Value::Range(range) => Some((range.clone(), setting.from.asker())),
            _ => None,
        };
        demands.filter_map(range).collect()
    }

    /// True if a person demands a toolkit for this start: the program compiles.
    pub fn is_build(&self) -> bool {
        self.get(&Key::Requires(TOOLKIT.to_owned()))
            .any(|setting| setting.is_of_start)
    }

    /// The directories that wheels come from: the given ones, or else those of the settings.
    pub fn wheels_from(&self, given: &[PathBuf]) -> Vec<PathBuf> {
        if given.is_empty() {
            self.directories(&Key::FetchFrom)
        } else {
            given.to_vec()
        }
    }
}
