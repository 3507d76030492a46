//! A page as Markdown, for a bug report.

use super::model::{Page, Part};
use crate::text::show;

pub fn markdown(page: &Page) -> String {
    let mut text = format!(
        "## {}\n\n**{}**\n",
        plain(&page.title),
        plain(&page.verdict)
    );
    for section in &page.sections {
        text.push_str(&format!("\n### {}\n\n", plain(&section.title)));
        for part in &section.parts {
            text.push_str(&self::part(part));
        }
    }
    text.push_str(&format!("\ncudarun {}\n", env!("CARGO_PKG_VERSION")));
    text
}

fn part(part: &Part) -> String {
    match part {
        Part::Picture(picture) => {
            let head = ["library", "version", "from", "problem"].map(str::to_owned);
            format!(
                "{}\n\n{}",
                plain(picture.title()),
                table(&head, &picture.rows())
            )
        }
        Part::Table { head, rows } if head.is_empty() => {
            let empty = vec![String::new(); rows.iter().map(Vec::len).max().unwrap_or(1)];
            table(&empty, rows)
        }
        Part::Table { head, rows } => table(head, rows),
        Part::Finding(finding) => {
            let mut text = format!("- **{}** {}\n", plain(&finding.label), plain(&finding.text));
            for line in &finding.evidence {
                text.push_str(&format!("  - {}\n", plain(line)));
            }
            for remedy in &finding.remedies {
                text.push_str(&format!("\n{}", code(remedy, "  ")));
            }
            text
        }
        Part::Commands(commands) => commands.iter().map(|command| code(command, "")).collect(),
        Part::Text(text) => format!("{}\n", plain(text)),
    }
}

/// A block of code that no line of it ends.
fn code(command: &str, indent: &str) -> String {
    let longest = command.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let lines: String = command
        .lines()
        .map(|line| format!("{indent}{}\n", show(line)))
        .collect();
    format!("{indent}{fence}\n{lines}{indent}{fence}\n")
}

fn table(head: &[String], rows: &[Vec<String>]) -> String {
    let row = |cells: &[String]| {
        format!(
            "| {} |\n",
            cells
                .iter()
                .map(|cell| plain(cell))
                .collect::<Vec<_>>()
                .join(" | ")
        )
    };
    let line = format!("|{}\n", "---|".repeat(head.len()));
    let rows: String = rows.iter().map(|cells| row(cells)).collect();
    format!("{}{line}{rows}\n", row(head))
}

/// Text of a machine: it cannot become markup, a row or a link.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => plain.push_str("&amp;"),
            '<' => plain.push_str("&lt;"),
            '>' => plain.push_str("&gt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '@' | '!' => {
                plain.extend(['\\', character]);
            }
            '\n' | '\r' | '\t' => plain.push(' '),
            other if crate::text::is_hostile(other) => plain.extend(other.escape_unicode()),
            other => plain.push(other),
        }
    }
    plain
}
