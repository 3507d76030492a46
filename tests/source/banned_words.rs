//! Plain English: comments, messages, help texts and documents avoid some words and some openings of sentences.
//!
//! Code spans, fenced blocks and text in double quotes are exempt, since they quote identifiers and output. To list
//! every offender: `cargo test --locked banned`.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use clap::CommandFactory;

/// No sentence starts with these.
const OPENINGS: &[&str] = &["What", "Whether", "Of", "Who", "Where", "The same"];

/// No sentence contains these, in lower or upper case.
const WORDS: &[&str] = &[
    "nobody",
    "somebody",
    "whoever",
    "stand",
    "stands",
    "is none of",
    "in any case",
    "it comes to",
];

/// No sentence has one of these up to three words before "away".
const TAKE: &[&str] = &["take", "takes", "taken", "taking", "took"];

struct Offence {
    place: String,
    word: &'static str,
    text: String,
}

impl fmt::Display for Offence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text: String = self.text.chars().take(120).collect();
        write!(formatter, "{}: {}: {text}", self.place, self.word)
    }
}

#[test]
fn texts_have_no_banned_words() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut offences = help_texts();
    for file in files(root) {
        let name = file.strip_prefix(root).unwrap().display().to_string();
        let Ok(text) = fs::read_to_string(&file) else {
            continue;
        };
        let found = texts(&name, &text)
            .into_iter()
            .flat_map(|block| block.offences());
        offences.extend(found.map(|(line, word, text)| Offence {
            place: format!("{name}:{line}"),
            word,
            text,
        }));
    }
    let lines: Vec<String> = offences.iter().map(ToString::to_string).collect();
    assert!(
        lines.is_empty(),
        "{} offences\n{}",
        lines.len(),
        lines.join("\n")
    );
}

/// A name is read where a test fails, so it is a sentence as well.
#[test]
fn test_names_have_no_banned_words() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut offenders = Vec::new();
    let mut count = 0;
    for file in files(root)
        .into_iter()
        .filter(|file| file.extension().is_some_and(|end| end == "rs"))
    {
        let text = fs::read_to_string(&file).unwrap();
        for after in text.split("#[test]").skip(1) {
            let Some((_, name)) = after.split_once("fn ") else {
                continue;
            };
            let name = name.split('(').next().unwrap();
            count += 1;
            let sentence = Block::new(1, &name.replace('_', " "), true);
            if !sentence.offences().is_empty() {
                offenders.push(format!("{}: {name}", file.display()));
            }
        }
    }
    assert!(count > 600, "{count} tests found");
    assert!(offenders.is_empty(), "{}", offenders.join("\n"));
}

#[test]
fn banned_words_are_found_and_quotations_are_exempt() {
    let found = |name: &str, text: &str| -> Vec<(usize, &str)> {
        let blocks = texts(name, text);
        blocks
            .iter()
            .flat_map(Block::offences)
            .map(|(line, word, _)| (line, word))
            .collect()
    };
    assert_eq!(
        found("a.md", "It is. What is it?\nAnd\nsomebody.\n"),
        [(1, "What"), (3, "somebody")]
    );
    assert_eq!(
        found(
            "a.md",
            "It says \"What is\nsomebody\". `Who` knows, and of it.\n"
        ),
        []
    );
    assert_eq!(
        found("a.md", "```sh\n# What it is\n```\nWhere?\n"),
        [(4, "Where")]
    );
    assert_eq!(
        found("a.md", "| what | Of them |\n|---|---|\n- whether\n"),
        [(1, "Of"), (3, "Whether")]
    );
    assert_eq!(
        found("a.md", "It is\nin any\ncase so. The same goes.\n"),
        [(2, "in any case"), (3, "The same")]
    );
    let away = "It takes the old file\naway. They take up. It is away.\nTaken away.\n";
    assert_eq!(
        found("a.md", away),
        [(1, "take … away"), (3, "take … away")]
    );
    assert_eq!(
        found(
            "a.md",
            "A stand-in and an understanding. Names stand\nthere.\n"
        ),
        [(1, "stand")]
    );
    assert_eq!(
        found("a.rs", "let what = \"Who nobody\"; // of it\n"),
        [(1, "Of")]
    );
    assert_eq!(
        found(
            "a.rs",
            "/// It is\n/// nobody's. 'a\nfn f<'a>(c: 'x') { '\"'; }\n// What\n"
        )
        .len(),
        2
    );
    assert_eq!(
        found("a.rs", "let a = r#\"\" // What \"#; /* Who */\n"),
        [(1, "Who")]
    );
    assert_eq!(
        found(
            "src/report/a.rs",
            "f(\"Of {x} we know\", \"of x\", \"a thing stands\");\n"
        )
        .len(),
        2
    );
    assert_eq!(
        found("a.sh", "echo '# What' # who is it\n# Whose\n"),
        [(1, "Who")]
    );
    assert_eq!(
        found(
            "CHANGELOG.md",
            "## 0.2.0\n- Of it\n## 0.1.0, a day\n- Of it\n"
        ),
        [(2, "Of")]
    );
}

