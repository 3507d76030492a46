//! Colour, columns and the layout of pages. Colour never carries meaning alone.

use std::cmp::Reverse;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use anstream::AutoStream;
use anstream::adapter::strip_str;
use anstream::stream::RawStream;
use anstyle::AnsiColor::{Cyan, Green, Red, Yellow};
use clap::ColorChoice;
use terminal_size::{Width, terminal_size_of};
use unicode_width::UnicodeWidthStr;

use crate::host::{self, Host};
use crate::text::show;

/// The width of a page that goes to no terminal.
const PIPED: usize = 100;
const NARROWEST: usize = 40;
/// Wide enough for every line: a message in a log stays on one line.
const UNLIMITED: usize = 1 << 20;
/// A column with less room than this begins below the row.
const NARROW: usize = 24;
/// How far the rest of a line is moved.
const INDENT: usize = 4;
/// Digits of a SHA-256, and as many of them as are shown.
const SHA256: usize = 64;
const SHOWN_DIGITS: usize = 8;
/// The words before a command to type.
const ACTIONS: [&str; 4] = ["next:", "hint:", "do:", "or:"];

/// The command for this machine.
const HERE: &str = "cudarun";
/// The beginning of commands for the machine of a description.
pub(super) const SSH: &str = "ssh ";

/// The looks of text: coloured or plain, its width, and the directories whose paths are shortened.
#[derive(Clone, Copy, Debug)]
pub struct Style<'h> {
    color: bool,
    pub is_terminal: bool,
    width: usize,
    home: Option<&'h Path>,
    cwd: Option<&'h Path>,
    /// The beginning of a command for the machine of the page.
    command: &'h str,
}

impl Default for Style<'_> {
    fn default() -> Self {
        Style {
            color: false,
            is_terminal: false,
            width: UNLIMITED,
            home: None,
            cwd: None,
            command: HERE,
        }
    }
}

