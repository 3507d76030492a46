//! Colour and columns. Colour never carries meaning alone.

use std::io;

use anstream::AutoStream;
use anstream::adapter::strip_str;
use anstream::stream::RawStream;
use anstyle::AnsiColor::{Cyan, Green, Red, Yellow};
use clap::ColorChoice;
use unicode_width::UnicodeWidthStr;

/// The looks of text: coloured or plain.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    color: bool,
}

impl Style {
    pub fn stdout(choice: ColorChoice) -> Style {
        Style::on(&io::stdout(), choice)
    }

    pub fn stderr(choice: ColorChoice) -> Style {
        Style::on(&io::stderr(), choice)
    }

    /// `auto` depends on the terminal, `NO_COLOR`, `CLICOLOR_FORCE`, `CLICOLOR` and `TERM` of this process.
    fn on<S: RawStream>(stream: &S, choice: ColorChoice) -> Style {
        let color = match choice {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => AutoStream::choice(stream) != anstream::ColorChoice::Never,
        };
        Style { color }
    }

    /// Removes the styles from styled text if colour is off.
    pub fn adapt(self, text: String) -> String {
        if self.color { text } else { strip_str(&text).to_string() }
    }

    pub(super) fn error(self, text: &str) -> String {
        self.paint(Red.on_default().bold(), text)
    }

    pub(super) fn warning(self, text: &str) -> String {
        self.paint(Yellow.on_default().bold(), text)
    }

    pub(super) fn hint(self, text: &str) -> String {
        self.paint(Cyan.on_default().bold(), text)
    }

    pub(super) fn good(self, text: &str) -> String {
        self.paint(Green.on_default(), text)
    }

    pub(super) fn strong(self, text: &str) -> String {
        self.paint(anstyle::Style::new().bold(), text)
    }

    pub(super) fn dim(self, text: &str) -> String {
        self.paint(anstyle::Style::new().dimmed(), text)
    }

    fn paint(self, style: anstyle::Style, text: &str) -> String {
        if self.color { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }
}

/// Rows in columns, two blanks between, the last column ragged. Each row begins with a prefix.
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

/// Cells of a terminal that the text fills; escape sequences fill none.
fn visible_width(text: &str) -> usize {
    strip_str(text).map(UnicodeWidthStr::width).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_with_colours_and_wide_characters() {
        let style = Style { color: true };
        let rows = vec![vec!["a".into(), style.good("bb"), "c".into()], vec!["aaa".into(), "b".into()]];
        assert_eq!(columns("  ", &rows), "  a    \x1b[32mbb\x1b[0m  c\n  aaa  b\n");
        let rows = vec![vec!["図書".into(), "c".into()], vec!["e\u{301}".into(), "b".into()]];
        assert_eq!(columns("", &rows), "図書  c\ne\u{301}     b\n");
    }

    #[test]
    fn styles_are_removed_without_colour() {
        let plain = Style { color: false };
        let coloured = Style { color: true };
        assert_eq!(plain.error("no"), "no");
        assert_eq!(plain.adapt(coloured.error("no")), "no");
        assert_eq!(coloured.adapt(coloured.hint("yes")), coloured.hint("yes"));
        assert_ne!(coloured.hint("yes"), "yes", "the control");
    }
}
