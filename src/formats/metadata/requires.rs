//! `Requires-Dist` lines, as PEP 508 writes them and as older tools do, with parentheses around the versions.
//!
//! Total: every text gives a requirement or none, in bounded stack.

use std::collections::BTreeSet;
use std::str::FromStr;

use pep440_rs::{Operator, VersionSpecifier, VersionSpecifiers};

use crate::version::Version;

/// Python's own reader gives up at a few hundred levels; real markers have up to three.
const DEPTH: usize = 64;

/// The variables of PEP 508 and the older names that installers still accept.
const VARIABLES: [&str; 18] = [
    "extra",
    "implementation_name",
    "implementation_version",
    "os.name",
    "os_name",
    "platform.machine",
    "platform.python_implementation",
    "platform.version",
    "platform_machine",
    "platform_python_implementation",
    "platform_release",
    "platform_system",
    "platform_version",
    "python_full_version",
    "python_implementation",
    "python_version",
    "sys.platform",
    "sys_platform",
];

/// One `Requires-Dist`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requires {
    /// Normalised: lower case, `-` between words.
    pub name: String,
    /// The extras that it asks of that distribution, `cuda-toolkit[cublas]`.
    pub extras: Vec<String>,
    /// As it is written; empty if any version will do.
    pub versions: String,
    /// True if it counts only for those who asked for an extra of this distribution.
    pub optional: bool,
    pub extra: Option<String>,
}

impl Requires {
    /// Returns the version after `==`, without a final `.*`.
    pub fn pinned(&self) -> Option<Version> {
        let specifiers = VersionSpecifiers::from_str(&self.versions).ok()?;
        let exact = |operator: &Operator| {
            matches!(
                operator,
                Operator::Equal | Operator::EqualStar | Operator::ExactEqual
            )
        };
        let pin = specifiers
            .iter()
            .find(|specifier| exact(specifier.operator()))?;
        plain_version(pin.version())
    }

    /// Returns the oldest version that it allows.
    pub fn lower_bound(&self) -> Option<Version> {
        let specifiers = VersionSpecifiers::from_str(&self.versions).ok()?;
        let lower = |operator: &Operator| {
            matches!(operator, Operator::GreaterThanEqual | Operator::TildeEqual)
        };
        specifiers
            .iter()
            .filter(|s| lower(s.operator()))
            .filter_map(|s| plain_version(s.version()))
            .max()
    }
}

/// Reads one line. Returns nothing for a line that breaks the grammar; installers refuse it as well.
pub(super) fn read(text: &str) -> Option<Requires> {
    let (name, rest) = name(text.trim_start())?;
    let (extras, rest) = extras(rest.trim_start())?;
    let (versions, rest) = versions(rest.trim_start())?;
    let mut marker = Marker {
        rest: rest.trim_start(),
        names_an_extra: false,
    };
    let needed = if marker.symbol(&[";"]).is_some() {
        marker.any(DEPTH)?
    } else {
        BTreeSet::new()
    };
    let is_read = marker.rest.trim_start().is_empty();
    is_read.then(|| Requires {
        name,
        extras,
        versions,
        optional: marker.names_an_extra,
        extra: needed.into_iter().next(),
    })
}

/// Returns the normalised name at the start of a text, and the rest of the text.
fn name(text: &str) -> Option<(String, &str)> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let (name, rest) = text.split_at(text.find(|c| !is_part(c)).unwrap_or(text.len()));
    let is_end = |c: char| c.is_ascii_alphanumeric();
    (name.starts_with(is_end) && name.ends_with(is_end)).then(|| (normalised(name), rest))
}

fn extras(text: &str) -> Option<(Vec<String>, &str)> {
    let Some(text) = text.strip_prefix('[') else {
        return Some((Vec::new(), text));
    };
    let (list, rest) = text.split_once(']')?;
    if list.trim().is_empty() {
        return Some((Vec::new(), rest));
    }
    let whole = |item| {
        name(item)
            .filter(|(_, rest)| rest.is_empty())
            .map(|(name, _)| name)
    };
    let extras: Option<Vec<String>> = list.split(',').map(|item| whole(item.trim())).collect();
    Some((extras?, rest))
}