impl<'h> Style<'h> {
    pub fn stdout(choice: ColorChoice) -> Style<'h> {
        Style::on(&io::stdout(), choice, PIPED)
    }

    pub fn stderr(choice: ColorChoice) -> Style<'h> {
        Style::on(&io::stderr(), choice, UNLIMITED)
    }

    /// `auto` depends on the terminal, `NO_COLOR`, `FORCE_COLOR`, `CLICOLOR_FORCE`, `CLICOLOR` and `TERM` of this process.
    fn on<S: RawStream + AsFd>(stream: &S, choice: ColorChoice, piped: usize) -> Style<'h> {
        let color = match choice {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => match host::variable("FORCE_COLOR").as_deref() {
                Some("0" | "false") => false,
                Some(_) if host::variable("NO_COLOR").is_none() => true,
                _ => AutoStream::choice(stream) != anstream::ColorChoice::Never,
            },
        };
        let set = host::variable("COLUMNS").and_then(|columns| columns.parse().ok());
        let width = set
            .filter(|width| *width > 0)
            .or_else(|| terminal_size_of(stream).map(|(Width(width), _)| width.into()))
            .unwrap_or(piped);
        Style {
            color,
            is_terminal: stream.is_terminal(),
            width: width.max(NARROWEST),
            ..Style::default()
        }
    }

    /// For a page in a file.
    pub fn for_file(self, color: bool) -> Style<'h> {
        Style {
            color,
            is_terminal: false,
            width: PIPED,
            ..self
        }
    }

    /// Shortens the paths of a machine, which may not be this one.
    pub fn of(self, host: &'h Host) -> Style<'h> {
        let home = host.env.non_empty("HOME").map(Path::new);
        Style {
            home,
            cwd: Some(&host.cwd),
            command: if host.named_by.is_empty() {
                HERE
            } else {
                &host.named_by
            },
            ..self
        }
    }

    /// For the page of a description, which has one name for every home.
    pub fn described(self, command: &'h str, home: &'h str) -> Style<'h> {
        Style {
            home: Some(Path::new(home)),
            command,
            ..self
        }
    }

    /// Removes the styles from styled text if colour is off.
    pub fn adapt(self, text: String) -> String {
        if self.color {
            text
        } else {
            strip_str(&text).to_string()
        }
    }

    pub(super) fn error(self, text: &str) -> String {
        self.paint(Red.on_default().bold(), text)
    }

    pub(super) fn warning(self, text: &str) -> String {
        self.paint(Yellow.on_default().bold(), text)
    }

    pub fn hint(self, text: &str) -> String {
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

    /// The last line of a page: the command to type, for the machine of the page.
    pub(super) fn next(self, command: &str) -> String {
        format!("\n{} {}\n", self.hint("next:"), self.there(command))
    }

    /// A command of cudarun's, for the machine of the page.
    pub(super) fn there(self, command: &str) -> String {
        command.replacen(HERE, self.command, 1)
    }

    /// A remedy or a remark with commands. Those for the machine of a description are typed there.
    pub(super) fn on_node(self, text: &str) -> String {
        let Some((node, _)) = self
            .command
            .strip_prefix(SSH)
            .and_then(|rest| rest.split_once(' '))
        else {
            return text.to_owned();
        };
        let quoted = text.replace("`cudarun ", &format!("`{} ", self.command));
        match text.strip_prefix("cudarun ") {
            Some(rest) => format!("{} {rest}", self.command),
            None if quoted != text => quoted,
            None => format!("on {node}: {text}"),
        }
    }

    /// True for a page about another machine, where nothing can be started.
    pub(super) fn is_elsewhere(self) -> bool {
        self.command != HERE
    }

    fn paint(self, style: anstyle::Style, text: &str) -> String {
        if self.color {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }

    /// The layout of a page: paths below the home and the current directory are shortened, and each line that is wider
    /// than the terminal is folded between words.
    pub fn page(self, text: &str) -> String {
        let mut page = String::with_capacity(text.len());
        for line in self.shortened(text).split_inclusive('\n') {
            if visible_width(line) <= self.width {
                page.push_str(line);
                continue;
            }
            let blanks = line.len() - line.trim_start_matches(' ').len();
            let mut folded = line[..blanks].to_owned();
            let near = blanks + INDENT;
            let hang = second_column(line)
                .filter(|column| *column < self.width / 3)
                .unwrap_or(near);
            self.fold(&mut folded, hang, near, &line[blanks..]);
            page.push_str(&folded);
        }
        page
    }

    /// Rows in columns, two blanks between. Each row begins with a prefix, and a long cell is folded under itself.
    pub(super) fn columns(self, prefix: &str, rows: &[Vec<String>]) -> String {
        let rows: Vec<Vec<String>> = rows
            .iter()
            .map(|row| row.iter().map(|cell| self.shortened(cell)).collect())
            .collect();
        let starts = self.starts(prefix.len(), &rows);
        let near = prefix.len() + INDENT;
        let mut text = String::new();
        for row in &rows {
            let mut line = prefix.to_owned();
            for (column, cell) in row.iter().enumerate() {
                if cell.is_empty() {
                    continue;
                }
                let (start, end) = (starts[column], width_of_last_line(&line));
                // A row that has gone on below stays there.
                let last = last_line(&line);
                let is_below =
                    last.len() < line.len() && last.len() - last.trim_start().len() == near;
                let longest = unbroken(cell)
                    .iter()
                    .map(|word| visible_width(word.trim_end()))
                    .max();
                let room = self.width.saturating_sub(start);
                let is_narrow = room < longest.unwrap_or(0).max(NARROW);
                let hang = if is_below || is_narrow { near } else { start };
                let is_wide = hang < start && start + visible_width(cell) > self.width;
                if column > 0 && (is_below || end + 2 > start || is_wide) {
                    begin_line(&mut line, hang);
                } else {
                    line.push_str(&" ".repeat(start - end));
                }
                self.fold(&mut line, hang, near, cell);
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    /// Where each column starts, behind a prefix of this width.
    fn starts(self, prefix: usize, rows: &[Vec<String>]) -> Vec<usize> {
        let mut starts = vec![prefix];
        for column in 0..rows.iter().map(Vec::len).max().unwrap_or(0) {
            let mut widest = 0;
            for row in rows.iter().filter(|row| column + 1 < row.len()) {
                let width = visible_width(&row[column]);
                // A wide cell moves the next one below itself, in its own row only.
                if width <= self.width * 3 / 5 {
                    widest = widest.max(width);
                }
            }
            starts.push(starts[column] + widest + 2);
        }
        starts
    }

    /// Appends words, and begins a line at `hang` where the next word does not fit. A word that is too long for that
    /// place moves to `near`.
    fn fold(self, text: &mut String, hang: usize, near: usize, words: &str) {
        // Of the last line, whose length may be that of the whole text.
        let mut end = width_of_last_line(text);
        let mut is_begun = is_begun(text);
        for word in unbroken(words) {
            let width = visible_width(word.trim_end());
            let target = if hang + width > self.width {
                near
            } else {
                hang
            };
            if end + width > self.width && (is_begun || end > target) {
                begin_line(text, target);
                (end, is_begun) = (target, false);
            }
            text.push_str(word);
            if word.contains('\n') {
                (end, is_begun) = (0, false);
            }
            end += width_of_last_line(word);
            is_begun |= self::is_begun(word);
        }
    }

    /// Writes `./…` and `~/…` where a path begins a word. Within quotes, a shell would not understand them. On a terminal,
    /// a path has only the first digits of a SHA-256.
    fn shortened(self, text: &str) -> String {
        let mut text = if self.is_terminal {
            let mut lines = String::with_capacity(text.len());
            for line in text.split_inclusive('\n') {
                if is_action(line) {
                    lines.push_str(line);
                } else {
                    lines.push_str(&without_digits(line));
                }
            }
            lines
        } else {
            text.to_owned()
        };
        let mut directories = [(self.cwd, "./"), (self.home, "~/")];
        directories.sort_by_key(|(path, _)| Reverse(path.map_or(0, |path| path.as_os_str().len())));
        for (path, short) in directories {
            let long = path.map(show).unwrap_or_default() + "/";
            // Not the root, of which nothing is longer.
            if long.len() <= 2 {
                continue;
            }
            let mut parts = text.split(&long);
            let first = parts.next().unwrap_or_default();
            let mut short_text = first.to_owned();
            let mut before = last_character(first);
            for part in parts {
                let begins = before.is_none_or(|before| " (`:,".contains(before));
                short_text.push_str(if begins { short } else { &long });
                short_text.push_str(part);
                before = last_character(part);
                if before.is_none() && !part.contains('\n') {
                    before = Some('/');
                }
            }
            text = short_text;
        }
        text
    }
}

/// The column of the text behind the first gap of a line in columns, as help pages have it.
fn second_column(line: &str) -> Option<usize> {
    let plain = strip_str(line).to_string();
    let text = plain.trim_start_matches(' ');
    let gap = text.find("  ")?;
    let behind = text[gap..].trim_start_matches(' ');
    Some(visible_width(&plain[..plain.len() - behind.len()]))
}

fn begin_line(text: &mut String, blanks: usize) {
    text.truncate(text.trim_end_matches(' ').len());
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(&" ".repeat(blanks));
}

/// The words of a text, each with the blank after it. A command in backticks is one word, and so is a text in quotes. An
/// action is divided only after punctuation, so that a person can paste each part.
fn unbroken(text: &str) -> Vec<&str> {
    let is_action = is_action(text);
    // Found once: a search for each word would take the square of the time for a line of megabytes.
    let last = ['`', '"', '\''].map(|quote| text.rfind(quote));
    let (mut words, mut begin, mut end) = (Vec::new(), 0, 0);
    let mut quote = None;
    for word in text.split_inclusive(' ') {
        end += word.len();
        quote = open_quote(word, quote);
        let closing = match quote {
            None => None,
            Some('`') => last[0],
            Some('"') => last[1],
            Some(_) => last[2],
        };
        let is_closed = closing.is_none_or(|place| place < end);
        let is_part = !is_action
            || strip_str(word)
                .to_string()
                .trim_end()
                .ends_with([',', ';', ':']);
        if is_closed {
            quote = None;
        }
        if is_closed && is_part {
            words.push(&text[begin..end]);
            begin = end;
        }
    }
    words.extend(Some(&text[begin..]).filter(|rest| !rest.is_empty()));
    words
}

fn last_line(text: &str) -> &str {
    text.rsplit('\n').next().unwrap_or_default()
}

/// The quote that is open after a word, if `quote` is open before it. An apostrophe within a word opens none.
fn open_quote(word: &str, mut quote: Option<char>) -> Option<char> {
    let mut before = ' ';
    for character in strip_str(word).to_string().chars() {
        match quote {
            Some(open) if character == open => quote = None,
            None if character == '`' => quote = Some(character),
            None if "'\"".contains(character) && !before.is_alphanumeric() && before != '\\' => {
                quote = Some(character);
            }
            _ => {}
        }
        before = character;
    }
    quote
}

/// True for a line that a person may type, behind its label.
fn is_action(line: &str) -> bool {
    let line = strip_str(line).to_string();
    ACTIONS
        .iter()
        .any(|label| line.trim_start().starts_with(label))
}

/// Shortens the SHA-256 in paths of the store to its first digits, but not in a command.
fn without_digits(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut is_quoted = false;
    for part in line.split_inclusive('/') {
        let digits = part.bytes().take_while(u8::is_ascii_hexdigit).count();
        if digits == SHA256 && text.ends_with('/') && !is_quoted {
            text.push_str(&part[..SHOWN_DIGITS]);
            text.push('…');
            text.push_str(&part[SHA256..]);
        } else {
            text.push_str(part);
        }
        is_quoted ^= part.matches('`').count() % 2 == 1;
    }
    text
}

fn width_of_last_line(text: &str) -> usize {
    visible_width(last_line(text))
}

/// True if the last line has more than blanks.
fn is_begun(text: &str) -> bool {
    !last_line(text).trim().is_empty()
}

/// The last visible character of the last line.
fn last_character(text: &str) -> Option<char> {
    strip_str(last_line(text)).flat_map(str::chars).last()
}

/// Cells of a terminal that the text fills; escape sequences fill none.
fn visible_width(text: &str) -> usize {
    strip_str(text.trim_end_matches('\n'))
        .map(UnicodeWidthStr::width)
        .sum()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use nix::time::{ClockId, clock_gettime};

    use super::*;

    #[test]
    fn columns_line_up_with_colours_and_wide_characters() {
        let style = Style {
            color: true,
            ..Style::default()
        };
        let rows = vec![
            vec!["a".into(), style.good("bb"), "c".into()],
            vec!["aaa".into(), "b".into()],
        ];
        assert_eq!(
            style.columns("  ", &rows),
            "  a    \x1b[32mbb\x1b[0m  c\n  aaa  b\n"
        );
        let rows = vec![
            vec!["図書".into(), "c".into()],
            vec!["e\u{301}".into(), "b".into()],
        ];
        assert_eq!(style.columns("", &rows), "図書  c\ne\u{301}     b\n");
    }

    #[test]
    fn styles_are_removed_without_colour() {
        let plain = Style::default();
        let coloured = Style {
            color: true,
            ..Style::default()
        };
        assert_eq!(plain.error("no"), "no");
        assert_eq!(plain.adapt(coloured.error("no")), "no");
        assert_eq!(coloured.adapt(coloured.hint("yes")), coloured.hint("yes"));
        assert_ne!(coloured.hint("yes"), "yes", "the control");
    }

    #[test]
    fn cells_are_folded_under_themselves_and_no_word_is_broken() {
        let style = Style {
            width: 40,
            ..Style::default()
        };
        let rows = [
            row(["a", "one two three four five six seven eight"]),
            row(["bb", "nine"]),
        ];
        let folded = "  a   one two three four five six seven\n      eight\n  bb  nine\n";
        assert_eq!(style.columns("  ", &rows), folded);
        let path = "/a/path/that/is/much/longer/than/the/whole/line";
        let rows = [
            row(["cuDNN", path, "why"]),
            row(["cuBLAS", "/short", "why"]),
        ];
        let folded = format!("  cuDNN\n      {path}\n      why\n  cuBLAS  /short  why\n");
        assert_eq!(style.columns("  ", &rows), folded);
        assert_eq!(style.page(&folded), folded, "a second time");
        let rows = [row(["図図図図図図図図図図図図 図図図図図図図図図図", "x"])];
        assert!(
            style
                .columns("", &rows)
                .lines()
                .all(|line| visible_width(line) <= 40)
        );
    }

    fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
        cells.map(str::to_owned).to_vec()
    }

    #[test]
    fn commands_to_type_are_divided_after_punctuation_only() {
        let style = Style {
            width: 40,
            color: true,
            ..Style::default()
        };
        let command = "pip install --force-reinstall --no-deps \"nvidia-cudnn-cu12==9.1\"";
        let page = style.page(&format!("{} {command}; then go on\n", style.hint("hint:")));
        assert_eq!(
            strip_str(&page).to_string(),
            format!("hint:\n    {command};\n    then go on\n")
        );
        let quoted = "cudarun --require 'cudnn>=9, <10 or so' python3 train.py";
        let page = style.page(&format!("{} {quoted}\n", style.hint("hint:")));
        assert_eq!(
            strip_str(&page).to_string(),
            format!("hint:\n    {quoted}\n")
        );
        let apostrophe = "hint: the program's own, which is not ours; so the user's\n";
        assert_eq!(
            style.page(apostrophe),
            "hint: the program's own,\n    which is not ours; so the user's\n"
        );
        let page = style.page("text: this line is long, see `cudarun list -v --all cudnn`\n");
        assert_eq!(
            page,
            "text: this line is long, see\n    `cudarun list -v --all cudnn`\n"
        );
    }

    #[test]
    fn the_digits_of_a_store_are_shortened_on_a_terminal_only() {
        let hash = "0123456789abcdef".repeat(4);
        let pipe = Style::default();
        let terminal = Style {
            is_terminal: true,
            ..pipe
        };
        let whole = format!("cuDNN /s/{hash}/nvidia/lib\n");
        assert_eq!(terminal.page(&whole), "cuDNN /s/01234567…/nvidia/lib\n");
        assert_eq!(
            terminal.columns("", &[vec![format!("/s/{hash}")]]),
            "/s/01234567…\n"
        );
        for kept in [
            format!("next: cudarun --also /s/{hash}/nvidia/lib\n"),
            format!("`rm -r /s/{hash}/x` /s/{}\n", &hash[1..]),
            format!("sha256 {hash}\n"),
        ] {
            assert_eq!(terminal.page(&kept), kept);
        }
        assert_eq!(pipe.page(&whole), whole);
    }

    #[test]
    fn paths_are_shortened_where_a_shell_understands_them() {
        let (home, cwd) = (Path::new("/home/me"), Path::new("/home/me/p"));
        let style = Style {
            home: Some(home),
            cwd: Some(cwd),
            ..Style::default()
        };
        for (long, short) in [
            (
                "/home/me/p/a.py and /home/me/b:/home/me/p/c",
                "./a.py and ~/b:./c",
            ),
            ("`/home/me/x` (/home/me/y)", "`~/x` (~/y)"),
            (
                "'/home/me/x' \"/home/me/x\" --also=/home/me/x",
                "'/home/me/x' \"/home/me/x\" --also=/home/me/x",
            ),
            (
                "/home/me /home/meg/x /mnt/home/me/x",
                "/home/me /home/meg/x /mnt/home/me/x",
            ),
        ] {
            assert_eq!(style.page(long), short);
        }
        let root = Path::new("/");
        let style = Style {
            home: Some(root),
            cwd: Some(root),
            ..Style::default()
        };
        assert_eq!(style.page("/usr/lib"), "/usr/lib");
    }

    /// A list from a file may be a line of megabytes, and it is folded. Returns how often as long four times the text takes.
    fn factor_of_four(piece: &str, end: &str, in_columns: bool) -> f64 {
        let [long, short] = [8_000, 2_000].map(|count| {
            let text = piece.repeat(count) + end;
            let style = Style {
                width: text.len() - 8,
                home: Some(Path::new("/h")),
                ..Style::default()
            };
            let mut best = Duration::MAX;
            for _ in 0..3 {
                let begun = now();
                if in_columns {
                    style.columns("  ", &[vec!["a".into(), text.clone(), "b".into()]]);
                } else {
                    style.page(&text);
                }
                best = best.min(now().checked_sub(begun).unwrap());
            }
            best.as_secs_f64()
        });
        long / short
    }

    /// The time of the processor for this thread: other work on the machine counts little.
    fn now() -> Duration {
        clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
            .unwrap()
            .into()
    }

    #[test]
    fn the_time_grows_with_the_length_of_a_line_and_no_faster() {
        for (piece, end) in [
            ("word ", "end wider than the page"),
            ("`code` ", "end wider than the page"),
            ("in quotes ", "` end wider than the page"),
            ("/h/x ", "/h/y wider than the page"),
            ("\u{1b}[1mbold\u{1b}[0m ", "end wider than the page"),
        ] {
            let text = format!("`{piece}");
            let pieces = if end.starts_with('`') { &text } else { piece };
            for in_columns in [false, true] {
                let factor = factor_of_four(pieces, end, in_columns);
                // Four, or sixteen if each word looked at the whole line.
                assert!(factor < 9.0, "{piece}: {factor}");
            }
        }
    }
}
