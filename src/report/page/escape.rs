//! Text in HTML and SVG.

use crate::text::is_hostile;

/// Text of a machine in a page: it cannot become markup.
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
