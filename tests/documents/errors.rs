//! docs/errors.md shows the rows of `profiles/errors.toml` with the words of `cudarun diagnose`, and README.md the most frequent
//! ones. With `CUDARUN_SNAPSHOTS=overwrite` in the environment, both are written anew.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use cudarun::catalog::{ErrorKind, ErrorRow, errors};
use cudarun::diagnose::{Message, Reading};
use cudarun::report::possible_cause;

const HEAD: &str = "\
# Error messages and their causes

`cudarun diagnose` recognises these messages, and finds out which of the causes a machine has ([diagnose.md](diagnose.md)). An empty
cure depends on the machine: there `cudarun diagnose` looks for a plan, a variable or a package that really helps, and prints the
command.

This page is generated from `profiles/errors.toml`. Other versions, libraries and paths in a message make no difference.
";
const LONGEST_LINE: usize = 120;
const MOST_LINES: usize = 3;
const LONGEST_CELL: usize = 72;
const MARKS: [&str; 2] = ["<!-- errors -->\n", "<!-- /errors -->\n"];

#[test]
fn error_messages_are_documented() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let (before, rest) = readme
        .split_once(MARKS[0])
        .expect("README.md has a place for errors");
    let (_, after) = rest
        .split_once(MARKS[1])
        .expect("the place for errors has an end");
    let readme = [before, MARKS[0], &most_frequent(), MARKS[1], after].concat();
    for (name, text) in [("docs/errors.md", page()), ("README.md", readme)] {
        if std::env::var("CUDARUN_SNAPSHOTS").is_ok_and(|value| value == "overwrite") {
            fs::write(root.join(name), text).unwrap();
        } else {
            let is_same = fs::read_to_string(root.join(name)).unwrap_or_default() == text;
            let refresh =
                "CUDARUN_SNAPSHOTS=overwrite cargo test --locked error_messages_are_documented";
            assert!(
                is_same,
                "{name} is not of profiles/errors.toml; this writes it anew:\n    {refresh}"
            );
        }
    }
}

#[test]
fn error_messages_have_one_anchor_each() {
    let page = page();
    for row in errors() {
        let heading = format!("\n### {}\n", row.id);
        let anchor = format!("<a id=\"{}\"></a>", row.id);
        assert_eq!(
            page.matches(&heading).count() + page.matches(&anchor).count(),
            1,
            "{}",
            row.id
        );
    }
    assert!(most_frequent().lines().count() == 14, "{}", most_frequent());
}

#[test]
fn hostile_samples_stay_in_their_cell() {
    assert_eq!(code("a|b"), "`a\\|b`");
    assert_eq!(code("gcc `x`"), "`` gcc `x` ``");
    assert_eq!(shortened("first second", 8), "first…");
    assert_eq!(shortened("first\nsecond", 80), "first…");
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    let groups = groups();
    let of_kind = |kind: ErrorKind| errors().iter().filter(move |row| row.kind == kind);
    let mut last = "";
    for row in of_kind(ErrorKind::Root) {
        let group = groups[&row.id].as_str();
        if group != last {
            page.push_str(&format!("\n## {group}\n"));
            last = group;
        }
        page.push_str(&root(row));
    }
    page.push_str("\n## Consequences and general messages\n\n");
    page.push_str(
        "Another message of the log often says more: `cudarun diagnose` looks for it first.\n\n",
    );
    page.push_str("| message | possible causes |\n|---|---|\n");
    for row in of_kind(ErrorKind::Symptom).chain(of_kind(ErrorKind::Clue)) {
        page.push_str(&format!(
            "| {} | {} |\n",
            cell(row),
            causes(row, usize::MAX)
        ));
    }
    page.push_str(
        "\n## Harmless messages\n\nThey also appear in programs that work.\n\n| message |\n|---|\n",
    );
    for row in of_kind(ErrorKind::Harmless) {
        page.push_str(&format!("| {} |\n", cell(row)));
    }
    page
}

/// The heading above each row of the file, by the row's name.
fn groups() -> BTreeMap<String, String> {
    let mut groups = BTreeMap::new();
    let mut group = "";
    for line in include_str!("../../profiles/errors.toml").lines() {
        if let Some(heading) = line.strip_prefix("# --- ") {
            group = heading.trim_end_matches(" ---");
        } else if let Some(id) = line.strip_prefix("id = ") {
            groups.insert(id.trim_matches('"').to_owned(), group.to_owned());
        }
    }
    groups
}

fn root(row: &ErrorRow) -> String {
    let lines = row
        .sample
        .iter()
        .flat_map(|sample| sample.lines().take(MOST_LINES));
    let lines = lines.map(|line| shortened(line, LONGEST_LINE) + "\n");
    let mut text = format!(
        "\n### {}\n\n```text\n{}```\n\n",
        row.id,
        lines.collect::<String>()
    );
    text.push_str("| possible cause | usual cure |\n|---|---|\n");
    let message = message(row);
    for possible in &row.cause {
        let (sentence, cure) = possible_cause(&message, possible);
        text.push_str(&format!(
            "| {} | {} |\n",
            sentence.replace('|', "\\|"),
            cure.replace('|', "\\|")
        ));
    }
    text
}

/// The twelve or fewer rows that most public threads quote.
fn most_frequent() -> String {
    let mut rows: Vec<&ErrorRow> = errors().iter().filter(|row| row.threads > 0).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.threads));
    let mut text = "| message | usual cause |\n|---|---|\n".to_owned();
    for row in rows {
        let message = code(&shortened(&row.sample[0], LONGEST_CELL));
        text.push_str(&format!(
            "| [{message}](docs/errors.md#{}) | {} |\n",
            row.id,
            causes(row, 1)
        ));
    }
    text
}

fn cell(row: &ErrorRow) -> String {
    let samples: Vec<String> = row
        .sample
        .iter()
        .map(|sample| code(&shortened(sample, LONGEST_CELL)))
        .collect();
    format!("<a id=\"{}\"></a>{}", row.id, samples.join("<br>"))
}

fn causes(row: &ErrorRow, most: usize) -> String {
    let message = message(row);
    let sentences = row
        .cause
        .iter()
        .take(most)
        .map(|possible| possible_cause(&message, possible).0);
    sentences.collect::<Vec<_>>().join("; ").replace('|', "\\|")
}

/// The first sample as `cudarun diagnose` reads it.
fn message(row: &ErrorRow) -> Message {
    let mut reading = Reading::default();
    reading.feed(row.sample[0].as_bytes());
    let messages = reading.finish();
    messages
        .into_iter()
        .find(|message| message.row.id == row.id)
        .unwrap_or_else(|| panic!("{}", row.id))
}

/// The first line, cut at a space.
fn shortened(text: &str, longest: usize) -> String {
    let line = text
        .lines()
        .next()
        .unwrap_or_default()
        .trim()
        .replace('\t', " ");
    if line.chars().count() <= longest {
        let is_all = text.trim().lines().count() <= 1;
        return if is_all { line } else { format!("{line}…") };
    }
    let cut: String = line.chars().take(longest).collect();
    let words = cut
        .rsplit_once(' ')
        .map_or(cut.as_str(), |(words, _)| words);
    format!("{}…", words.trim_end())
}

/// A code span in a cell of a table.
fn code(text: &str) -> String {
    let text = text.replace('|', "\\|");
    if text.contains('`') {
        format!("`` {text} ``")
    } else {
        format!("`{text}`")
    }
}
