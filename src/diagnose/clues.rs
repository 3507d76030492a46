//! The rows of `profiles/clues.toml`: words that tell what a failure is about where no row of `errors.toml` knows its message, or
//! only a general one.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::bytes::{Regex, RegexBuilder};

use super::signatures::{Match, Signatures};
use crate::catalog::{ErrorRow, clues, failing_words};

static FAILING: LazyLock<Regex> = LazyLock::new(|| {
    let words = RegexBuilder::new(failing_words()).unicode(false).build();
    words.expect("a test reads the rows")
});
static CLUES: LazyLock<Signatures> =
    LazyLock::new(|| Signatures::new(clues()).expect("a test reads the rows"));

/// The clues that a line gives, in the order of the rows. A line without a word of failure gives none.
pub fn of_line(line: &[u8]) -> Vec<Match> {
    let Some(failing) = FAILING.find(line) else {
        return Vec::new();
    };
    let mut found = CLUES.matches(line, &BTreeSet::new());
    for clue in &mut found {
        clue.range.start = clue.range.start.min(failing.start());
        clue.range.end = clue.range.end.max(failing.end());
    }
    found
}

/// The rows of the clues in a message that only a general row of `errors.toml` knows, without those that are too vague for it.
pub(super) fn of_general_message(text: &[u8]) -> Vec<&'static ErrorRow> {
    let mut places: Vec<usize> = Vec::new();
    for line in text.split(|byte| *byte == b'\n') {
        places.extend(of_line(line).iter().map(|found| found.key.0));
    }
    places.sort_unstable();
    places.dedup();
    let rows = places.into_iter().map(|place| &clues()[place]);
    rows.filter(|row| !row.general).collect()
}
