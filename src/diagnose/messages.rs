//! Known messages in a log, each once, however many processes and lines repeat it.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use regex::bytes::Regex;

use super::lines::{Line, Lines, speaker_and_text};
use super::signatures::{Captures, Match, Signatures};
use crate::catalog::{ErrorKind, ErrorRow};
use crate::text;

/// Lines after the first one that may belong to a message, and their length.
const MORE_LINES: usize = 5;
const LONGEST_MORE: usize = 2 << 10;
/// Messages that wait for more lines.
const MOST_OPEN: usize = 256;
/// Different messages of one row, so that none can crowd out the others.
const MOST_OF_ROW: usize = 32;
const MOST_SPEAKERS: usize = 4096;
/// Bytes of texts that are not read again when another process says them, and what each one takes besides.
const MOST_KNOWN: usize = 4 << 20;
const BESIDES: usize = 512;
const LONGEST_EXCERPT: usize = 200;

static WARNING: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?-u)Warning\b|WARN|warning:").expect("a pattern of ours"));
/// A value after a name that promises a secret, and the user of a URL.
static SECRET: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = format!(
        r"(?i-u)(?P<name>{}[=:]\s*|{}\s+|\s-p\s+)\S+|(?P<scheme>://)[^@/\s]+@",
        text::SECRET_NAME,
        text::SECRET_OPTION
    );
    Regex::new(&pattern).expect("a pattern of ours")
});

/// A message that a row of `profiles/errors.toml` knows.
#[derive(Clone, Debug)]
pub struct Message {
    pub row: &'static ErrorRow,
    pub captures: Captures,
    /// The first line that says so, from 1, and the last one.
    pub first: usize,
    pub last: usize,
    /// The text that matched, escaped and shortened. Nothing else of a log is shown, since a log may hold secrets.
    pub excerpt: String,
    pub count: usize,
    /// Each line that says so calls itself a warning.
    pub is_warning: bool,
    /// The launcher's names of the processes that say so, such as `[rank3]:`; empty without a launcher.
    pub speakers: BTreeSet<Vec<u8>>,
}

/// A line on which a message may begin, and the lines after it of the same process.
struct Open {
    number: usize,
    speaker: Vec<u8>,
    text: Vec<u8>,
    more: usize,
}

/// Reads a log in pieces of any size, in little memory.
pub struct Reading {
    lines: Lines,
    open: VecDeque<Open>,
    found: Found,
}

/// Messages by the place of their row and by their facts.
struct Found {
    signatures: &'static Signatures,
    messages: BTreeMap<(usize, Captures), Message>,
    of_row: BTreeMap<usize, usize>,
    /// Rows that have as many messages as they may. Only texts that were read before still count for them.
    full: BTreeSet<usize>,
    /// The matches of the last texts, and the memory that they take.
    known: HashMap<Vec<u8>, Arc<[Match]>>,
    known_bytes: usize,
}

impl Default for Reading {
    fn default() -> Reading {
        let signatures = Signatures::embedded();
        let (messages, of_row) = (BTreeMap::new(), BTreeMap::new());
        let (known, full) = (HashMap::new(), BTreeSet::new());
        let found = Found {
            signatures,
            messages,
            of_row,
            full,
            known,
            known_bytes: 0,
        };
        Reading {
            lines: Lines::default(),
            open: VecDeque::new(),
            found,
        }
    }
}

impl Reading {
    pub fn feed(&mut self, bytes: &[u8]) {
        let Reading { lines, open, found } = self;
        lines.feed(bytes, &mut |line| found.line(line, open));
    }

    /// Counts the lines of a part of the log that is left out.
    pub fn pass_over(&mut self, bytes: &[u8]) {
        let Reading { lines, open, found } = self;
        lines.finish(&mut |line| found.line(line, open));
        lines.pass_over(bytes);
    }

    pub fn is_utf16(&self) -> bool {
        self.lines.is_utf16()
    }

    /// Returns the messages in the order of their first lines, then of the rows.
    pub fn finish(mut self) -> Vec<Message> {
        self.pass_over(b"");
        self.open
            .drain(..)
            .for_each(|open| self.found.close_open(&open));
        let mut messages: Vec<Message> = self.found.messages.into_values().collect();
        messages.sort_by_key(|message| (message.first, message.row.kind));
        messages
    }
}

