//! The regexes of `profiles/errors.toml`: which rows a text matches, and the facts that it states.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{LazyLock, OnceLock};

use memchr::memchr;
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
    order: usize,
    source: &'static str,
    /// Compiled when the set has found it: most never are.
    compiled: OnceLock<(Regex, Vec<(usize, Capture)>)>,
}

/// Regexes that are looked for together.
struct Group {
    /// Finds the lines on which a message can begin.
    literals: Regex,
    set: RegexSet,
    patterns: Vec<Pattern>,
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
    /// Messages of one line, and those that may go on in the next ones.
    single: Group,
    several: Group,
}

impl Signatures {
    pub fn embedded() -> &'static Signatures {
        static SIGNATURES: LazyLock<Signatures> =
            LazyLock::new(|| Signatures::new(errors()).expect("a test compiles the rows"));
        &SIGNATURES
    }

    /// The error names the regex and its fault.
    pub fn new(rows: &'static [ErrorRow]) -> Result<Signatures, String> {
        let of_row = |(order, row): (usize, &'static ErrorRow)| {
            row.regex.iter().map(move |source| Pattern { order, source, compiled: OnceLock::new() })
        };
        let patterns = rows.iter().enumerate().flat_map(of_row);
        let (several, single) = patterns.partition(|pattern| pattern.source.contains(r"\s"));
        Ok(Signatures { rows, single: Group::new(single)?, several: Group::new(several)? })
    }

    pub(super) fn may_begin_on(&self, line: &[u8]) -> bool {
        self.single.literals.is_match(line)
    }

    /// True if a message may begin on this line and go on in the next ones.
    pub(super) fn may_go_on(&self, line: &[u8]) -> bool {
        self.several.literals.is_match(line)
    }

    /// The matches that begin in the first line of a text, in the order of the rows, one a row.
    pub fn matches(&self, text: &[u8]) -> Vec<Match> {
        let line = &text[..memchr(b'\n', text).unwrap_or(text.len())];
        let mut found: Vec<Match> = [(&self.single, line), (&self.several, text)]
            .into_iter()
            .flat_map(|(group, text)| group.matches(text, self.rows))
            .filter(|found| found.range.start <= line.len())
            .collect();
        found.sort_by_key(|found| found.order);
        found.dedup_by_key(|found| found.order);
        found
    }
}

impl Group {
    fn new(patterns: Vec<Pattern>) -> Result<Group, String> {
        let mut literals = BTreeSet::new();
        for Pattern { source, .. } in &patterns {
            let syntax = regex_syntax::ParserBuilder::new().unicode(false).utf8(false).build().parse(source);
            let syntax = syntax.map_err(|error| error.to_string())?;
            let required = literals_of(&syntax);
            literals
                .extend(required.ok_or_else(|| format!("no literal of four characters or more: {source}"))?);
        }
        let escaped = literals.iter().map(|literal| regex_syntax::escape(&String::from_utf8_lossy(literal)));
        let literals = compile(&escaped.collect::<Vec<_>>().join("|"))?;
        let set = RegexSetBuilder::new(patterns.iter().map(|pattern| pattern.source))
            .unicode(false)
            .size_limit(64 << 20)
            .dfa_size_limit(8 << 20)
            .build();
        Ok(Group { literals, set: set.map_err(|error| error.to_string())?, patterns })
    }

    fn matches<'g>(
        &'g self,
        text: &'g [u8],
        rows: &'static [ErrorRow],
    ) -> impl Iterator<Item = Match> + use<'g> {
        self.set.matches(text).into_iter().filter_map(move |index| {
            let Pattern { order, source, compiled } = &self.patterns[index];
            let (regex, groups) = compiled.get_or_init(|| {
                let regex = compile(source).expect("the set has compiled it");
                let groups = groups_of(&regex).expect("a test reads the names");
                (regex, groups)
            });
            let captures = regex.captures(text)?;
            let named = groups.iter().filter_map(|(group, capture)| {
                let bytes = captures.get(*group)?.as_bytes();
                let bytes = &bytes[..bytes.len().min(LONGEST_CAPTURE)];
                Some((*capture, String::from_utf8_lossy(bytes).into_owned()))
            });
            let (captures, range) = (Captures(named.collect()), captures.get_match().range());
            Some(Match { row: &rows[*order], order: *order, captures, range })
        })
    }
}

fn compile(source: &str) -> Result<Regex, String> {
    RegexBuilder::new(source).unicode(false).build().map_err(|error| format!("{source}: {error}"))
}

/// The captures of a regex. A name may end in digits, so that two branches can have it: `soname` and `soname2`.
pub fn groups_of(regex: &Regex) -> Result<Vec<(usize, Capture)>, String> {
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
