//! The change of environment by which a mode pins a plan. Pure.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::audit_module;
use super::decision::Pinned;
use crate::environment::{Diff, Environment, audit_elements, join_elements, preload_elements};
use crate::solve::Plan;
pub use crate::variables::VIEW;
use crate::variables::{AUDIT, LIBRARY_PATH, PINS, PRELOAD, TRACE};

const TUNABLES: &str = "GLIBC_TUNABLES";
/// With an auditor, the loader fixes the room for thread-local storage before it has seen the program's libraries.
/// 1.6 kB are left, and libjemalloc alone takes more.
const TLS_ROOM: &str = "glibc.rtld.optional_static_tls";
const TLS_BYTES: u32 = 16384;

/// The files that a mode needs, where they were published.
#[derive(Clone, Debug, Default)]
pub struct PublishedPaths {
    pub view: Option<PathBuf>,
    /// The audit module, where the mode needs one.
    pub module: Option<PathBuf>,
}

/// `diff` with the settings that make the audit module log the mapped objects.
pub fn watched(diff: &Diff, module: &Path, log: &Path, env: &Environment) -> Diff {
    let mut diff = followed(diff, module, env);
    diff.0.insert(TRACE.into(), Some(log.into()));
    diff
}

/// `diff` with the settings that make the loader ask the module in each process that the program starts. It is the last
/// auditor.
pub fn followed(diff: &Diff, module: &Path, env: &Environment) -> Diff {
    let planned = env.with(diff);
    let mut followed = planned.clone();
    let mut auditors = planned.get(AUDIT).map(audit_elements).unwrap_or_default();
    auditors.retain(|element| *element != module.as_os_str());
    auditors.push(module.as_os_str());
    followed.set(AUDIT, join_elements(auditors));
    followed.set(TUNABLES, with_room(planned.get(TUNABLES)));
    diff.then(&Diff::between(&planned, &followed))
}

impl Pinned {
    /// The change of environment that pins `plan`. `own` are the directories that hold our views.
    pub fn environment(
        &self,
        plan: &Plan,
        published: &PublishedPaths,
        own: &[PathBuf],
        env: &Environment,
    ) -> Diff {
        let pins = if self.mode.traits().uses_module {
            self.pins(published)
        } else {
            None
        };
        let module = published.module.as_deref().filter(|_| pins.is_some());
        let mut values = vec![
            (LIBRARY_PATH, self.library_path(plan, published, env)),
            (PRELOAD, self.preload(plan, published, own, env)),
            (AUDIT, auditors(module, own, env)),
            (PINS, pins),
        ];
        if module.is_some() {
            values.push((TUNABLES, Some(with_room(env.get(TUNABLES)))));
        }
        if let Some(view) = &published.view {
            values.push((VIEW, Some(view.as_os_str().to_owned())));
        }
        let mut diff = Diff::default();
        for (name, value) in values {
            if env.get(name) != value.as_deref() {
                diff.0.insert(name.into(), value);
            }
        }
        diff
    }

    /// The table of the audit module: every name in the view.
    pub(super) fn pins(&self, published: &PublishedPaths) -> Option<OsString> {
        let names = self.spec.links.keys().chain(&self.spec.tombstones);
        audit_module::pins(published.view.as_deref()?, names.map(String::as_str))
    }

    fn library_path(
        &self,
        plan: &Plan,
        published: &PublishedPaths,
        env: &Environment,
    ) -> Option<OsString> {
        let kept = plan
            .library_path
            .iter()
            .filter(|element| element.removed.is_none());
        let kept = kept.map(|element| element.text.as_os_str());
        // Every child searches LD_LIBRARY_PATH; the module answers only in the process that it is for.
        let view = published
            .view
            .as_deref()
            .filter(|_| !self.mode.traits().uses_module);
        let elements: Vec<&OsStr> = view.map(Path::as_os_str).into_iter().chain(kept).collect();
        if elements.is_empty() {
            // An empty value stays.
            env.get(LIBRARY_PATH)
                .filter(|value| value.is_empty())
                .map(OsStr::to_owned)
        } else {
            Some(join_elements(elements))
        }
    }

    fn preload(
        &self,
        plan: &Plan,
        published: &PublishedPaths,
        own: &[PathBuf],
        env: &Environment,
    ) -> Option<OsString> {
        let inherited = env.get(PRELOAD).map(preload_elements).unwrap_or_default();
        let mut elements = Vec::new();
        if let Some(view) = &published.view {
            for name in &self.preload {
                elements.push(view.join(name).into_os_string());
            }
        }
        for text in &inherited {
            let is_removed = plan
                .preload
                .iter()
                .any(|element| element.text == *text && element.removed.is_some());
            let views = Path::new(text).ancestors().nth(2);
            if !is_removed && !own.iter().any(|own| views == Some(own)) {
                elements.push(text.clone());
            }
        }
        if elements == inherited {
            return env.get(PRELOAD).map(OsStr::to_owned);
        }
        joined(elements.iter().map(OsString::as_os_str).collect())
    }
}

/// The auditors of others, then ours: each is asked for the answer of the one before it, so the last one decides.
/// Our module stays where an outer cudarun wants a log.
fn auditors(module: Option<&Path>, own: &[PathBuf], env: &Environment) -> Option<OsString> {
    let elements: Vec<&OsStr> = audit_elements(env.get(AUDIT).unwrap_or_default());
    let (ours, mut all): (Vec<&OsStr>, Vec<&OsStr>) = elements.iter().partition(|element| {
        let element = Path::new(element);
        is_own_module(element, own) || module == Some(element)
    });
    let logger = ours
        .last()
        .copied()
        .filter(|_| env.non_empty(TRACE).is_some());
    all.extend(module.map(Path::as_os_str).or(logger));
    if all == elements {
        env.get(AUDIT).map(OsStr::to_owned)
    } else {
        joined(all)
    }
}

/// True if a file is an audit module of ours, which is published beside our views.
pub(super) fn is_own_module(file: &Path, own: &[PathBuf]) -> bool {
    own.iter()
        .filter_map(|own| own.parent())
        .any(|cache| file.parent() == Some(&cache.join(audit_module::DIRECTORY)))
}

fn joined(elements: Vec<&OsStr>) -> Option<OsString> {
    (!elements.is_empty()).then(|| join_elements(elements))
}

/// The tunables with room for thread-local storage, unless they already say how much.
fn with_room(inherited: Option<&OsStr>) -> OsString {
    let mut tunables = inherited.unwrap_or_default().to_owned();
    if tunables.to_string_lossy().contains(TLS_ROOM) {
        return tunables;
    }
    if !tunables.is_empty() {
        tunables.push(":");
    }
    tunables.push(format!("{TLS_ROOM}={TLS_BYTES}"));
    tunables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_for_tls_is_added_once_and_existing_tunables_stay() {
        assert_eq!(with_room(None), "glibc.rtld.optional_static_tls=16384");
        for (text, expected) in [
            (
                "glibc.malloc.check=1",
                "glibc.malloc.check=1:glibc.rtld.optional_static_tls=16384",
            ),
            (
                "glibc.rtld.optional_static_tls=4096",
                "glibc.rtld.optional_static_tls=4096",
            ),
        ] {
            assert_eq!(with_room(Some(OsStr::new(text))), expected);
        }
    }
}
