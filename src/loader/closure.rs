//! The objects that a program or an extension module brings along, and the NVIDIA libraries that each needs.

use std::collections::{HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use super::search::{Object, Searcher};
use crate::host::FileId;

/// An object that a walk has reached.
#[derive(Clone, Debug)]
pub struct Consumer {
    pub object: Arc<Object>,
    /// The object, those that loaded it, and the executable, in this order.
    pub chain: Vec<Arc<Object>>,
    /// The names of interest in its DT_NEEDED.
    pub needed: Vec<String>,
    /// The directories of DT_RPATH, which come before `LD_LIBRARY_PATH`.
    pub search_first: Vec<PathBuf>,
    /// The directories of DT_RUNPATH, which come after `LD_LIBRARY_PATH`.
    pub search_later: Vec<PathBuf>,
}

/// Collects objects, each once.
pub struct Walk<'h> {
    searcher: Searcher<'h>,
    executable: Option<Arc<Object>>,
    is_of_interest: fn(&str) -> bool,
    seen: HashSet<FileId>,
    pub consumers: Vec<Consumer>,
    /// Names of no interest that the loader would not find, each with the path of its requester.
    pub missing: Vec<(String, PathBuf)>,
}

impl<'h> Walk<'h> {
    /// `executable` is the program that loads the objects: its DT_RPATH counts for all of them.
    pub fn new(
        searcher: &Searcher<'h>,
        executable: Option<Arc<Object>>,
        is_of_interest: fn(&str) -> bool,
    ) -> Walk<'h> {
        Walk {
            searcher: searcher.clone(),
            executable,
            is_of_interest,
            seen: HashSet::new(),
            consumers: Vec::new(),
            missing: Vec::new(),
        }
    }

    /// Walks from `root` breadth first, as the loader does. Names of interest are not followed, since the plan replaces
    /// their files.
    pub fn add_closure(&mut self, root: Arc<Object>) {
        let mut queue: VecDeque<Vec<Arc<Object>>> = VecDeque::from([vec![root]]);
        while let Some(chain) = queue.pop_front() {
            let object = chain[0].clone();
            if !self.seen.insert(object.id) {
                continue;
            }
            let mut requesters = chain.clone();
            if let Some(executable) = &self.executable
                && chain.iter().all(|object| object.id != executable.id)
            {
                requesters.push(executable.clone());
            }
            let mut needed = Vec::new();
            for name in &object.needed {
                if (self.is_of_interest)(name) {
                    needed.push(name.clone());
                } else if let Some((found, _)) = self.searcher.find(name, &requesters) {
                    let mut next = vec![found];
                    next.extend(chain.iter().cloned());
                    queue.push_back(next);
                } else {
                    self.missing.push((name.clone(), object.path.clone()));
                }
            }
            self.consumers.push(Consumer {
                search_first: self.searcher.rpath_directories(&requesters),
                search_later: self.searcher.runpath_directories(&object),
                object,
                chain: requesters,
                needed,
            });
        }
    }
}
