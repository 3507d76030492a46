//! What was asked of a machine, so that a description of it can say as much and no more. Only where paths are resolved
//! by us, under a root, is anything written down: a start here pays nothing for it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::Host;

/// How much was asked of a path, by its real name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Asked {
    /// Whether it is there, and how it looks; of a link also where it leads.
    Looked,
    Listed,
    Read,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Record(Arc<Mutex<BTreeMap<PathBuf, Asked>>>);

impl Record {
    pub(super) fn note(&self, path: &Path, asked: Asked) {
        let mut paths = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match paths.get_mut(path) {
            Some(known) => *known = asked.max(*known),
            None => _ = paths.insert(path.to_owned(), asked),
        }
    }
}

impl Host {
    /// The same machine, of which everything that it is asked is written down. All its paths are resolved by us, and
    /// it is looked at as under `--root`.
    pub fn recording(&self) -> io::Result<Host> {
        let root = self.root.clone().unwrap_or_else(|| PathBuf::from("/"));
        let host = Host::at(&root, self.env.clone(), self.cwd.clone())?;
        Ok(Host { kept: self.kept.clone(), record: Some(Record::default()), ..host })
    }

    /// What was asked so far, there or not.
    pub fn asked(&self) -> BTreeMap<PathBuf, Asked> {
        let record = self.record.as_ref();
        record
            .map(|record| record.0.lock().unwrap_or_else(PoisonError::into_inner).clone())
            .unwrap_or_default()
    }

    pub(super) fn note(&self, path: &Path, asked: Asked) {
        if let Some(record) = &self.record {
            record.note(path, asked);
        }
    }

    /// The same of a path as it was given.
    pub(super) fn note_asked(&self, path: &Path, asked: Asked) {
        if let (Some(_), Some(root)) = (&self.record, &self.root)
            && let Ok(resolved) = self.resolve(root, path, true)
        {
            self.note(&resolved, asked);
        }
    }
}
