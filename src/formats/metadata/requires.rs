//! `Requires-Dist` lines, as PEP 508 writes them and as older tools do, with parentheses around the versions.
//!
//! Total: every text gives a requirement or none.

use std::collections::BTreeSet;
use std::str::FromStr;
use std::sync::LazyLock;

use pep440_rs::{Operator, VersionSpecifier, VersionSpecifiers};
use regex::Regex;

use crate::range::Range;
use crate::version::Version;

/// `extra == "gpu"` in a marker, or with the sides exchanged.
static NAMED_EXTRA: LazyLock<Regex> = LazyLock::new(|| {
    let side = r#"["']([^"']*)["']"#;
    let marker = format!(r"(?-u:\bextra\s*===?\s*){side}|{side}(?-u:\s*===?\s*extra\b)");
    Regex::new(&marker).expect("a test reads both sides")
});

/// One `Requires-Dist`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requires {
    /// Normalised: lower case, `-` between words.
    pub name: String,
    /// The extras that it asks of that distribution, `cuda-toolkit[cublas]`.
    pub extras: Vec<String>,
    /// As it is written; empty if any version will do.
    pub versions: String,
    /// True if it may count only for those who asked for an extra of this distribution.
    pub optional: bool,
    /// The extra, if its marker names one only.
    pub extra: Option<String>,
    /// What its marker says beside an extra; empty if it always counts.
    pub marker: String,
}

impl Requires {
    /// The version after `==`, without a final `.*`.
    pub fn pinned(&self) -> Option<Version> {
        let specifiers = VersionSpecifiers::from_str(&self.versions).ok()?;
        for specifier in specifiers.iter() {
            if let Operator::Equal | Operator::EqualStar | Operator::ExactEqual =
                specifier.operator()
            {
                return plain_version(specifier.version());
            }
        }
        None
    }

    /// The versions that it allows, if there is an oldest one and none is pinned.
    pub fn declared(&self) -> Option<Range> {
        let oldest = self.lower_bound().filter(|_| self.pinned().is_none())?;
        let range: Range = self.versions.parse().ok()?;
        (range.lowest() == Some(oldest)).then_some(range)
    }

    /// True if it counts on every Linux with every Python.
    pub fn is_for_linux(&self) -> bool {
        let marker = self.marker.replace(['(', ')', '"', '\'', ' '], "");
        marker
            .split("and")
            .all(|part| matches!(part, "" | "platform_system==Linux" | "sys_platform==linux"))
    }

    /// The oldest version that it allows.
    pub fn lower_bound(&self) -> Option<Version> {
        let specifiers = VersionSpecifiers::from_str(&self.versions).ok()?;
        let mut highest = None;
        for specifier in specifiers.iter() {
            if let Operator::GreaterThanEqual | Operator::TildeEqual = specifier.operator() {
                highest = highest.max(plain_version(specifier.version()));
            }
        }
        highest
    }
}

/// Reads one line. Returns nothing where the name or the versions break the grammar; installers refuse it as well. Of a marker,
/// only the extras count.
pub(super) fn read(text: &str) -> Option<Requires> {
    let (name, rest) = name(text.trim_start())?;
    let (extras, rest) = extras(rest.trim_start())?;
    let (versions, marker) = versions(rest.trim_start())?;
    let mut marked = BTreeSet::new();
    for captures in NAMED_EXTRA.captures_iter(marker) {
        if let Some(extra) = captures.get(1).or(captures.get(2)) {
            marked.insert(normalised(extra.as_str()));
        }
    }
    Some(Requires {
        name,
        extras,
        versions,
        optional: !marked.is_empty(),
        extra: marked.pop_first().filter(|_| marked.is_empty()),
        marker: marker.trim().trim_start_matches(';').trim().to_owned(),
    })
}

/// The normalised name at the start of a text, and the rest of the text.
fn name(text: &str) -> Option<(String, &str)> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_' | '.'));
    let (name, rest) = text.split_at(end.unwrap_or(text.len()));
    let is_name = name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.ends_with(|c: char| c.is_ascii_alphanumeric());
    is_name.then(|| (normalised(name), rest))
}

fn extras(text: &str) -> Option<(Vec<String>, &str)> {
    let mut extras = Vec::new();
    let Some(text) = text.strip_prefix('[') else {
        return Some((extras, text));
    };
    let (list, rest) = text.split_once(']')?;
    if list.trim().is_empty() {
        return Some((extras, rest));
    }
    for item in list.split(',') {
        let (extra, "") = name(item.trim())? else {
            return None;
        };
        extras.push(extra);
    }
    Some((extras, rest))
}

/// Gives an empty text for any version, and for a URL.
fn versions(text: &str) -> Option<(String, &str)> {
    if let Some(url) = text.strip_prefix('@').map(str::trim_start) {
        let (url, rest) = url.split_at(url.find(char::is_whitespace).unwrap_or(url.len()));
        return (!matches!(url, "" | ";")).then_some((String::new(), rest));
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

/// A name in lower case with `-` for every run of `-`, `_` and `.` (PEP 503).
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

/// The first five numbers of a version.
fn plain_version(version: &pep440_rs::Version) -> Option<Version> {
    let mut numbers = Vec::new();
    for number in version.release() {
        numbers.push(u32::try_from(*number).ok()?);
    }
    (!numbers.is_empty()).then(|| Version::new(&numbers))
}