impl Found {
    fn line(&mut self, line: Line<'_>, open: &mut VecDeque<Open>) {
        let begins = self.signatures.may_go_on(line.text);
        if begins.is_none() && open.is_empty() {
            return;
        }
        let (speaker, text) = speaker_and_text(line.text);
        self.go_on(speaker, text, open);
        let Some(goes_on) = begins else { return };
        if !goes_on {
            return self.close(line.number, speaker, text);
        }
        if open.len() == MOST_OPEN {
            open.pop_front()
                .iter()
                .for_each(|oldest| self.close_open(oldest));
        }
        open.push_back(Open {
            number: line.number,
            speaker: speaker.to_vec(),
            text: text.to_vec(),
            more: 0,
        });
    }

    /// Adds a line to the messages that its process has begun.
    fn go_on(&mut self, speaker: &[u8], text: &[u8], open: &mut VecDeque<Open>) {
        open.retain_mut(|open| {
            if open.speaker == speaker {
                open.text.push(b'\n');
                open.text
                    .extend_from_slice(&text[..text.len().min(LONGEST_MORE)]);
                open.more += 1;
            }
            let is_whole = open.more == MORE_LINES;
            if is_whole {
                self.close_open(open);
            }
            !is_whole
        });
    }

    fn close_open(&mut self, open: &Open) {
        self.close(open.number, &open.speaker, &open.text);
    }

    fn close(&mut self, number: usize, speaker: &[u8], text: &[u8]) {
        let known = self.known.get(text).cloned();
        let matches = known.unwrap_or_else(|| {
            let mut matches = deciding(self.signatures.matches(text, &self.full));
            let before = matches.len();
            matches.retain(|found| !self.full.contains(&found.key.0));
            let matches: Arc<[Match]> = matches.into();
            if matches.len() < before {
                return matches;
            }
            self.known_bytes += text.len() + BESIDES;
            if self.known_bytes > MOST_KNOWN {
                self.known.clear();
                self.known_bytes = text.len() + BESIDES;
            }
            self.known.insert(text.to_vec(), Arc::clone(&matches));
            matches
        });
        for found in matches.iter() {
            self.add(found, number, speaker, text);
        }
    }

    fn add(&mut self, found: &Match, number: usize, speaker: &[u8], text: &[u8]) {
        let message = match self.messages.get_mut(&found.key) {
            Some(message) => message,
            None => {
                let of_row = self.of_row.entry(found.key.0).or_default();
                if *of_row == MOST_OF_ROW {
                    self.full.insert(found.key.0);
                    return;
                }
                *of_row += 1;
                let message = Message {
                    row: found.row,
                    captures: found.key.1.clone(),
                    first: number,
                    last: number,
                    excerpt: shown(whole_words(text, &found.range)),
                    count: 0,
                    is_warning: true,
                    speakers: BTreeSet::new(),
                };
                self.messages.entry(found.key.clone()).or_insert(message)
            }
        };
        message.first = message.first.min(number);
        message.last = message.last.max(number);
        message.count += 1;
        message.is_warning &= WARNING.is_match(text);
        let is_new = !speaker.is_empty() && !message.speakers.contains(speaker);
        if is_new && message.speakers.len() < MOST_SPEAKERS {
            message.speakers.insert(speaker.to_vec());
        }
    }
}

/// A row comes before the more general ones: where two matches overlap, the first one counts. A root, or a harmless
/// message, decides its line. A symptom does not, since its cause may follow.
fn deciding(matches: Vec<Match>) -> Vec<Match> {
    let mut taken: Vec<Match> = Vec::new();
    for found in matches {
        let Range { start, end } = found.range;
        if taken
            .iter()
            .any(|other| other.range.start < end && start < other.range.end)
        {
            continue;
        }
        let decides = matches!(found.row.kind, ErrorKind::Root | ErrorKind::Harmless);
        taken.push(found);
        if decides {
            break;
        }
    }
    taken
}

/// A match, and the rest of the word at its end.
fn whole_words<'t>(text: &'t [u8], range: &Range<usize>) -> &'t [u8] {
    let is_of_word = |byte: &&u8| byte.is_ascii_alphanumeric() || b"_.'\"`)".contains(byte);
    let rest = text[range.end..].iter().take_while(is_of_word).count();
    &text[range.start..range.end + rest]
}

/// The lines of a message as one line, escaped, without what may be a secret.
fn shown(excerpt: &[u8]) -> String {
    let words = excerpt
        .split(|byte| matches!(byte, b'\n' | b'\t'))
        .map(<[u8]>::trim_ascii);
    let line = words.collect::<Vec<_>>().join(&b' ');
    let line = text::escape(&SECRET.replace_all(&line, "${name}${scheme}…".as_bytes()));
    match line.char_indices().nth(LONGEST_EXCERPT - 1) {
        Some((end, _)) if line[end..].chars().nth(1).is_some() => format!("{}…", &line[..end]),
        _ => line,
    }
}
