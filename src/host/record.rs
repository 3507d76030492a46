//! A record of the questions that a machine was asked, so that a description of it can hold the answers and nothing else.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// How much was asked of a path, by its real name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathUse {
    /// Its metadata; for a link also its target.
    Looked,
    Listed,
    Read,
}

#[derive(Clone, Debug, Default)]
pub(super) struct UseRecord(Arc<Mutex<BTreeMap<PathBuf, PathUse>>>);

impl UseRecord {
    pub(super) fn note(&self, path: &Path, asked: PathUse) {
        let mut paths = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match paths.get_mut(path) {
            Some(known) => *known = asked.max(*known),
            None => _ = paths.insert(path.to_owned(), asked),
        }
    }

    pub(super) fn asked(&self) -> BTreeMap<PathBuf, PathUse> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
