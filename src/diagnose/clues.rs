//! The rows of `profiles/clues.toml`: words that tell what a failure is about where no row of `errors.toml` knows its message, or
//! only a general one.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::bytes::{Regex, RegexBuilder};

use super::signatures::{Match, Signatures};
use crate::catalog::clue_table;

static FAILING: LazyLock<Regex> = LazyLock::new(|| words(&clue_table().failing));
static FINE: LazyLock<Regex> = LazyLock::new(|| words(&clue_table().fine));
static CLUES: LazyLock<Signatures> =
    LazyLock::new(|| Signatures::new(&clue_table().clues).expect("a test reads the rows"));

fn words(regex: &str) -> Regex {
    let words = RegexBuilder::new(regex).unicode(false).build();
    words.expect("a test reads the rows")
}

/// The clues that a line gives, in the order of the rows. A line without a word of failure gives none.
pub fn of_line(line: &[u8]) -> Vec<Match> {
    let is_fine = |word: &regex::bytes::Match<'_>| {
        let mut fine = FINE.find_iter(line);
        fine.any(|fine| fine.start() <= word.start() && word.end() <= fine.end())
    };
    let Some(failing) = FAILING.find_iter(line).find(|word| !is_fine(word)) else {
        return Vec::new();
    };
    let mut found = CLUES.matches(line, &BTreeSet::new());
    for clue in &mut found {
        clue.range.start = clue.range.start.min(failing.start());
        clue.range.end = clue.range.end.max(failing.end());
    }
    found
}

/// The clues in the lines of a message that a general row of `errors.toml` knows, without those that tell less than it.
pub(super) fn of_message(text: &[u8]) -> Vec<Match> {
    let lines = text.split(|byte| *byte == b'\n');
    let mut found: Vec<Match> = lines.flat_map(of_line).collect();
    found.retain(|clue| !clue.row.general);
    found.sort_by_key(|clue| clue.key.0);
    found.dedup_by_key(|clue| clue.key.0);
    found
}
