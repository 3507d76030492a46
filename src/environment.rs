//! Environments as values, the difference between two of them, and path lists in variables.
//! Must not read or change the environment of this process.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// True if a path depends on the current directory. A path below `$ORIGIN` does not.
pub fn depends_on_directory(path: &[u8]) -> bool {
    !path.starts_with(b"/") && !path.starts_with(b"$") || path.starts_with(b"/proc/")
}

/// Variables by name. Names and values are bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    pub fn non_empty(&self, name: &str) -> Option<&OsStr> {
        self.get(name).filter(|value| !value.is_empty())
    }

    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }

    pub fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        self.0.insert(name.into(), value.into());
    }

    pub fn remove(&mut self, name: &OsStr) {
        self.0.remove(name);
    }

    /// True if `CUDA_VISIBLE_DEVICES` hides every GPU on purpose. The driver reads numbers up to the first invalid one. Other
    /// values that leave no GPU were meant to leave one.
    pub fn hides_gpus(&self) -> bool {
        let Some(visible) = self.get("CUDA_VISIBLE_DEVICES") else {
            return false;
        };
        let text = visible.as_bytes().trim_ascii();
        let is_negative = matches!(text, [b'-', digit, ..] if digit.is_ascii_digit());
        text.is_empty() || is_negative || text == b"NoDevFiles"
    }

    /// This environment after the change.
    pub fn with(&self, diff: &Diff) -> Environment {
        let mut changed = self.clone();
        for (name, value) in &diff.0 {
            match value {
                Some(value) => changed.0.insert(name.clone(), value.clone()),
                None => changed.0.remove(name),
            };
        }
        changed
    }
}

impl<N: Into<OsString>, V: Into<OsString>> FromIterator<(N, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        Environment(
            pairs
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        )
    }
}

/// The difference between two environments: the new value of each variable that changes, or `None` for its removal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff(pub BTreeMap<OsString, Option<OsString>>);

impl Diff {
    pub fn between(before: &Environment, after: &Environment) -> Diff {
        let mut diff = Diff::default();
        for (name, value) in &after.0 {
            if before.0.get(name) != Some(value) {
                diff.0.insert(name.clone(), Some(value.clone()));
            }
        }
        for name in before.0.keys().filter(|name| !after.0.contains_key(*name)) {
            diff.0.insert(name.clone(), None);
        }
        diff
    }

    /// The new value of a variable.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name))?.as_deref()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// This change followed by the other one.
    pub fn then(&self, after: &Diff) -> Diff {
        let mut diff = self.clone();
        diff.0.extend(after.0.clone());
        diff
    }
}

/// Splits an `LD_LIBRARY_PATH` as the loader does: at `:` and at `;`, without an escape. An empty value has no element. An
/// empty element means the current directory.
pub fn library_path_elements(value: &OsStr) -> Vec<OsString> {
    if value.is_empty() {
        return Vec::new();
    }
    value
        .as_bytes()
        .split(|byte| matches!(byte, b':' | b';'))
        .map(|element| OsString::from_vec(element.to_vec()))
        .collect()
}

/// Splits an `LD_PRELOAD` as the loader does: at `:` and at blanks, without empty elements.
pub fn preload_elements(value: &OsStr) -> Vec<OsString> {
    value
        .as_bytes()
        .split(|byte| matches!(byte, b':' | b' '))
        .filter(|element| !element.is_empty())
        .map(|element| OsString::from_vec(element.to_vec()))
        .collect()
}

/// Splits an `LD_AUDIT` as the loader does: at `:`, without empty elements.
pub fn audit_elements(value: &OsStr) -> Vec<&OsStr> {
    value
        .as_bytes()
        .split(|byte| *byte == b':')
        .filter(|element| !element.is_empty())
        .map(OsStr::from_bytes)
        .collect()
}

/// Joins elements with `:`.
pub fn join_elements<'a>(elements: impl IntoIterator<Item = &'a OsStr>) -> OsString {
    elements
        .into_iter()
        .collect::<Vec<_>>()
        .join(OsStr::new(":"))
}

/// True if `LD_LIBRARY_PATH` can name a directory: the loader has no escape for `:` and `;`, `$` begins a token, and blanks
/// break scripts.
pub fn fits_library_path(directory: &Path) -> bool {
    let bytes = directory.as_os_str().as_bytes();
    directory.is_absolute()
        && !bytes
            .iter()
            .any(|byte| matches!(byte, b':' | b';' | b'$' | ..=b' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn library_path_splits_as_the_loader_does() {
        assert!(library_path_elements(OsStr::new("")).is_empty());
        assert_eq!(library_path_elements(OsStr::new("/a")), ["/a"]);
        assert_eq!(
            library_path_elements(OsStr::new(":/a;/b::")),
            ["", "/a", "/b", "", ""]
        );
        assert_eq!(
            preload_elements(OsStr::new(" /a  /b:c ")),
            ["/a", "/b", "c"]
        );
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
