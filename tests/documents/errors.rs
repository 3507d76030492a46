//! docs/errors.md shows the rows of `profiles/errors.toml` with the words of `cudarun diagnose`, README.md the most frequent ones,
//! and docs/doctor.md the findings of `profiles/faults.toml`. With `CUDARUN_SNAPSHOTS=overwrite` in the environment, they are
//! written anew.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use cudarun::catalog::{ErrorKind, ErrorRow, Fault, Section, errors, faults, filled};
use cudarun::diagnose::{LogReader, Message};
use cudarun::report::possible_cause;

const HEAD: &str = "\
# What does this error message mean?

`cudarun diagnose` knows these messages, and finds out which of their causes a machine has ([diagnose.md](diagnose.md)):

```text
cudarun diagnose --text 'the message'
```

By hand: find the message (versions, libraries and paths may differ), and its possible causes, the most likely first, in [the last list](#causes).

This page is generated from `profiles/errors.toml` and `profiles/faults.toml`.
";
const CAUSES: &str = "
## Causes

`…` is what the message is about. Where no cure follows, it depends on the machine: `cudarun diagnose` looks for a plan, a variable or a
package that really helps.

";
/// Of a message on the page.
const LONGEST_MESSAGE: usize = 76;
/// Of one in README.md.
const LONGEST_CELL: usize = 72;
/// So much of a symbol or path is worth showing.
const LONG_WORD: usize = 12;

#[test]
fn error_messages_and_findings_are_documented() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |name: &str| fs::read_to_string(root.join(name)).unwrap_or_default();
    for (name, text) in [
        ("docs/errors.md", page()),
        (
            "README.md",
            between(&read("README.md"), "errors", &most_frequent()),
        ),
        (
            "docs/doctor.md",
            between(&read("docs/doctor.md"), "findings", &findings()),
        ),
    ] {
        if std::env::var("CUDARUN_SNAPSHOTS").is_ok_and(|value| value == "overwrite") {
            fs::write(root.join(name), text).unwrap();
        } else {
            let refresh =
                "CUDARUN_SNAPSHOTS=overwrite cargo test --locked error_messages_and_findings";
            assert!(
                read(name) == text,
                "{name} is not of profiles/; this writes it anew:\n    {refresh}"
            );
        }
    }
}

/// The document with another text between two marks.
fn between(document: &str, mark: &str, text: &str) -> String {
    let marks = [format!("<!-- {mark} -->\n"), format!("<!-- /{mark} -->\n")];
    let (before, rest) = document
        .split_once(&marks[0])
        .expect("it has a place for the text");
    let (_, after) = rest.split_once(&marks[1]).expect("the place has an end");
    [before, &marks[0], text, &marks[1], after].concat()
}

#[test]
fn error_messages_have_one_anchor_each() {
    let page = page();
    for row in errors() {
        let anchor = format!("<a id=\"{}\"></a>", row.id);
        assert_eq!(page.matches(&anchor).count(), 1, "{}", row.id);
        for possible in &row.cause {
            let cause = format!("\n- {}: ", name(possible.cause));
            let is_named = row.kind == ErrorKind::Harmless || page.matches(&cause).count() == 1;
            assert!(is_named, "{}: {cause}", row.id);
        }
    }
    assert!(most_frequent().lines().count() == 14, "{}", most_frequent());
}

#[test]
fn hostile_samples_stay_in_their_cell() {
    assert_eq!(code("a|b"), "`a\\|b`");
    assert_eq!(code("gcc `x`"), "`` gcc `x` ``");
    assert_eq!(shortened("first second", 8), "first…");
    assert_eq!(shortened("first\nsecond", 80), "first…");
    assert_eq!(
        shortened("symbol _Z16cudnnGeneric", 20),
        "symbol _Z16cudnnGene…"
    );
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    let groups = groups();
    let of_kind = |kind: ErrorKind| errors().iter().filter(move |row| row.kind == kind);
    let mut last = "";
    for row in of_kind(ErrorKind::Root) {
        let group = groups[&row.id].as_str();
        if group != last {
            page.push_str(&format!("\n## {group}\n\n"));
            last = group;
        }
        page.push_str(&line(row));
    }
    page.push_str("\n## Consequences and general messages\n\n");
    page.push_str(
        "Another message of the log often says more: `cudarun diagnose` looks for it first.\n\n",
    );
    for row in of_kind(ErrorKind::Symptom).chain(of_kind(ErrorKind::Clue)) {
        page.push_str(&line(row));
    }
    page.push_str("\n## Harmless messages\n\nThey also appear in programs that work.\n\n");
    for row in of_kind(ErrorKind::Harmless) {
        page.push_str(&format!("- {}\n", messages(row)));
    }
    page.push_str(CAUSES);
    page.push_str(&explained());
    page
}

