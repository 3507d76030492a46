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

pub(crate) use format::start_time;
pub(super) use format::{Decided, PROCESS_LINES, Seal};

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
    pub changes: Vec<VariableChange>,
}

/// A variable that cudarun changed; a value is none where it is not set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VariableChange {
    pub name: OsString,
    pub new: Option<OsString>,
    pub old: Option<OsString>,
}

impl VariableChange {
    /// `NAME|NEW|OLD`. A value is `=TEXT`, or `-` for a variable that is not set; `%xx` stands for a byte.
    fn parse(text: &[u8]) -> Option<VariableChange> {
        let mut fields = text.split(|byte| *byte == b'|');
        let name = decoded(fields.next()?)?;
        if name.is_empty() || name.as_bytes().contains(&b'=') {
            return None;
        }
        let new = decoded_value(fields.next()?).ok()?;
        let old = decoded_value(fields.next()?).ok()?;
        Some(VariableChange { name, new, old })
    }

    fn encode(&self, text: &mut Vec<u8>) {
        encode(&self.name, text);
        for value in [&self.new, &self.old] {
            text.push(b'|');
            match value {
                Some(value) => {
                    text.push(b'=');
                    encode(value, text);
                }
                None => text.push(b'-'),
            }
        }
    }

    /// True for a variable by which a plan reaches the loader.
    fn leads_to_plan(&self) -> bool {
        [
            variables::LIBRARY_PATH,
            variables::PRELOAD,
            variables::PINS,
            variables::VIEW,
        ]
        .iter()
        .any(|name| self.name == *name)
    }
}

impl ProcessTree {
    /// Reads the variable. What cannot be read is left out.
    pub(super) fn parse(text: &OsStr) -> ProcessTree {
        let mut parts = text.as_bytes().splitn(3, |byte| *byte == b'/');
        let mut tree = ProcessTree {
            decided: parts.next().and_then(Decided::parse),
            ..ProcessTree::default()
        };
        for file in parts.next().unwrap_or_default().split(|byte| *byte == b',') {
            tree.planned.extend(decoded_file(file));
        }
        for change in parts.next().unwrap_or_default().split(|byte| *byte == b';') {
            tree.changes.extend(VariableChange::parse(change));
        }
        tree
    }

    /// The third part is the changes, with `;` between.
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
        for (index, change) in self.changes.iter().enumerate() {
            text.push(if index == 0 { b'/' } else { b';' });
            change.encode(&mut text);
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
        let change = self.changes.iter().find(|change| change.name == list)?;
        let elements = elements(change.new.as_deref(), b":");
        Some((*elements.last()?).to_owned())
    }

    /// The change that undoes the variables by which a plan reaches the loader. Forgets them.
    pub(super) fn take_libraries_back(&mut self, env: &Environment) -> Diff {
        let changes = self.changes.extract_if(.., |change| change.leads_to_plan());
        undone(&changes.collect::<Vec<_>>(), env)
    }
}

fn undone(changes: &[VariableChange], env: &Environment) -> Diff {
    let mut diff = Diff::default();
    for VariableChange { name, new, old } in changes {
        let now = name.to_str().and_then(|name| env.get(name));
        let list = LISTS.iter().find(|(list, _)| name == list);
        let value = if now == new.as_deref() {
            old.clone()
        } else if let (Some(now), Some((_, separators))) = (now, list) {
            without_added(now, new.as_deref(), old.as_deref(), separators)
        } else {
            continue;
        };
        diff.0.insert(name.clone(), value);
    }
    diff
}

/// A list without the elements that are new in `new`, each as often as it is new.
fn without_added(
    now: &OsStr,
    new: Option<&OsStr>,
    old: Option<&OsStr>,
    separators: &[u8],
) -> Option<OsString> {
    let mut added = elements(new, separators);
    remove_each(&mut added, &elements(old, separators));
    let mut rest = elements(Some(now), separators);
    remove_each(&mut rest, &added);
    (!rest.is_empty()).then(|| join_elements(rest))
}

/// The elements of a list; none of an empty one.
fn elements<'l>(list: Option<&'l OsStr>, separators: &[u8]) -> Vec<&'l OsStr> {
    match list {
        Some(list) if !list.is_empty() => list
            .as_bytes()
            .split(|byte| separators.contains(byte))
            .map(OsStr::from_bytes)
            .collect(),
        _ => Vec::new(),
    }
}

fn remove_each(elements: &mut Vec<&OsStr>, removed: &[&OsStr]) {
    for element in removed {
        if let Some(index) = elements.iter().position(|other| other == element) {
            elements.remove(index);
        }
    }
}

fn encode(text: &OsStr, output: &mut Vec<u8>) {
    for byte in text.as_bytes() {
        if matches!(byte, b'%' | b';' | b'|' | ..=b' ' | 0x7f..) {
            output.extend(format!("%{byte:02x}").bytes());
        } else {
            output.push(*byte);
        }
    }
}

/// Device and inode, `DEVICE:INODE`.
fn decoded_file(text: &[u8]) -> Option<(u64, u64)> {
    let (device, inode) = std::str::from_utf8(text).ok()?.split_once(':')?;
    Some((
        u64::from_str_radix(device, 16).ok()?,
        u64::from_str_radix(inode, 16).ok()?,
    ))
}

fn decoded_value(text: &[u8]) -> Result<Option<OsString>, ()> {
    match text {
        b"-" => Ok(None),
        [b'=', value @ ..] => Ok(Some(decoded(value).ok_or(())?)),
        _ => Err(()),
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

    fn change(name: &str, new: Option<&str>, old: Option<&str>) -> VariableChange {
        VariableChange {
            name: name.into(),
            new: new.map(Into::into),
            old: old.map(Into::into),
        }
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
        for (new, old, now, undone) in [
            (Some("/v:/a"), Some("/a"), Some("/v:/a"), Some("/a")),
            (Some("/v"), None, Some("/v"), None),
            (
                Some("/v:/a"),
                Some("/a"),
                Some("/mine:/v:/a"),
                Some("/mine:/a"),
            ),
            (Some("/v:/a"), Some("/a"), Some("/mine"), Some("/mine")),
            (Some("/v:/a"), Some("/a"), None, None),
            (None, Some("/harmful"), None, Some("/harmful")),
            (None, Some("/harmful"), Some("/mine"), Some("/mine")),
            // A person's own element of the same name stays.
            (Some("/v:/v"), Some("/v"), Some("/v:/x:/v"), Some("/x:/v")),
        ] {
            let tree = ProcessTree {
                changes: vec![change("LD_LIBRARY_PATH", new, old)],
                ..ProcessTree::default()
            };
            let mut env = Environment::default();
            if let Some(now) = now {
                env.set("LD_LIBRARY_PATH", now);
            }
            let after = env.with(&tree.undo(&env));
            assert_eq!(after.get("LD_LIBRARY_PATH"), undone.map(OsStr::new));
        }
        let tree = ProcessTree {
            changes: vec![change("CUDA_HOME", Some("/view"), Some("/mine"))],
            ..ProcessTree::default()
        };
        let env: Environment = [("CUDA_HOME", "/theirs")].into_iter().collect();
        assert_eq!(env.with(&tree.undo(&env)), env);
    }
}
