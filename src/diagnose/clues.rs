//! The rows of `profiles/clues.toml`: words that tell what a failure is about where no row of `errors.toml` knows its message, or
//! only a general one.

use std::ops::Range;
use std::sync::LazyLock;

use regex::bytes::{Regex, RegexBuilder};

use super::signatures::{Match, Pattern};
use crate::catalog::{ErrorRow, clues, failing_words};

static FAILING: LazyLock<Regex> = LazyLock::new(|| {
    let words = RegexBuilder::new(failing_words()).unicode(false).build();
    words.expect("a test reads the rows")
});
static PATTERNS: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
    let rows = clues().iter().enumerate();
    rows.flat_map(|(place, row)| {
        row.regex
            .iter()
            .map(move |source| Pattern::new(place, source))
    })
    .collect()
});

/// The clues that a line gives, in the order of the rows. A line without a word of failure gives none.
pub fn of_line(line: &[u8]) -> Vec<Match> {
    let Some(failing) = FAILING.find(line) else {
        return Vec::new();
    };
    let mut found: Vec<Match> = Vec::new();
    for pattern in PATTERNS.iter() {
        if found.last().is_some_and(|last| last.key.0 == pattern.row) {
            continue;
        }
        if let Some((captures, range)) = pattern.find(line, false) {
            found.push(Match {
                row: &clues()[pattern.row],
                key: (pattern.row, captures),
                range: both(&range, &failing.range()),
            });
        }
    }
    found
}

/// The rows of the clues in the lines of a message that only a general row knows, those that say more than such a row.
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

fn both(one: &Range<usize>, other: &Range<usize>) -> Range<usize> {
    one.start.min(other.start)..one.end.max(other.end)
}
