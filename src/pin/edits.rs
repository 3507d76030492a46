//! The change of environment by which a mode pins a plan. Pure.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::Mode;
use crate::environment::{Change, Diff, Environment, audit_elements, join_elements, preload_elements};
use crate::pin::audit_module;
use crate::pin::view::ViewSpec;
use crate::solve::Plan;
use crate::variables;
pub use crate::variables::VIEW;

const TUNABLES: &str = "GLIBC_TUNABLES";
/// With an auditor, the loader fixes the room for thread-local storage before it has seen the program's libraries:
/// what is left is 1.6 kB, and libjemalloc alone takes more.
const TLS_ROOM: &str = "glibc.rtld.optional_static_tls";
const TLS_BYTES: u32 = 16384;

/// Where what a mode needs has been put.
#[derive(Clone, Debug, Default)]
pub struct PublishedPaths {
    pub view: Option<PathBuf>,
    /// The audit module, where the mode needs one.
    pub module: Option<PathBuf>,
}

/// A change of environment, and besides it what makes the module write down what is mapped.
pub fn watched(diff: &Diff, module: &Path, log: &Path, env: &Environment) -> Diff {
    let mut watched = env.with(diff);
    let all = watched.get(variables::AUDIT).map(audit_elements).unwrap_or_default();
    let others = all.into_iter().filter(|element| *element != module.as_os_str());
    let all = join_elements(others.chain([module.as_os_str()]));
    watched.set(variables::AUDIT, all);
    let tunables = with_room(watched.get(TUNABLES));
    watched.set(TUNABLES, tunables);
    watched.set(audit_module::TRACE, log.as_os_str());
    Diff::between(env, &watched)
}

/// What is done with a plan.
#[derive(Clone, Copy)]
pub(super) struct EnvironmentEdits<'a> {
    pub plan: &'a Plan,
    pub mode: Mode,
    pub spec: &'a ViewSpec,
    /// Elements of `LD_LIBRARY_PATH` that go besides those that no plan keeps.
    pub removed: &'a [OsString],
    /// The processes in which the audit module answers; none for all of them.
    pub only_for: Option<&'a OsStr>,
    pub preload: &'a [String],
    /// Directories in which views of ours stand.
    pub own: &'a [PathBuf],
}

impl EnvironmentEdits<'_> {
    /// The view first, then what is kept of what was there.
    pub(super) fn environment(&self, places: &PublishedPaths, env: &Environment) -> Diff {
        let mut diff = Diff::default();
        let mut change = |name: &str, value: Option<OsString>| {
            if env.get(name) != value.as_deref() {
                diff.0.push(Change { name: OsString::from(name), value });
            }
        };
        change(variables::LIBRARY_PATH, self.library_path(places, env));
        change(variables::PRELOAD, self.preload(places, env));
        let pins = if self.mode == Mode::Audit { self.pins(places) } else { None };
        let module = places.module.as_deref().filter(|_| pins.is_some());
        if module.is_some() {
            change(TUNABLES, Some(with_room(env.get(TUNABLES))));
        }
        change(variables::AUDIT, self.auditors(module, env));
        change(audit_module::FOR, pins.as_ref().and(self.only_for).map(OsStr::to_owned));
        change(audit_module::PINS, pins);
        if let Some(view) = &places.view {
            change(VIEW, Some(view.as_os_str().to_owned()));
        }
        diff
    }

    /// The table of the audit module: every name in the view.
    pub(super) fn pins(&self, places: &PublishedPaths) -> Option<OsString> {
        let names = self.spec.links.keys().chain(&self.spec.tombstones);
        audit_module::pins(places.view.as_deref()?, names.map(String::as_str))
    }

    fn library_path(&self, places: &PublishedPaths, env: &Environment) -> Option<OsString> {
        let kept = self.plan.library_path.iter().filter(|element| element.removed.is_none());
        let kept = kept
            .map(|element| element.text.as_os_str())
            .filter(|text| !self.removed.iter().any(|it| it == text));
        // Every child searches LD_LIBRARY_PATH; the module answers where it is to answer.
        let view = places.view.as_deref().filter(|_| self.mode != Mode::Audit);
        let elements: Vec<&OsStr> = view.map(Path::as_os_str).into_iter().chain(kept).collect();
        if elements.is_empty() {
            as_empty(env.get(variables::LIBRARY_PATH))
        } else {
            Some(join_elements(elements))
        }
    }

    fn preload(&self, places: &PublishedPaths, env: &Environment) -> Option<OsString> {
        let is_removed = |text: &OsStr| {
            self.plan.preload.iter().any(|element| element.text == *text && element.removed.is_some())
        };
        let inherited = env.get(variables::PRELOAD).map(preload_elements).unwrap_or_default();
        let own = |text: &OsStr| self.is_in_own_view(Path::new(text));
        let kept = inherited.iter().filter(|text| !is_removed(text) && !own(text));
        let view = places.view.as_deref();
        let added = self.preload.iter().filter_map(|name| Some(view?.join(name).into_os_string()));
        let elements: Vec<OsString> = added.chain(kept.cloned()).collect();
        if elements == inherited {
            return env.get(variables::PRELOAD).map(OsStr::to_owned);
        }
        joined(elements.iter().map(OsString::as_os_str).collect())
    }

    /// Those of others, then ours: what one answers is handed on to the next, and the last has the last word. Where an
    /// outer cudarun wants a log, its module stays.
    fn auditors(&self, module: Option<&Path>, env: &Environment) -> Option<OsString> {
        let inherited = env.get(variables::AUDIT).unwrap_or_default();
        let elements: Vec<&OsStr> = audit_elements(inherited);
        let is_own = |element: &&OsStr| is_own_module(Path::new(element), self.own);
        let (own, mut all): (Vec<&OsStr>, Vec<&OsStr>) = elements.iter().copied().partition(is_own);
        let logs = own.last().copied().filter(|_| env.non_empty(audit_module::TRACE).is_some());
        all.extend(module.map(Path::as_os_str).or(logs));
        if all == elements { env.get(variables::AUDIT).map(OsStr::to_owned) } else { joined(all) }
    }

    /// Whether a file stands in a view of ours.
    fn is_in_own_view(&self, file: &Path) -> bool {
        let views = file.parent().and_then(Path::parent);
        views.is_some_and(|views| self.own.iter().any(|own| own == views))
    }
}

/// Modules of ours stand beside our views.
pub(super) fn is_own_module(file: &Path, own: &[PathBuf]) -> bool {
    let beside = |own: &PathBuf| own.parent().map(|cache| cache.join(audit_module::DIRECTORY));
    own.iter().any(|own| beside(own).as_deref() == file.parent())
}

/// Without elements: what is there and empty stays so.
fn as_empty(inherited: Option<&OsStr>) -> Option<OsString> {
    inherited.filter(|value| value.is_empty()).map(OsStr::to_owned)
}

fn joined(elements: Vec<&OsStr>) -> Option<OsString> {
    (!elements.is_empty()).then(|| join_elements(elements))
}

/// The tunables with room for thread-local storage, unless somebody has said how much there is to be.
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
        let with = |text: &str| with_room(Some(OsStr::new(text))).into_string().unwrap();
        assert_eq!(with_room(None), "glibc.rtld.optional_static_tls=16384");
        assert_eq!(with("glibc.malloc.check=1"), "glibc.malloc.check=1:glibc.rtld.optional_static_tls=16384");
        assert_eq!(with("glibc.rtld.optional_static_tls=4096"), "glibc.rtld.optional_static_tls=4096");
    }
}
