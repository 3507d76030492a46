//! `Requires-Dist` lines, as PEP 508 writes them and as older tools do, with parentheses around the versions.
//!
//! Total: every text gives a requirement or none.

use std::collections::BTreeSet;
use std::str::FromStr;
use std::sync::LazyLock;

use pep440_rs::{Operator, VersionSpecifier, VersionSpecifiers};
use regex::Regex;

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

/// Reads one line. Returns nothing where the name or the versions break the grammar; installers refuse it as well. Of a marker,
/// only the extras count.
pub(super) fn read(text: &str) -> Option<Requires> {
    let (name, rest) = name(text.trim_start())?;
    let (extras, rest) = extras(rest.trim_start())?;
    let (versions, marker) = versions(rest.trim_start())?;
    let named = NAMED_EXTRA.captures_iter(marker);
    let named: BTreeSet<String> = named
        .filter_map(|found| Some(normalised(found.get(1).or(found.get(2))?.as_str())))
        .collect();
    Some(Requires {
        name,
        extras,
        versions,
        optional: !named.is_empty(),
        extra: named.iter().next().filter(|_| named.len() == 1).cloned(),
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
