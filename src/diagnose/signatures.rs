//! The regexes of `profiles/errors.toml`: which rows a text matches, and the facts that it states.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{LazyLock, OnceLock};

use memchr::memchr;
use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;
use serde::Serialize;
use serde::de::value::{Error, StrDeserializer};

use super::literals::Literals;
use crate::catalog::{Argument, Capture, ErrorRow, errors};

/// A log may be hostile: a fact is cut here.
const MAX_CAPTURE: usize = 400;

/// The named groups of a match.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Captures(BTreeMap<Capture, String>);

impl Captures {
    pub fn get(&self, capture: Capture) -> Option<&str> {
        self.0.get(&capture).map(String::as_str)
    }

    /// Adds the facts that are not known yet.
    pub(super) fn add(&mut self, others: &Captures) {
        for (capture, text) in &others.0 {
            self.0.entry(*capture).or_insert_with(|| text.clone());
        }
    }

    /// The text of a question's argument; none if the message does not state it.
    pub fn argument<'t>(&'t self, argument: &'t Argument) -> Option<&'t str> {
        match argument {
            Argument::Captured(capture) => self.get(*capture),
            Argument::Literal(text) => Some(text),
        }
    }
}

struct Pattern {
    /// The index of its row.
    row: usize,
    source: &'static str,
    /// True if a message may go on in the next lines.
    goes_on: bool,
    /// Compiled when a line has one of its literals: most never are.
    compiled: OnceLock<(Regex, Vec<(usize, Capture)>)>,
}

/// A place in a text that a row matches.
pub struct Match {
    pub row: &'static ErrorRow,
    /// The index of the row in the table, and the facts.
    pub key: (usize, Captures),
    pub range: Range<usize>,
}

/// The regexes of all rows.
pub struct Signatures {
    rows: &'static [ErrorRow],
    patterns: Vec<Pattern>,
    /// Finds the lines on which a message can begin.
    literals: Literals,
    /// The indexes of the patterns without a literal.
    always: Vec<usize>,
    /// The indexes of the patterns that have a literal.
    patterns_of_literal: Vec<Vec<usize>>,
    /// The rows of the numbers of CUDA's errors.
    row_of_code: BTreeMap<u32, usize>,
}

impl Signatures {
    pub fn embedded() -> &'static Signatures {
        static SIGNATURES: LazyLock<Signatures> =
            LazyLock::new(|| Signatures::new(errors()).expect("a test reads the rows"));
        &SIGNATURES
    }

    pub fn new(rows: &'static [ErrorRow]) -> Result<Signatures, String> {
        let (mut patterns, mut literals) = (Vec::new(), BTreeMap::<&str, Vec<usize>>::new());
        let (mut always, mut row_of_code) = (Vec::new(), BTreeMap::new());
        for (index, row) in rows.iter().enumerate() {
            row_of_code.extend(row.code.iter().map(|code| (*code, index)));
            for (source, own_literals) in row.regex.iter().zip(&row.literals) {
                if own_literals.is_empty() {
                    always.push(patterns.len());
                }
                for literal in own_literals {
                    literals.entry(literal).or_default().push(patterns.len());
                }
                patterns.push(Pattern::new(index, source));
            }
        }
        let (literals, patterns_of_literal): (Vec<_>, Vec<_>) = literals.into_iter().unzip();
        let literals = Literals::new(literals);
        Ok(Signatures {
            rows,
            patterns,
            literals,
            always,
            patterns_of_literal,
            row_of_code,
        })
    }

    /// The start of the first literal in a text: without one, no message begins in it.
    pub(super) fn find(&self, text: &[u8]) -> Option<usize> {
        self.literals.find(text)
    }

    /// The patterns that may match a message which begins on this line, in the order of the rows.
    fn candidates(&self, line: &[u8]) -> Vec<usize> {
        let mut candidates = self.always.clone();
        self.literals.any(line, |literal, _| {
            candidates.extend(&self.patterns_of_literal[literal]);
            false
        });
        candidates.sort_unstable();
        candidates.dedup();
        candidates
    }

    /// None if no message can begin on this line; true if one may go on in the next lines.
    pub(super) fn may_go_on(&self, line: &[u8]) -> Option<bool> {
        let mut is_possible = false;
        let goes_on = self.literals.any(line, |literal, _| {
            is_possible = true;
            let mut patterns = self.patterns_of_literal[literal].iter();
            patterns.any(|pattern| self.patterns[*pattern].goes_on)
        });
        is_possible.then_some(goes_on)
    }

    /// The matches that begin in the first line of a text, in the order of the rows, one a row. Those of rows that are
    /// `full` come without captures, which are most of the work.
    pub fn matches(&self, text: &[u8], full: &BTreeSet<usize>) -> Vec<Match> {
        let line = &text[..memchr(b'\n', text).unwrap_or(text.len())];
        let mut matches: Vec<Match> = Vec::new();
        for index in self.candidates(line) {
            let pattern = &self.patterns[index];
            if matches.last().is_some_and(|last| last.key.0 == pattern.row) {
                continue;
            }
            let text = if pattern.goes_on { text } else { line };
            if let Some((captures, range)) = pattern.find(text, full.contains(&pattern.row))
                && range.start <= line.len()
                && let Some(row) = self.row(pattern, &captures)
            {
                matches.push(Match {
                    row: &self.rows[row],
                    key: (row, captures),
                    range,
                });
            }
        }
        matches.sort_by_key(|found| found.key.0);
        matches
    }

    /// The row of a match: that of its number, where it states one; none for a number that means nothing known.
    fn row(&self, pattern: &Pattern, captures: &Captures) -> Option<usize> {
        let Some(code) = captures.get(Capture::Code) else {
            return Some(pattern.row);
        };
        self.row_of_code.get(&code.parse().ok()?).copied()
    }
}

impl Pattern {
    fn new(row: usize, source: &'static str) -> Pattern {
        Pattern {
            row,
            source,
            goes_on: source.contains(r"\s"),
            compiled: OnceLock::new(),
        }
    }

    fn find(&self, text: &[u8], only_range: bool) -> Option<(Captures, Range<usize>)> {
        let (regex, groups) = self.compiled.get_or_init(|| {
            let regex = RegexBuilder::new(self.source).unicode(false).build();
            let regex = regex.expect("its syntax was read");
            let groups = groups_of(&regex).expect("a test reads the names");
            (regex, groups)
        });
        if only_range {
            return Some((Captures::default(), regex.find(text)?.range()));
        }
        // To ask first is faster, since most texts do not match.
        if !regex.is_match(text) {
            return None;
        }
        let found = regex.captures(text)?;
        let mut captures = Captures::default();
        for (group, capture) in groups {
            if let Some(group) = found.get(*group) {
                let bytes = group.as_bytes();
                let bytes = &bytes[..bytes.len().min(MAX_CAPTURE)];
                let text = String::from_utf8_lossy(bytes).into_owned();
                captures.0.insert(*capture, text);
            }
        }
        Some((captures, found.get_match().range()))
    }
}

/// The captures of a regex. A name may end in digits, so that two branches can have it: `soname` and `soname2`.
pub fn groups_of(regex: &Regex) -> Result<Vec<(usize, Capture)>, String> {
    let mut groups = Vec::new();
    for (group, name) in regex.capture_names().enumerate() {
        if let Some(name) = name {
            let name = name.trim_end_matches(|character: char| character.is_ascii_digit());
            let capture = Capture::deserialize(StrDeserializer::<Error>::new(name));
            groups.push((group, capture.map_err(|error| error.to_string())?));
        }
    }
    Ok(groups)
}