/// The causes of all messages, by name, once each.
fn explained() -> String {
    let mut lines = BTreeMap::new();
    for row in errors()
        .iter()
        .filter(|row| row.kind != ErrorKind::Harmless)
    {
        let message = message(row);
        for possible in &row.cause {
            let (_, cure) = possible_cause(&message, possible);
            let meaning = possible.cause.sentence_about("…");
            let end = if cure.is_empty() { "" } else { " → " };
            let line = format!("- {}: {meaning}{end}{cure}\n", name(possible.cause));
            lines.insert(name(possible.cause), line);
        }
    }
    lines.into_values().collect()
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

fn line(row: &ErrorRow) -> String {
    let causes: Vec<String> = row
        .cause
        .iter()
        .map(|possible| name(possible.cause))
        .collect();
    format!("- {}: {}\n", messages(row), causes.join(", "))
}

/// A fault as JSON and profiles/faults.toml name it.
fn name(fault: Fault) -> String {
    let name = serde_json::to_value(fault).unwrap();
    name.as_str().unwrap().to_owned()
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
            usual_cause(row)
        ));
    }
    text
}

/// The faults that `doctor` reports, in the order of its page.
fn findings() -> String {
    let word = |value: serde_json::Value| value.as_str().unwrap().to_owned();
    let mut text = String::new();
    for section in Section::ALL {
        for row in faults().iter().filter(|row| row.section == Some(section)) {
            let name = name(row.name);
            let severities = row.severity.iter();
            let severities: Vec<String> = severities
                .map(|severity| word(serde_json::to_value(severity).unwrap()))
                .collect();
            let says = if row.here.is_empty() || row.here.starts_with('{') {
                &row.says
            } else {
                &row.here
            };
            let (says, _) = filled(says, &[]);
            let note = if row.note.is_empty() {
                String::new()
            } else {
                format!("; {}", row.note)
            };
            let severities = severities.join(", ");
            text.push_str(&format!("- `{name}`, {severities}: {says}{note}\n"));
        }
    }
    text
}

/// Each sample on a line of its own.
fn messages(row: &ErrorRow) -> String {
    let samples: Vec<String> = row
        .sample
        .iter()
        .map(|sample| quoted(&shortened(sample, LONGEST_MESSAGE)))
        .collect();
    format!("<a id=\"{}\"></a>{}", row.id, samples.join("\\\n  "))
}

fn usual_cause(row: &ErrorRow) -> String {
    let (sentence, _) = possible_cause(&message(row), &row.cause[0]);
    sentence.replace('|', "\\|")
}

/// The first sample as `cudarun diagnose` reads it.
fn message(row: &ErrorRow) -> Message {
    let mut reading = LogReader::default();
    reading.take(row.sample[0].as_bytes());
    let messages = reading.messages();
    messages
        .into_iter()
        .find(|message| message.row.id == row.id)
        .unwrap_or_else(|| panic!("{}", row.id))
}

/// The first line, cut at a space, or inside of a long symbol or path.
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
        .filter(|(_, rest)| rest.chars().count() < LONG_WORD)
        .map_or(cut.as_str(), |(words, _)| words);
    format!("{}…", words.trim_end())
}

/// A code span in a cell of a table.
fn code(text: &str) -> String {
    quoted(&text.replace('|', "\\|"))
}

fn quoted(text: &str) -> String {
    if text.contains('`') {
        format!("`` {text} ``")
    } else {
        format!("`{text}`")
    }
}
