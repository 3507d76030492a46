//! The regexes of `profiles/errors.toml`: which rows a text matches, and the facts that it states.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::LazyLock;

use regex::bytes::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};
use regex_syntax::hir::{Hir, HirKind};
use serde::Deserialize;
use serde::Serialize;
use serde::de::value::{Error, StrDeserializer};

use crate::catalog::{Argument, Capture, ErrorRow, errors};

/// A log may be hostile: a fact is cut here.
const LONGEST_CAPTURE: usize = 400;
/// The shortest literal that a line is searched for.
const SHORTEST_LITERAL: usize = 4;

/// The named groups of a match.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Captures(BTreeMap<Capture, String>);

impl Captures {
    pub fn get(&self, capture: Capture) -> Option<&str> {
        self.0.get(&capture).map(String::as_str)
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
    row: usize,
    regex: Regex,
    groups: Vec<(usize, Capture)>,
}

/// A place in a text that a row matches.
pub struct Match {
    pub row: &'static ErrorRow,
    /// The place of the row in the table.
    pub order: usize,
    pub captures: Captures,
    pub range: Range<usize>,
}

/// All rows, compiled.
pub struct Signatures {
    rows: &'static [ErrorRow],
    /// Finds the lines on which a message can begin.
    literals: Regex,
    set: RegexSet,
    patterns: Vec<Pattern>,
}

impl Signatures {
    pub fn embedded() -> &'static Signatures {
        static SIGNATURES: LazyLock<Signatures> =
            LazyLock::new(|| Signatures::new(errors()).expect("a test compiles the rows"));
        &SIGNATURES
    }

    /// The error names the row and its fault.
    pub fn new(rows: &'static [ErrorRow]) -> Result<Signatures, String> {
        let sources = || {
            let of_row = |(index, row): (usize, &'static ErrorRow)| {
                row.regex.iter().map(move |source| (index, row.id.as_str(), source.as_str()))
            };
            rows.iter().enumerate().flat_map(of_row)
        };
        let (mut patterns, mut literals) = (Vec::new(), BTreeSet::new());
        for (row, id, source) in sources() {
            let fault = |why: String| format!("{id}: {source}: {why}");
            let syntax = regex_syntax::ParserBuilder::new().unicode(false).utf8(false).build().parse(source);
            let syntax = syntax.map_err(|error| fault(error.to_string()))?;
            let required =
                literals_of(&syntax).ok_or_else(|| fault("no literal of four characters or more".into()))?;
            literals.extend(required);
            let regex = RegexBuilder::new(source).unicode(false).build();
            let regex = regex.map_err(|error| fault(error.to_string()))?;
            let groups = groups_of(&regex).map_err(fault)?;
            patterns.push(Pattern { row, regex, groups });
        }
        let literals: Vec<String> =
            literals.iter().map(|literal| regex_syntax::escape(&String::from_utf8_lossy(literal))).collect();
        let literals = RegexBuilder::new(&literals.join("|")).unicode(false).build();
        let set = RegexSetBuilder::new(sources().map(|(_, _, source)| source))
            .unicode(false)
            .size_limit(64 << 20)
            .dfa_size_limit(8 << 20)
            .build();
        let whole = |error: regex::Error| format!("all rows together: {error}");
        Ok(Signatures { rows, literals: literals.map_err(whole)?, set: set.map_err(whole)?, patterns })
    }

    pub(super) fn may_begin_on(&self, line: &[u8]) -> bool {
        self.literals.is_match(line)
    }

    /// The matches that begin in the first `within` bytes of a text, in the order of the rows, one a row.
    pub fn matches(&self, text: &[u8], within: usize) -> Vec<Match> {
        let mut found: Vec<Match> = Vec::new();
        for index in self.set.matches(text) {
            let Pattern { row: order, regex, groups } = &self.patterns[index];
            if found.last().is_some_and(|last| last.order == *order) {
                continue;
            }
            let Some(captures) = regex.captures(text) else { continue };
            let range = captures.get_match().range();
            if range.start > within {
                continue;
            }
            let named = groups.iter().filter_map(|(group, capture)| {
                let bytes = captures.get(*group)?.as_bytes();
                let bytes = &bytes[..bytes.len().min(LONGEST_CAPTURE)];
                Some((*capture, String::from_utf8_lossy(bytes).into_owned()))
            });
            let captures = Captures(named.collect());
            found.push(Match { row: &self.rows[*order], order: *order, captures, range });
        }
        found
    }
}

/// The captures of a regex. A name may end in digits, so that two branches can have it: `soname` and `soname2`.
fn groups_of(regex: &Regex) -> Result<Vec<(usize, Capture)>, String> {
    let named = regex.capture_names().enumerate().filter_map(|(group, name)| Some((group, name?)));
    let typed = named.map(|(group, name)| {
        let name = name.trim_end_matches(|character: char| character.is_ascii_digit());
        let capture = Capture::deserialize(StrDeserializer::<Error>::new(name));
        capture.map(|capture| (group, capture)).map_err(|error| error.to_string())
    });
    typed.collect()
}

/// Texts of a useful length, one of which is in every match: the first ones, since a message begins on its first line. None if
/// there are none.
fn literals_of(syntax: &Hir) -> Option<Vec<Vec<u8>>> {
    let found = match syntax.kind() {
        HirKind::Literal(literal) => vec![literal.0.to_vec()],
        HirKind::Capture(group) => literals_of(&group.sub)?,
        HirKind::Repetition(repetition) if repetition.min > 0 => literals_of(&repetition.sub)?,
        HirKind::Alternation(branches) => {
            branches.iter().map(literals_of).collect::<Option<Vec<_>>>()?.concat()
        }
        HirKind::Concat(parts) => parts.iter().find_map(literals_of)?,
        _ => return None,
    };
    found.iter().all(|literal| literal.len() >= SHORTEST_LITERAL).then_some(found)
}
