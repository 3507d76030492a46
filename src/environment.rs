//! An environment as a value: what a program will get, the difference between two, and path lists.
//! Must not read or change the environment of this process.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// Variables by name. Names and values are bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// A variable that is set and not empty; empty counts as absent.
    pub fn non_empty(&self, name: &str) -> Option<&OsStr> {
        self.get(name).filter(|value| !value.is_empty())
    }

    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }

    pub fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        self.0.insert(name.into(), value.into());
    }

    pub fn remove(&mut self, name: &OsStr) {
        self.0.remove(name);
    }

    /// Whether `CUDA_VISIBLE_DEVICES` says that no GPU is to be seen: the driver reads GPUs up to the first
    /// number that none has. Any other value that leaves none was meant to leave one.
    pub fn hides_gpus(&self) -> bool {
        let Some(visible) = self.get("CUDA_VISIBLE_DEVICES") else { return false };
        let text = visible.as_bytes().trim_ascii();
        let is_negative = matches!(text, [b'-', digit, ..] if digit.is_ascii_digit());
        text.is_empty() || is_negative || text == b"NoDevFiles"
    }

    /// This environment after the change.
    pub fn with(&self, diff: &Diff) -> Environment {
        let mut changed = self.clone();
        for change in &diff.0 {
            match &change.value {
                Some(value) => changed.0.insert(change.name.clone(), value.clone()),
                None => changed.0.remove(&change.name),
            };
        }
        changed
    }
}

impl<N: Into<OsString>, V: Into<OsString>> FromIterator<(N, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        Environment(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

/// One variable's new value, or its removal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub name: OsString,
    pub value: Option<OsString>,
}

/// What turns one environment into another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff(pub Vec<Change>);

impl Diff {
    /// The change from `before` to `after`, by name.
    pub fn between(before: &Environment, after: &Environment) -> Diff {
        let mut changes = Vec::new();
        for (name, value) in &after.0 {
            if before.0.get(name) != Some(value) {
                changes.push(Change { name: name.clone(), value: Some(value.clone()) });
            }
        }
        for name in before.0.keys().filter(|name| !after.0.contains_key(*name)) {
            changes.push(Change { name: name.clone(), value: None });
        }
        changes.sort_by(|a, b| a.name.cmp(&b.name));
        Diff(changes)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// This change, and the other one after it.
    pub fn then(&self, after: &Diff) -> Diff {
        let is_changed = |change: &&Change| after.0.iter().all(|later| later.name != change.name);
        let mut changes: Vec<Change> = self.0.iter().filter(is_changed).cloned().collect();
        changes.extend(after.0.iter().cloned());
        changes.sort_by(|a, b| a.name.cmp(&b.name));
        Diff(changes)
    }
}

/// The elements of an `LD_LIBRARY_PATH` as the loader splits it: at `:` and at `;`, with no escape for
/// either. A value that is empty as a whole has no element; an element that is empty means the current directory.
pub fn library_path_elements(value: &OsStr) -> Vec<OsString> {
    if value.is_empty() {
        return Vec::new();
    }
    value
        .as_bytes()
        .split(|byte| matches!(byte, b':' | b';'))
        .map(|e| OsString::from_vec(e.to_vec()))
        .collect()
}

/// The elements of an `LD_PRELOAD` as the loader splits it: at `:` and at blanks; empty ones do not count.
pub fn preload_elements(value: &OsStr) -> Vec<OsString> {
    value
        .as_bytes()
        .split(|byte| matches!(byte, b':' | b' '))
        .filter(|element| !element.is_empty())
        .map(|element| OsString::from_vec(element.to_vec()))
        .collect()
}

/// The elements of an `LD_AUDIT` as the loader splits it: at `:`; empty ones do not count.
pub fn audit_elements(value: &OsStr) -> Vec<&OsStr> {
    let elements = value.as_bytes().split(|byte| *byte == b':').filter(|element| !element.is_empty());
    elements.map(OsStr::from_bytes).collect()
}

/// Elements with `:` between.
pub fn join_elements<'a>(elements: impl IntoIterator<Item = &'a OsStr>) -> OsString {
    let mut joined = OsString::new();
    for (index, element) in elements.into_iter().enumerate() {
        if index > 0 {
            joined.push(":");
        }
        joined.push(element);
    }
    joined
}

/// Whether a directory can stand in `LD_LIBRARY_PATH` at all: nothing in the loader's grammar escapes
/// `:` and `;`, `$` begins a token, and blanks break the scripts of others.
pub fn fits_library_path(directory: &Path) -> bool {
    directory.is_absolute()
        && !directory
            .as_os_str()
            .as_bytes()
            .iter()
            .any(|byte| matches!(byte, b':' | b';' | b'$') || byte.is_ascii_whitespace() || *byte < b' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn library_path_splits_as_the_loader_does() {
        let split = |text: &str| library_path_elements(OsStr::new(text));
        assert!(split("").is_empty());
        assert_eq!(split("/a"), ["/a"]);
        assert_eq!(split(":/a;/b::"), ["", "/a", "/b", "", ""]);
        assert_eq!(preload_elements(OsStr::new(" /a  /b:c ")), ["/a", "/b", "c"]);
    }

    #[test]
    fn a_difference_leads_from_one_to_the_other() {
        let before: Environment = [("A", "1"), ("B", "2"), ("C", "3")].into_iter().collect();
        let after: Environment = [("A", "1"), ("B", "9"), ("D", "4")].into_iter().collect();
        let diff = Diff::between(&before, &after);
        assert_eq!(diff.0.len(), 3);
        assert_eq!(before.with(&diff), after);
        assert_eq!(after.with(&Diff::between(&after, &before)), before);
        assert!(Diff::between(&before, &before).is_empty());
        let last: Environment = [("B", "9"), ("E", "5")].into_iter().collect();
        assert_eq!(before.with(&diff.then(&Diff::between(&after, &last))), last);
    }

    #[test]
    fn a_view_needs_a_path_that_the_loader_can_name() {
        for good in ["/home/a/.cache/x", "/tmp/ä"] {
            assert!(fits_library_path(Path::new(good)), "{good}");
        }
        for bad in ["relative", "/a b", "/a:b", "/a;b", "/a$b", "/a\nb", ""] {
            assert!(!fits_library_path(Path::new(bad)), "{bad:?}");
        }
    }
}