/// One paragraph, list item, table cell, comment or message. `starts` has the offset and the number of each line.
struct Block {
    text: String,
    starts: Vec<(usize, usize)>,
    /// The first word counts in lower case too.
    is_sentence: bool,
}

impl Block {
    fn new(line: usize, text: &str, is_sentence: bool) -> Block {
        Block {
            text: text.trim().to_owned(),
            starts: vec![(0, line)],
            is_sentence,
        }
    }

    fn push(&mut self, line: usize, text: &str) {
        self.text.push(' ');
        self.starts.push((self.text.len(), line));
        self.text.push_str(text.trim());
    }

    fn line(&self, at: usize) -> usize {
        self.starts
            .iter()
            .rev()
            .find(|(start, _)| *start <= at)
            .unwrap()
            .1
    }

    /// Line, word and the sentence from there on.
    fn offences(&self) -> Vec<(usize, &'static str, String)> {
        let text = without_quotations(&self.text);
        let mut found = Vec::new();
        for at in sentence_starts(&text) {
            let opening = OPENINGS.iter().find(|opening| {
                let start = text.get(at..at + opening.len()).unwrap_or_default();
                let is_equal = start == **opening
                    || at == 0 && self.is_sentence && start.eq_ignore_ascii_case(opening);
                is_equal && is_end_of_word(&text, at + opening.len())
            });
            found.extend(
                opening.map(|opening| (self.line(at), *opening, self.text[at..].to_owned())),
            );
        }
        let lower = text.to_ascii_lowercase();
        for word in WORDS {
            for (at, _) in lower.match_indices(word) {
                let is_start = !lower[..at].ends_with(|c: char| c.is_alphanumeric() || c == '-');
                if is_start && is_end_of_word(&lower, at + word.len()) {
                    found.push((self.line(at), word, self.text[at..].to_owned()));
                }
            }
        }
        for (at, _) in lower
            .match_indices(" away")
            .filter(|(at, _)| is_end_of_word(&lower, at + 5))
        {
            let before = lower[..at]
                .rsplit(['.', ';', ':'])
                .next()
                .unwrap_or_default();
            if before
                .split_whitespace()
                .rev()
                .take(4)
                .any(|word| TAKE.contains(&word))
            {
                found.push((self.line(at), "take … away", self.text[at..].to_owned()));
            }
        }
        found.sort_by_key(|(line, ..)| *line);
        found
    }
}

fn is_end_of_word(text: &str, at: usize) -> bool {
    !text[at..].starts_with(|c: char| c.is_alphanumeric() || c == '-' || c == '_')
}

/// Code spans and quotations are overwritten with blanks or underscores, so that offsets stay valid.
fn without_quotations(text: &str) -> String {
    let mut masked = text.to_owned();
    for (open, close) in [('`', '`'), ('"', '"'), ('“', '”')] {
        let mut from = 0;
        while let Some(start) = masked[from..].find(open).map(|at| from + at) {
            let inside = start + open.len_utf8();
            let Some(end) = masked[inside..].find(close).map(|at| inside + at) else {
                break;
            };
            let after = end + close.len_utf8();
            masked.replace_range(start..after, &"_".repeat(after - start));
            from = after;
        }
    }
    masked
}

/// Offsets of the first letters of sentences.
fn sentence_starts(text: &str) -> Vec<usize> {
    let skipped = |at: usize| {
        let rest = text[at..].trim_start_matches([' ', '(', '*', '[']);
        text.len() - rest.len()
    };
    let mut starts = vec![skipped(0)];
    for (at, _) in text.match_indices(['.', '!', '?']) {
        let rest = text[at + 1..].trim_start_matches([')', '*', ']', '.']);
        if rest.starts_with(' ') {
            starts.push(skipped(text.len() - rest.len()));
        }
    }
    starts.dedup();
    starts
}

