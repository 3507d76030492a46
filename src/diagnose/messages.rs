//! Known messages in a log.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::LazyLock;

use regex::bytes::Regex;

use super::signatures::{Captures, Match};
use crate::catalog::{ErrorKind, ErrorRow, PossibleCause};
use crate::text;

const MAX_SPEAKERS: usize = 4096;
const MAX_EXCERPT: usize = 200;

static WARNING: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?-u)Warning\b|WARN|warning:").expect("a pattern of ours"));
/// A value after a name that promises a secret, and the user of a URL.
static SECRET: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = format!(
        r"(?i-u)(?P<name>{}[=:]\s*|{}\s+|\s-p\s+)\S+|(?P<scheme>://)[^@/\s]+@",
        text::SECRET_NAME,
        text::SECRET_OPTION
    );
    Regex::new(&pattern).expect("a pattern of ours")
});

/// A message that a row of `profiles/errors.toml` knows, or a line with a clue.
#[derive(Clone, Debug)]
pub struct Message {
    pub row: &'static ErrorRow,
    pub captures: Captures,
    /// Where the row is a general one or a clue: the clues in its words, the one that tells most first. A clue is among them.
    pub clues: Vec<&'static ErrorRow>,
    /// The first line that says so, from 1, and the last one.
    pub first: usize,
    pub last: usize,
    /// The text that matched, or that spans a clue and its word of failure, escaped and shortened. Nothing else of a log is
    /// shown, since a log may hold secrets.
    pub excerpt: String,
    pub count: usize,
    /// Each line that says so calls itself a warning.
    pub is_warning: bool,
    /// The launcher's names of the processes that say so, such as `[rank3]:`; empty without a launcher.
    pub speakers: BTreeSet<Vec<u8>>,
}

/// A row comes before the more general ones: where two matches overlap, the first one counts. A root, or a harmless
/// message, decides its line. A symptom does not, since its cause may follow.
pub(super) fn deciding(matches: Vec<Match>) -> Vec<Match> {
    let mut deciding: Vec<Match> = Vec::new();
    for found in matches {
        let Range { start, end } = found.range;
        if deciding
            .iter()
            .any(|other| other.range.start < end && start < other.range.end)
        {
            continue;
        }
        let is_last = matches!(found.row.kind, ErrorKind::Root | ErrorKind::Harmless);
        deciding.push(found);
        if is_last {
            break;
        }
    }
    deciding
}

impl Message {
    /// A message of which no line is counted yet. What its clues state is added to its facts.
    pub(super) fn new(found: &Match, clues: &[Match], number: usize, text: &[u8]) -> Message {
        let mut captures = found.key.1.clone();
        for clue in clues {
            captures.add(&clue.key.1);
        }
        Message {
            row: found.row,
            captures,
            clues: clues.iter().map(|clue| clue.row).collect(),
            first: number,
            last: number,
            excerpt: shown(whole_words(text, &found.range)),
            count: 0,
            is_warning: true,
            speakers: BTreeSet::new(),
        }
    }

    /// The possible causes, the most likely first: those of the clues in its words come before those of a general row.
    pub fn possible_causes(&self) -> Vec<&'static PossibleCause> {
        let mut possible: Vec<&PossibleCause> = Vec::new();
        for row in self.clues.iter().chain([&self.row]) {
            for one in &row.cause {
                if possible.iter().all(|other| other.cause != one.cause) {
                    let mut own = self.row.cause.iter();
                    let is_same = |own: &&PossibleCause| own.cause == one.cause;
                    possible.push(own.find(is_same).unwrap_or(one));
                }
            }
        }
        possible
    }

    /// Counts a line that says so.
    pub(super) fn count(&mut self, number: usize, speaker: &[u8], text: &[u8]) {
        self.first = self.first.min(number);
        self.last = self.last.max(number);
        self.count += 1;
        self.is_warning = self.is_warning && WARNING.is_match(text);
        let is_new = !speaker.is_empty() && !self.speakers.contains(speaker);
        if is_new && self.speakers.len() < MAX_SPEAKERS {
            self.speakers.insert(speaker.to_vec());
        }
    }
}

/// A match, and the rest of the word at its end.
fn whole_words<'t>(text: &'t [u8], range: &Range<usize>) -> &'t [u8] {
    let rest = text[range.end..]
        .iter()
        .take_while(|byte| byte.is_ascii_alphanumeric() || b"_.'\"`)".contains(byte));
    &text[range.start..range.end + rest.count()]
}

/// The lines of a message as one line, escaped, without what may be a secret.
fn shown(excerpt: &[u8]) -> String {
    let words = excerpt
        .split(|byte| matches!(byte, b'\n' | b'\t'))
        .map(<[u8]>::trim_ascii);
    let line = words.collect::<Vec<_>>().join(&b' ');
    let line = text::escape(&SECRET.replace_all(&line, "${name}${scheme}…".as_bytes()));
    match line.char_indices().nth(MAX_EXCERPT - 1) {
        Some((end, _)) if line[end..].chars().nth(1).is_some() => format!("{}…", &line[..end]),
        _ => line,
    }
}
