//! What cudarun tells the processes below a program that it starts: which process it decided about and how it started it,
//! which programs got a plan, and what it changed in the environment, so that each process can be decided in the environment
//! that the person made.

#[path = "../audit/tree.rs"]
#[allow(dead_code, reason = "the module asks what the crate writes")]
mod format;
#[path = "../audit/names.rs"]
#[allow(dead_code, reason = "the module asks more of it")]
pub(super) mod names;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::environment::{Diff, Environment, join_elements};
use crate::variables;

pub(super) use format::{Decided, Seal, start_time};

/// The variables that are lists, whose elements are taken back one by one.
const LISTS: [(&str, &[u8]); 4] = [
    (variables::LIBRARY_PATH, b":;"),
    (variables::PRELOAD, b": "),
    (variables::AUDIT, b":"),
    ("GLIBC_TUNABLES", b":"),
];
/// Of more programs with a plan, the oldest are forgotten.
const PLANNED_LIMIT: usize = 64;

/// The content of the variable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ProcessTree {
    pub decided: Option<Decided>,
    /// Device and inode of the executables that were given a plan.
    pub planned: Vec<(u64, u64)>,
    pub changes: Vec<Changed>,
}

/// A variable that cudarun changed: its name, its new value, and the value before.
type Changed = (OsString, Option<OsString>, Option<OsString>);

impl ProcessTree {
    /// Reads the variable. What cannot be read is left out.
    pub(super) fn parse(text: &OsStr) -> ProcessTree {
        let mut parts = text.as_bytes().splitn(3, |byte| *byte == b'/');
        let decided = parts.next().and_then(Decided::parse);
        let planned = parts.next().unwrap_or_default().split(|byte| *byte == b',');
        let planned = planned.filter_map(|file| {
            let (device, inode) = std::str::from_utf8(file).ok()?.split_once(':')?;
            let number = |digits| u64::from_str_radix(digits, 16).ok();
            Some((number(device)?, number(inode)?))
        });
        let changes = parts.next().unwrap_or_default().split(|byte| *byte == b';');
        let changes = changes.filter_map(|change| {
            let mut fields = change.split(|byte| *byte == b'|');
            let name = decoded(fields.next().filter(|name| !name.is_empty())?)?;
            if name.as_bytes().contains(&b'=') {
                return None;
            }
            let mut value = || match fields.next()?.split_first()? {
                (b'=', value) => Some(Some(decoded(value)?)),
                (b'-', []) => Some(None),
                _ => None,
            };
            Some((name, value()?, value()?))
        });
        ProcessTree {
            decided,
            planned: planned.collect(),
            changes: changes.collect(),
        }
    }

    /// The third part is `NAME|NEW|OLD` for each change, with `;` between. A value is `=TEXT`, or `-` for a variable that is not
    /// set; `%xx` stands for a byte.
    pub(super) fn text(&self) -> OsString {
        let mut text = Vec::new();
        if let Some(decided) = self.decided {
            let Decided {
                process,
                start,
                seal,
                question,
                count,
            } = decided;
            // The first two can be replaced in their place, when the process of the program is known.
            text.extend(
                format!("{process:08x}.{start:016x}.{seal:x}.{question:x}.{count:x}").bytes(),
            );
        }
        let forgotten = self.planned.len().saturating_sub(PLANNED_LIMIT);
        let planned = self.planned.iter().skip(forgotten);
        let planned = planned.map(|(device, inode)| format!("{device:x}:{inode:x}"));
        text.push(b'/');
        text.extend(planned.collect::<Vec<_>>().join(",").bytes());
        for (place, (name, new, old)) in self.changes.iter().enumerate() {
            text.push(if place == 0 { b'/' } else { b';' });
            encode(name, &mut text);
            for value in [new, old] {
                text.push(b'|');
                match value {
                    Some(value) => {
                        text.push(b'=');
                        encode(value, &mut text);
                    }
                    None => text.push(b'-'),
                }
            }
        }
        OsString::from_vec(text)
    }

    /// The change that takes back what cudarun changed. A variable that was changed again since loses the elements that
    /// cudarun added, and keeps the others.
    pub(super) fn undo(&self, env: &Environment) -> Diff {
        let mut diff = undone(&self.changes, env);
        diff.0.insert(variables::TREE.into(), None);
        diff
    }

    /// The last element that cudarun has added to a list.
    pub(super) fn added_to(&self, list: &str) -> Option<OsString> {
        let (_, new, _) = self.changes.iter().find(|(name, _, _)| name == list)?;
        let last = new
            .as_ref()?
            .as_bytes()
            .rsplit(|byte| *byte == b':')
            .next()?;
        Some(OsStr::from_bytes(last).to_owned())
    }

    /// Returns the change that undoes the variables by which a plan reaches the loader, and forgets them.
    pub(super) fn take_libraries_back(&mut self, env: &Environment) -> Diff {
        let leads = |change: &mut Changed| {
            let (name, _, _) = change;
            [
                variables::LIBRARY_PATH,
                variables::PRELOAD,
                variables::PINS,
                variables::VIEW,
            ]
            .iter()
            .any(|of_plan| name == of_plan)
        };
        let changes: Vec<_> = self.changes.extract_if(.., leads).collect();
        undone(&changes, env)
    }
}