/// All prose of a file: of a document everything, of code its comments, and of `src/report/` its messages too.
fn texts(name: &str, text: &str) -> Vec<Block> {
    let (_, end) = name.rsplit_once('.').unwrap_or((name, "sh"));
    match end {
        "md" if name == "CHANGELOG.md" => {
            let is_old = |line: &str| line.starts_with("## 0.1") || line.starts_with("## 0.0");
            let lines = text.lines().take_while(|line| !is_old(line));
            paragraphs(lines.enumerate().map(|(index, line)| (index + 1, line)))
        }
        "md" => paragraphs(
            text.lines()
                .enumerate()
                .map(|(index, line)| (index + 1, line)),
        ),
        "rs" | "c" => {
            let (comments, literals, _) = parts(text);
            let mut blocks = grouped(&comments);
            if name.starts_with("src/report/") {
                let tests = text
                    .find("#[cfg(test)]")
                    .map(|at| text[..at].lines().count() + 1);
                let messages = literals
                    .iter()
                    .filter(|(line, _)| tests.is_none_or(|start| *line < start));
                let is_sentence = |text: &str| text.split_whitespace().count() > 3;
                blocks.extend(
                    messages.map(|(line, text)| Block::new(*line, text, is_sentence(text))),
                );
            }
            blocks
        }
        "toml" | "py" | "sh" | "bash" | "zsh" | "fish" | "list" | "yml" | "yaml" => {
            grouped(&comments_after_hash(text))
        }
        _ => Vec::new(),
    }
}

struct Comment<'text> {
    line: usize,
    text: &'text str,
    /// It continues the comment of the line above.
    continues: bool,
}

fn grouped(comments: &[Comment<'_>]) -> Vec<Block> {
    let groups = comments.chunk_by(|_, next| next.continues);
    groups
        .flat_map(|group| paragraphs(group.iter().map(|comment| (comment.line, comment.text))))
        .collect()
}

/// Markdown without its code: numbered lines become paragraphs, items and cells.
fn paragraphs<'text>(lines: impl Iterator<Item = (usize, &'text str)>) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let (mut is_open, mut is_fenced, mut is_comment) = (false, false, false);
    for (number, line) in lines {
        let text = line.trim();
        let is_indented = line.starts_with("     ") && !is_open;
        if text.starts_with("```") {
            (is_fenced, is_open) = (!is_fenced, false);
        } else if text.starts_with("<!--") || is_comment {
            (is_comment, is_open) = (!text.ends_with("-->"), false);
        } else if is_fenced || is_indented || text.is_empty() {
            is_open = false;
        } else if let Some(row) = text.strip_prefix('|') {
            blocks.extend(row.split('|').map(|cell| Block::new(number, cell, false)));
            is_open = false;
        } else if let Some(item) = item(text) {
            blocks.push(Block::new(number, item, true));
            is_open = !text.starts_with('#');
        } else if is_open {
            blocks.last_mut().unwrap().push(number, text);
        } else {
            blocks.push(Block::new(number, text, true));
            is_open = true;
        }
    }
    blocks
}

/// The text behind the mark of a list item, a heading or a quotation.
fn item(text: &str) -> Option<&str> {
    let (mark, rest) = text.split_once(' ')?;
    let is_number = mark
        .strip_suffix('.')
        .is_some_and(|digits| digits.bytes().all(|c| c.is_ascii_digit()));
    let is_heading = mark.bytes().all(|c| c == b'#');
    (is_number || is_heading || ["-", "*", ">"].contains(&mark)).then_some(rest)
}

/// Rust or C without comments and string literals.
pub fn code(text: &str) -> String {
    parts(text).2
}

/// Comments of Rust or C, the contents of string literals with their lines, and the rest.
fn parts(text: &str) -> (Vec<Comment<'_>>, Vec<(usize, String)>, String) {
    let (mut comments, mut literals, mut code) = (Vec::<Comment>::new(), Vec::new(), String::new());
    let bytes = text.as_bytes();
    let (mut at, mut line, mut is_first_on_line) = (0, 1, true);
    // The line and the mark of the last comment that had its line for itself.
    let mut last = (0, "");
    while at < bytes.len() {
        let rest = &text[at..];
        let end = if rest.starts_with("//") {
            let end = rest.find('\n').unwrap_or(rest.len());
            let mark = ["///", "//!", "//"]
                .into_iter()
                .find(|mark| rest.starts_with(mark))
                .unwrap();
            let continues = is_first_on_line && last == (line - 1, mark);
            comments.push(Comment {
                line,
                text: &rest[mark.len()..end],
                continues,
            });
            if is_first_on_line {
                last = (line, mark);
            }
            end
        } else if let Some(inside) = rest.strip_prefix("/*") {
            let length = inside.find("*/").unwrap_or(inside.len());
            let lines = inside[..length].split('\n').enumerate();
            comments.extend(lines.map(|(index, text)| {
                let text = text.trim().trim_start_matches('*');
                Comment {
                    line: line + index,
                    text,
                    continues: index > 0,
                }
            }));
            (length + 4).min(rest.len())
        } else if let Some((inside, length)) = literal(rest, &text[..at]) {
            literals.push((line, inside));
            length
        } else if let Some(character) = rest.strip_prefix('\'') {
            // A lifetime has no closing quote.
            let escaped = character
                .strip_prefix('\\')
                .and_then(|escape| escape[1..].find('\''));
            let plain = character
                .char_indices()
                .nth(1)
                .filter(|(_, c)| *c == '\'')
                .map(|(at, _)| at);
            escaped
                .map(|length| length + 4)
                .or(plain.map(|length| length + 2))
                .unwrap_or(1)
        } else {
            let character = rest.chars().next().unwrap();
            code.push(character);
            character.len_utf8()
        };
        for byte in &bytes[at..at + end] {
            if *byte == b'\n' {
                (line, is_first_on_line) = (line + 1, true);
            } else if !byte.is_ascii_whitespace() {
                is_first_on_line = false;
            }
        }
        at += end;
    }
    (comments, literals, code)
}