/// Returns an empty text for any version, and for a URL.
fn versions(text: &str) -> Option<(String, &str)> {
    if let Some(url) = text.strip_prefix('@').map(str::trim_start) {
        let (url, rest) = url.split_at(url.find(char::is_whitespace).unwrap_or(url.len()));
        return (!url.is_empty()).then_some((String::new(), rest));
    }
    let (list, rest) = match text.strip_prefix('(') {
        Some(inner) => inner.split_once(')')?,
        None => text.split_at(text.find(';').unwrap_or(text.len())),
    };
    if list.trim().is_empty() {
        return Some((String::new(), rest));
    }
    let specifiers: VersionSpecifiers = list
        .split(',')
        .map(VersionSpecifier::from_str)
        .collect::<Result<_, _>>()
        .ok()?;
    Some((specifiers.to_string(), rest))
}

/// Reads the extras without which a marker cannot hold.
struct Marker<'t> {
    rest: &'t str,
    names_an_extra: bool,
}

enum Operand<'t> {
    Variable(&'t str),
    Text(&'t str),
}

impl<'t> Marker<'t> {
    fn any(&mut self, depth: usize) -> Option<BTreeSet<String>> {
        let mut needed = self.all(depth)?;
        while self.word("or") {
            let other = self.all(depth)?;
            needed.retain(|extra| other.contains(extra));
        }
        Some(needed)
    }

    fn all(&mut self, depth: usize) -> Option<BTreeSet<String>> {
        let mut needed = self.one(depth)?;
        while self.word("and") {
            needed.extend(self.one(depth)?);
        }
        Some(needed)
    }

    fn one(&mut self, depth: usize) -> Option<BTreeSet<String>> {
        if self.symbol(&["("]).is_some() {
            let needed = self.any(depth.checked_sub(1)?)?;
            return self.symbol(&[")"]).map(|_| needed);
        }
        let (left, operator, right) = (self.operand()?, self.operator()?, self.operand()?);
        let extra = match (left, right) {
            (Operand::Variable("extra"), Operand::Text(extra))
            | (Operand::Text(extra), Operand::Variable("extra"))
                if matches!(operator, "==" | "===") =>
            {
                Some(normalised(extra))
            }
            _ => None,
        };
        self.names_an_extra |= extra.is_some();
        Some(extra.into_iter().collect())
    }

    fn operand(&mut self) -> Option<Operand<'t>> {
        if let Some(quote) = self.symbol(&["'", "\""]) {
            let (text, rest) = self.rest.split_once(quote)?;
            self.rest = rest;
            return Some(Operand::Text(text));
        }
        let end = self
            .rest
            .find(|c| !is_word_part(c) && c != '.')
            .unwrap_or(self.rest.len());
        let (variable, rest) = self.rest.split_at(end);
        self.rest = rest;
        VARIABLES
            .contains(&variable)
            .then_some(Operand::Variable(variable))
    }

    fn operator(&mut self) -> Option<&'static str> {
        if self.word("in") {
            return Some("in");
        }
        if self.word("not") {
            return self.word("in").then_some("not in");
        }
        self.symbol(&["===", "==", "~=", "!=", "<=", ">=", "<", ">"])
    }

    fn word(&mut self, word: &str) -> bool {
        let rest = self
            .rest
            .trim_start()
            .strip_prefix(word)
            .filter(|rest| !rest.starts_with(is_word_part));
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Reads the first of these with which the rest begins.
    fn symbol(&mut self, symbols: &[&'static str]) -> Option<&'static str> {
        self.rest = self.rest.trim_start();
        let symbol = symbols
            .iter()
            .find(|symbol| self.rest.starts_with(**symbol))?;
        self.rest = &self.rest[symbol.len()..];
        Some(symbol)
    }
}

fn is_word_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns a name in lower case with `-` for every run of `-`, `_` and `.` (PEP 503).
pub fn normalised(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for character in name.chars() {
        if matches!(character, '-' | '_' | '.') {
            if !out.ends_with('-') {
                out.push('-');
            }
        } else {
            out.push(character.to_ascii_lowercase());
        }
    }
    out
}

/// Returns the first five numbers of a version.
fn plain_version(version: &pep440_rs::Version) -> Option<Version> {
    let numbers: Option<Vec<u32>> = version
        .release()
        .iter()
        .map(|number| u32::try_from(*number).ok())
        .collect();
    numbers
        .filter(|numbers| !numbers.is_empty())
        .map(|numbers| Version::new(&numbers))
}
