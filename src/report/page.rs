//! The page of a terminal as a file: HTML to look at, or Markdown for a bug report.

use std::path::Path;

use anstream::adapter::strip_str;

use crate::text::{is_hostile, show};

/// Every page begins with it.
pub const PAGE_BEGIN: &str = "<!DOCTYPE html>\n<!-- A page of cudarun -->\n";
const STYLE: &str = include_str!("page.css");

/// One HTML file, without scripts and without anything from elsewhere: the first lines of a page, pictures as SVG, and the rest.
pub fn html(page: &str, pictures: &str) -> String {
    let (begin, rest) = page.split_once("\n\n").unwrap_or((page, ""));
    let title = strip_str(begin).to_string();
    format!(
        "{PAGE_BEGIN}<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <pre>{}</pre>\n{pictures}<pre>{}</pre>\n<p>cudarun {}</p>\n</body>\n</html>\n",
        escape(title.lines().next().unwrap_or_default()),
        coloured(begin),
        coloured(rest),
        env!("CARGO_PKG_VERSION"),
    )
}

/// A block of code that no line of the page ends.
pub fn markdown(page: &str) -> String {
    let runs = page.split(|character| character != '`').map(str::len);
    let fence = "`".repeat(runs.max().unwrap_or(0).max(2) + 1);
    let version = env!("CARGO_PKG_VERSION");
    format!("{fence}text\n{page}{fence}\n\ncudarun {version}\n")
}

/// A line about a page that was written.
pub fn page_written(file: &Path) -> String {
    format!("{} is the page: open it in a browser", show(file))
}

/// Each colour of a terminal as an element.
fn coloured(page: &str) -> String {
    let mut pieces = page.split('\u{1b}');
    let mut html = escape(pieces.next().unwrap_or_default());
    let mut open = 0;
    for piece in pieces {
        let (code, text) = piece.split_once('m').unwrap_or((piece, ""));
        let class = match code {
            "[1" => "strong",
            "[2" => "dim",
            "[31" => "bad",
            "[32" => "good",
            "[33" => "warning",
            "[36" => "hint",
            _ => "",
        };
        if class.is_empty() {
            html.push_str(&"</span>".repeat(open));
            open = 0;
        } else {
            html.push_str(&format!("<span class=\"{class}\">"));
            open += 1;
        }
        html.push_str(&escape(text));
    }
    html
}

/// Text of a machine in HTML and SVG: it cannot become markup.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' => escaped.push('\n'),
            // No control character, and none that turns the direction of text, is in a page.
            other if is_hostile(other) => escaped.extend(other.escape_unicode()),
            other => escaped.push(other),
        }
    }
    escaped
}
