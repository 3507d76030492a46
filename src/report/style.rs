//! Colour, when it is wanted, and columns. Meaning is never in colour alone.

use std::ffi::OsStr;

use clap::ColorChoice;

/// How text is to look.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    color: bool,
}

impl Style {
    /// `auto` is colour on a terminal, unless `NO_COLOR` is set to something or the terminal is dumb.
    pub fn new(
        choice: ColorChoice,
        is_terminal: bool,
        no_color: Option<&OsStr>,
        term: Option<&OsStr>,
    ) -> Style {
        let color = match choice {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => {
                is_terminal && no_color.is_none_or(OsStr::is_empty) && term.is_none_or(|term| term != "dumb")
            }
        };
        Style { color }
    }

    pub(super) fn error(self, text: &str) -> String {
        self.paint("1;31", text)
    }

    pub(super) fn warning(self, text: &str) -> String {
        self.paint("1;33", text)
    }

    pub(super) fn hint(self, text: &str) -> String {
        self.paint("1;36", text)
    }

    pub(super) fn good(self, text: &str) -> String {
        self.paint("32", text)
    }

    pub(super) fn strong(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub(super) fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Rows in columns, two blanks between, the last column ragged. A prefix stands before each row.
pub(super) fn columns(prefix: &str, rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| visible_width(cell)).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = prefix.to_owned();
        for (column, cell) in row.iter().enumerate() {
            line.push_str(cell);
            line.push_str(&" ".repeat(widths[column] - visible_width(cell) + 2));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Characters that take room: escape sequences do not.
fn visible_width(text: &str) -> usize {
    if text.is_ascii() && !text.contains('\x1b') {
        return text.len();
    }
    let mut width = 0;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character == '\x1b' {
            characters.by_ref().find(|c| *c == 'm');
        } else {
            width += 1;
        }
    }
    width
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_whatever_their_colour() {
        let style = Style { color: true };
        let rows = vec![vec!["a".into(), style.good("bb"), "c".into()], vec!["aaa".into(), "b".into()]];
        assert_eq!(columns("  ", &rows), "  a    \x1b[32mbb\x1b[0m  c\n  aaa  b\n");
    }

    #[test]
    fn terminals_get_colour_unless_a_variable_forbids_it() {
        let wants = |choice, terminal, no_color: Option<&str>| {
            Style::new(choice, terminal, no_color.map(OsStr::new), None).color
        };
        assert!(wants(ColorChoice::Auto, true, None) && wants(ColorChoice::Auto, true, Some("")));
        assert!(!wants(ColorChoice::Auto, true, Some("1")) && !wants(ColorChoice::Auto, false, None));
        assert!(wants(ColorChoice::Always, false, Some("1")) && !wants(ColorChoice::Never, true, None));
    }
}
