//! Known messages in a log, each once, however many processes and lines repeat it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

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
const LONGEST_EXCERPT: usize = 200;

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
}

impl Default for Reading {
    fn default() -> Reading {
        let signatures = Signatures::embedded();
        let found = Found { signatures, messages: BTreeMap::new(), of_row: BTreeMap::new() };
        Reading { lines: Lines::default(), open: VecDeque::new(), found }
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
        self.open.drain(..).for_each(|open| self.found.close(&open));
        let mut messages: Vec<Message> = self.found.messages.into_values().collect();
        messages.sort_by_key(|message| (message.first, message.row.kind));
        messages
    }
}

impl Found {
    fn line(&mut self, line: Line<'_>, open: &mut VecDeque<Open>) {
        if !open.is_empty() {
            self.go_on(line, open);
        }
        let Some(goes_on) = self.signatures.may_go_on(line.text) else { return };
        // Most lines that have a literal match no row, and need no name of a process.
        if !goes_on && self.signatures.matches(line.text).is_empty() {
            return;
        }
        let (speaker, text) = speaker_and_text(line.text);
        let message = Open { number: line.number, speaker: speaker.to_vec(), text: text.to_vec(), more: 0 };
        if !goes_on {
            return self.close(&message);
        }
        if open.len() == MOST_OPEN {
            open.pop_front().iter().for_each(|oldest| self.close(oldest));
        }
        open.push_back(message);
    }

    /// Adds a line to the messages that its process has begun.
    fn go_on(&mut self, line: Line<'_>, open: &mut VecDeque<Open>) {
        let (speaker, text) = speaker_and_text(line.text);
        open.retain_mut(|open| {
            if open.speaker == speaker {
                open.text.push(b'\n');
                open.text.extend_from_slice(&text[..text.len().min(LONGEST_MORE)]);
                open.more += 1;
            }
            let is_whole = open.more == MORE_LINES;
            if is_whole {
                self.close(open);
            }
            !is_whole
        });
    }

    /// A row comes before the more general ones: where two matches overlap, the first one counts. A root, or a harmless
    /// message, decides its line. A symptom does not, since its cause may follow.
    fn close(&mut self, open: &Open) {
        let mut taken: Vec<Range<usize>> = Vec::new();
        for found in self.signatures.matches(&open.text) {
            let range = found.range.clone();
            if taken.iter().any(|other| other.start < range.end && range.start < other.end) {
                continue;
            }
            let decides = matches!(found.row.kind, ErrorKind::Root | ErrorKind::Harmless);
            self.add(found, open);
            if decides {
                break;
            }
            taken.push(range);
        }
    }

    fn add(&mut self, found: Match, open: &Open) {
        let Match { row, order, captures, range } = found;
        let key = (order, captures.clone());
        let of_row = self.of_row.entry(order).or_default();
        let message = match self.messages.get_mut(&key) {
            Some(message) => message,
            None if *of_row == MOST_OF_ROW => return,
            None => {
                *of_row += 1;
                let message = Message {
                    row,
                    captures,
                    first: open.number,
                    last: open.number,
                    excerpt: shown(&open.text[range]),
                    count: 0,
                    speakers: BTreeSet::new(),
                };
                self.messages.entry(key).or_insert(message)
            }
        };
        message.first = message.first.min(open.number);
        message.last = message.last.max(open.number);
        message.count += 1;
        if !open.speaker.is_empty() && message.speakers.len() < MOST_SPEAKERS {
            message.speakers.insert(open.speaker.clone());
        }
    }
}

/// The lines of a message as one line, escaped.
fn shown(excerpt: &[u8]) -> String {
    let words = excerpt.split(|byte| matches!(byte, b'\n' | b'\t')).map(<[u8]>::trim_ascii);
    let line = text::escape(&words.collect::<Vec<_>>().join(&b' '));
    match line.char_indices().nth(LONGEST_EXCERPT - 1) {
        Some((end, _)) if line[end..].chars().nth(1).is_some() => format!("{}…", &line[..end]),
        _ => line,
    }
}
