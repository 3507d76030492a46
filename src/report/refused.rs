//! The evidence of a refused start: lines that say what is wrong, each with groups of rows below it. A start that is not
//! verbose shows the first rows of each group, so that the command to type stays in sight.

use super::Style;

/// The lines of a refusal without `-v`, with the blank one before the hint.
const LINES: usize = 8;

/// One fault.
pub(super) struct Fault {
    pub(super) title: String,
    pub(super) groups: Vec<Group>,
}

/// Rows that stand below each other in columns, such as all candidates.
pub(super) struct Group {
    pub(super) prefix: &'static str,
    pub(super) rows: Vec<Vec<String>>,
}

impl Group {
    pub(super) fn new(rows: Vec<Vec<String>>) -> Group {
        Group { prefix: "  ", rows }
    }

    /// One line.
    pub(super) fn line(text: String) -> Group {
        Group::new(vec![vec![text]])
    }
}

/// The faults and the advice below them: all of it, or at most [`LINES`] lines.
pub(super) fn page(faults: &[Fault], advice: &str, is_full: bool, style: Style) -> String {
    let blank = if advice.is_empty() { "" } else { "\n" };
    let room = LINES - 1 - advice.lines().count().min(LINES - 3);
    let all: usize = faults.iter().map(Fault::lines).sum();
    let limit = if is_full || all <= room {
        all
    } else {
        room - 1
    };
    let mut text = shown(faults, limit, style);
    if limit < all {
        text.push_str(&format!("  {} more lines with -v\n", all - limit));
    }
    format!("{text}{blank}{advice}")
}

impl Fault {
    fn lines(&self) -> usize {
        1 + self
            .groups
            .iter()
            .map(|group| group.rows.len())
            .sum::<usize>()
    }
}

/// As many lines as there is room for: the first fault comes first, and of that the first row of each of its groups.
fn shown(faults: &[Fault], limit: usize, style: Style) -> String {
    let mut text = String::new();
    let mut left = limit;
    for fault in faults {
        if left == 0 {
            break;
        }
        left -= 1;
        text.push_str(&fault.title);
        text.push('\n');
        let mut counts = vec![0; fault.groups.len()];
        let longest = fault.groups.iter().map(|group| group.rows.len()).max();
        for row in 0..longest.unwrap_or(0) {
            for (count, group) in counts.iter_mut().zip(&fault.groups) {
                if row < group.rows.len() && left > 0 {
                    *count += 1;
                    left -= 1;
                }
            }
        }
        for (count, group) in counts.iter().zip(&fault.groups) {
            text.push_str(&style.columns(group.prefix, &group.rows[..*count]));
        }
    }
    text
}