fn undone(changes: &[Changed], env: &Environment) -> Diff {
    let mut diff = Diff::default();
    for (name, new, old) in changes {
        let now = name.to_str().and_then(|name| env.get(name));
        let value = if now == new.as_deref() {
            old.clone()
        } else if let (Some(now), Some((_, separators))) =
            (now, LISTS.iter().find(|(list, _)| name == list))
        {
            without_added(now, new.as_deref(), old.as_deref(), separators)
        } else {
            continue;
        };
        diff.0.insert(name.clone(), value);
    }
    diff
}

/// Returns a list without the elements that are new in `new`, each as often as it is new.
fn without_added(
    now: &OsStr,
    new: Option<&OsStr>,
    old: Option<&OsStr>,
    separators: &[u8],
) -> Option<OsString> {
    let elements = |list: Option<&OsStr>| -> Vec<OsString> {
        let list = list.unwrap_or_default();
        if list.is_empty() {
            return Vec::new();
        }
        let elements = list.as_bytes().split(|byte| separators.contains(byte));
        elements
            .map(|element| OsStr::from_bytes(element).to_owned())
            .collect()
    };
    let mut added = elements(new);
    for element in elements(old) {
        if let Some(place) = added.iter().position(|one| *one == element) {
            added.remove(place);
        }
    }
    let mut kept = elements(Some(now));
    for element in &added {
        if let Some(place) = kept.iter().position(|one| one == element) {
            kept.remove(place);
        }
    }
    (!kept.is_empty()).then(|| join_elements(kept.iter().map(OsString::as_os_str)))
}

fn encode(text: &OsStr, to: &mut Vec<u8>) {
    for byte in text.as_bytes() {
        if matches!(byte, b'%' | b';' | b'|' | ..=b' ' | 0x7f..) {
            to.extend(format!("%{byte:02x}").bytes());
        } else {
            to.push(*byte);
        }
    }
}

fn decoded(text: &[u8]) -> Option<OsString> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.iter();
    while let Some(byte) = rest.next() {
        if *byte == b'%' {
            let digits = [*rest.next()?, *rest.next()?];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            bytes.push(*byte);
        }
    }
    // No variable can hold it.
    (!bytes.contains(&0)).then(|| OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(
        name: &str,
        new: Option<&str>,
        old: Option<&str>,
    ) -> (OsString, Option<OsString>, Option<OsString>) {
        (name.into(), new.map(Into::into), old.map(Into::into))
    }

    #[test]
    fn what_is_written_is_read_back() {
        let tree = ProcessTree {
            decided: Decided::parse(b"1.2.3.4.5"),
            planned: vec![(7, 8), (9, 10)],
            changes: vec![
                change("LD_LIBRARY_PATH", Some("/v:/a b;|%"), None),
                change("X", None, Some("")),
                change("Y", Some("ä\n"), Some("/b")),
            ],
        };
        assert_eq!(ProcessTree::parse(&tree.text()), tree, "{:?}", tree.text());
        // Of too many programs with a plan, the last ones stay.
        let many = ProcessTree {
            planned: (0..100).map(|file| (1, file)).collect(),
            ..ProcessTree::default()
        };
        let last = (100 - PLANNED_LIMIT as u64..100).map(|file| (1, file));
        let kept = ProcessTree::parse(&many.text()).planned;
        assert_eq!(kept, last.collect::<Vec<_>>());
        assert_eq!(ProcessTree::parse(OsStr::new("")), ProcessTree::default());
        for bad in [
            "x",
            "/",
            "//",
            "1.2.3.4.5/a:b:c,:/A|=%4|-;|=|-;B|x|-;C|-",
            "\u{fffd}/\u{fffd}/\u{fffd}",
        ] {
            let read = ProcessTree::parse(OsStr::new(bad));
            assert!(read.changes.is_empty(), "{bad}: {read:?}");
        }
    }

    #[test]
    fn only_what_cudarun_added_is_taken_back() {
        let undone = |new, old, now: Option<&str>| {
            let tree = ProcessTree {
                changes: vec![change("LD_LIBRARY_PATH", new, old)],
                ..ProcessTree::default()
            };
            let env: Environment = now
                .map(|now| ("LD_LIBRARY_PATH", now))
                .into_iter()
                .collect();
            let after = env.with(&tree.undo(&env));
            after.get("LD_LIBRARY_PATH").map(OsStr::to_owned)
        };
        let some = |text: &str| Some(OsString::from(text));
        assert_eq!(undone(Some("/v:/a"), Some("/a"), Some("/v:/a")), some("/a"));
        assert_eq!(undone(Some("/v"), None, Some("/v")), None);
        assert_eq!(
            undone(Some("/v:/a"), Some("/a"), Some("/mine:/v:/a")),
            some("/mine:/a")
        );
        assert_eq!(
            undone(Some("/v:/a"), Some("/a"), Some("/mine")),
            some("/mine")
        );
        assert_eq!(undone(Some("/v:/a"), Some("/a"), None), None);
        assert_eq!(undone(None, Some("/harmful"), None), some("/harmful"));
        assert_eq!(undone(None, Some("/harmful"), Some("/mine")), some("/mine"));
        // A person's own element of the same name stays.
        assert_eq!(
            undone(Some("/v:/v"), Some("/v"), Some("/v:/x:/v")),
            some("/x:/v")
        );
        let tree = ProcessTree {
            changes: vec![change("CUDA_HOME", Some("/view"), Some("/mine"))],
            ..ProcessTree::default()
        };
        let env: Environment = [("CUDA_HOME", "/theirs")].into_iter().collect();
        assert_eq!(env.with(&tree.undo(&env)), env);
    }
}