/// The content of the string literal that a text begins with, and the length of the literal.
fn literal(rest: &str, before: &str) -> Option<(String, usize)> {
    let is_word =
        before.ends_with(|c: char| c.is_alphanumeric() || c == '_') && !before.ends_with(" b");
    if let Some(raw) = rest.strip_prefix('r').filter(|_| !is_word) {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if let Some(inside) = raw[hashes..].strip_prefix('"') {
            let close = format!("\"{}", "#".repeat(hashes));
            let length = inside.find(&close)?;
            return Some((
                inside[..length].to_owned(),
                2 + hashes + length + close.len(),
            ));
        }
    }
    let inside = rest.strip_prefix('"')?;
    let mut content = String::new();
    let mut characters = inside.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((content, at + 2)),
            '\\' => match characters.next()?.1 {
                'n' | 't' => content.push(' '),
                '\n' => {
                    let blanks = characters.as_str().len() - characters.as_str().trim_start().len();
                    for _ in 0..blanks {
                        characters.next();
                    }
                }
                other => content.push(other),
            },
            other => content.push(other),
        }
    }
    None
}

/// Comments of shells, Python and TOML.
fn comments_after_hash(text: &str) -> Vec<Comment<'_>> {
    let mut comments: Vec<Comment> = Vec::new();
    let mut last = 0;
    for (index, line) in text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.starts_with("#!"))
    {
        let is_start = |at: usize| {
            let before = &line[..at];
            let is_quoted = ['"', '\'']
                .iter()
                .any(|quote| before.matches(*quote).count() % 2 == 1);
            (before.is_empty() || before.ends_with(' ')) && !is_quoted
        };
        let Some((at, _)) = line.match_indices('#').find(|(at, _)| is_start(*at)) else {
            continue;
        };
        let is_alone = line[..at].trim().is_empty();
        comments.push(Comment {
            line: index + 1,
            text: &line[at + 1..],
            continues: is_alone && last == index,
        });
        last = if is_alone { index + 1 } else { 0 };
    }
    comments
}

/// Everything that `--help` prints, of each verb.
fn help_texts() -> Vec<Offence> {
    fn collect(command: &mut clap::Command, offences: &mut Vec<Offence>) {
        let name = command.get_name().to_owned();
        let mut texts = vec![
            (name.clone(), command.get_about().map(ToString::to_string)),
            (
                name.clone(),
                command.get_long_about().map(ToString::to_string),
            ),
            (
                name.clone(),
                command.get_after_help().map(ToString::to_string),
            ),
            (
                name.clone(),
                command.get_after_long_help().map(ToString::to_string),
            ),
        ];
        for argument in command.get_arguments() {
            let place = format!("{name} {}", argument.get_id());
            texts.push((place.clone(), argument.get_help().map(ToString::to_string)));
            texts.push((
                place.clone(),
                argument.get_long_help().map(ToString::to_string),
            ));
            let values = argument.get_possible_values();
            texts.extend(
                values
                    .iter()
                    .map(|value| (place.clone(), value.get_help().map(ToString::to_string))),
            );
        }
        for (place, text) in texts {
            let Some(text) = text else { continue };
            for block in paragraphs(text.lines().map(|line| (0, line))) {
                let found = block.offences().into_iter();
                offences.extend(found.map(|(_, word, text)| Offence {
                    place: format!("help of {place}"),
                    word,
                    text,
                }));
            }
        }
        for verb in command.get_subcommands_mut() {
            collect(verb, offences);
        }
    }
    let mut command = cudarun::cli::Cli::command();
    command.build();
    let mut offences = Vec::new();
    collect(&mut command, &mut offences);
    // Verbs share options.
    offences.sort_by(|one, other| one.text.cmp(&other.text));
    offences.dedup_by(|one, other| one.text == other.text);
    offences
}

/// All files of the repository, without those that a build makes.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_symlink() || [".git", "target", "__pycache__"].contains(&name.as_str()) {
            continue;
        }
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}
