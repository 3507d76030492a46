//! Reads a log piece by piece, in little memory: the beginning, and the end where it is long. Each message is found once, however
//! many processes and lines repeat it.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::mem::take;
use std::sync::Arc;

use memchr::{memchr, memchr_iter, memchr3, memrchr};

use super::chain::Chain;
use super::clues;
use super::lines::{LogLine, LogLines, speaker_and_text};
use super::messages::{Message, deciding};
use super::paths::NamedPaths;
use super::signatures::{Captures, Match, Signatures};
use crate::catalog::ErrorKind;

const PIECE: usize = 1 << 20;
/// Bytes that are kept of what a program writes while it runs.
const LIVE_HEAD: usize = 256 << 10;
const LIVE_TAIL: usize = 2 << 20;
/// Lines after the first one that may belong to a message, and their length.
const MAX_MORE_LINES: usize = 5;
const MAX_MORE_LENGTH: usize = 2 << 10;
/// Messages that wait for more lines.
const MAX_OPEN: usize = 256;
/// Different messages of one row, so that none can crowd out the others.
const MAX_OF_ROW: usize = 32;
/// Bytes of texts that are not read again when another process says them, and what each one takes besides.
const MAX_CACHE_BYTES: usize = 4 << 20;
const ENTRY_BYTES: usize = 512;
/// Bytes at the end of a text in which clues are looked for.
const MAX_CLUE_BYTES: usize = 128 << 10;

/// Bytes that are searched at once: few at first, so that where each line has something, none is searched often.
const FIRST_BLOCK: usize = 512;
const BLOCK: usize = 64 << 10;

/// The length of the whole lines at the beginning of a text in which no message begins, and which have nothing to clean.
fn plain_lines(text: &[u8]) -> usize {
    let (mut plain, mut size) = (0, FIRST_BLOCK);
    while plain < text.len() {
        let block = &text[plain..text.len().min(plain + size)];
        let special = memchr3(b'\x1b', b'\r', b'\\', block);
        let searched = &block[..special.unwrap_or(block.len())];
        let end = Signatures::embedded().find(searched);
        let end = end.unwrap_or(searched.len());
        let last = memrchr(b'\n', &block[..end]);
        plain += last.map_or(0, |last| last + 1);
        let is_longer = block.len() == size && size < BLOCK;
        if end < block.len() || last.is_none() && !is_longer {
            break;
        }
        size = BLOCK.min(2 * size);
    }
    plain
}

/// The messages of a text, and what is known about it.
#[derive(Debug)]
pub struct Log {
    pub chain: Chain,
    pub paths: NamedPaths,
    pub left_out: u64,
    pub is_empty: bool,
}

/// A line on which a message may begin, and the lines after it of the same process.
struct OpenMessage {
    number: usize,
    speaker: Vec<u8>,
    text: Vec<u8>,
    more_lines: usize,
}

/// True for the marks at the beginning of a text in UTF-16. Messages are in ASCII, which it writes as the same bytes with zeros
/// between them.
fn is_utf16(text: &[u8]) -> bool {
    text.starts_with(b"\xff\xfe") || text.starts_with(b"\xfe\xff")
}

#[derive(Default)]
pub struct LogReader {
    lines: LogLines,
    /// The last bytes that were taken, in case that clues are all there is.
    last: Vec<u8>,
    open: VecDeque<OpenMessage>,
    /// By the index of their row and by their facts.
    messages: BTreeMap<(usize, Captures), Message>,
    /// The number of messages of a row.
    row_counts: BTreeMap<usize, usize>,
    /// Rows that have as many messages as they may. Only texts that were read before still count for them.
    full_rows: BTreeSet<usize>,
    /// The matches of the last texts, and the memory that they take.
    cache: HashMap<Vec<u8>, Arc<[Match]>>,
    cache_bytes: usize,
    paths: NamedPaths,
    taken: usize,
    /// UTF-16, as PowerShell writes it.
    is_utf16: bool,
    left_out: u64,
    /// The end of a text of unknown length, in pieces, as far as it was read.
    tail: VecDeque<Vec<u8>>,
}

impl LogReader {
    pub fn take(&mut self, piece: &[u8]) {
        self.is_utf16 |= self.taken == 0 && is_utf16(piece);
        if self.is_utf16 {
            let mut piece = piece.to_vec();
            piece.retain(|byte| *byte != 0);
            self.take_bytes(&piece);
        } else {
            self.take_bytes(piece);
        }
    }

    fn take_bytes(&mut self, piece: &[u8]) {
        let mut lines = take(&mut self.lines);
        let mut rest = piece;
        while !rest.is_empty() {
            if self.open.is_empty() && lines.is_at_start() {
                let plain = plain_lines(rest);
                lines.pass_over(&rest[..plain]);
                rest = &rest[plain..];
            }
            let end = memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
            lines.feed(&rest[..end], &mut |line| self.line(line));
            rest = &rest[end..];
        }
        self.lines = lines;
        self.paths.feed(piece);
        self.taken += piece.len();
        self.keep_last(piece);
    }

    fn keep_last(&mut self, piece: &[u8]) {
        let piece = &piece[piece.len().saturating_sub(MAX_CLUE_BYTES)..];
        if self.last.len() + piece.len() > 2 * MAX_CLUE_BYTES {
            let excess = self.last.len().saturating_sub(MAX_CLUE_BYTES);
            self.last.drain(..excess);
        }
        self.last.extend_from_slice(piece);
    }

    /// The bytes that were taken.
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// Takes a piece that a running program has written.
    pub fn take_live(&mut self, piece: &[u8]) {
        if self.taken < LIVE_HEAD {
            self.take(piece);
        } else {
            self.keep(piece, LIVE_TAIL);
        }
    }

    /// Keeps a piece that may belong to the last `tail` bytes of the text.
    pub fn keep(&mut self, piece: &[u8], tail: usize) {
        if let Some(last) = self.tail.back_mut()
            && last.len() + piece.len() <= PIECE
        {
            last.extend_from_slice(piece);
            return;
        }
        let mut next = Vec::new();
        if self.tail.len() == tail / PIECE {
            next = self.tail.pop_front().unwrap_or_default();
            self.pass_over(&next);
            next.clear();
        }
        next.reserve(PIECE);
        next.extend_from_slice(piece);
        self.tail.push_back(next);
    }

    /// Leaves out a piece in the middle, and counts its lines.
    pub fn pass_over(&mut self, piece: &[u8]) {
        self.end_part();
        self.lines.pass_over(piece);
        self.last.clear();
        self.left_out += piece.len() as u64;
    }

    /// Reads what was taken to its end: no message goes on in what follows.
    fn end_part(&mut self) {
        let mut lines = take(&mut self.lines);
        lines.finish(&mut |line| self.line(line));
        self.lines = lines;
        for open in take(&mut self.open) {
            self.close_open(&open);
        }
    }

    pub fn finish(mut self) -> Log {
        for piece in take(&mut self.tail) {
            self.take(&piece);
        }
        Log {
            paths: take(&mut self.paths),
            left_out: self.left_out,
            is_empty: self.taken == 0,
            chain: Chain::new(self.messages()),
        }
    }

    /// In the order of their first lines, then of the rows. Where all are harmless, clues follow: in the order of their rows,
    /// then of their lines.
    pub fn messages(mut self) -> Vec<Message> {
        self.end_part();
        let mut messages: Vec<Message> = take(&mut self.messages).into_values().collect();
        messages.sort_by_key(|message| (message.first, message.row.kind));
        let is_harmless = |message: &Message| message.row.kind == ErrorKind::Harmless;
        if messages.iter().all(is_harmless) {
            messages.extend(self.clues());
        }
        messages
    }

    /// The clues in the last lines, without those in harmless messages. Of lines that state the same, the last one is shown.
    fn clues(&self) -> Vec<Message> {
        // By the place of the clue that tells most, and by the facts.
        let mut messages = BTreeMap::<(usize, Captures), Message>::new();
        let mut each = |line: LogLine<'_>| {
            let (speaker, text) = speaker_and_text(line.text);
            let clues = clues::of_line(text);
            let Some(first) = clues.first() else { return };
            let known = Signatures::embedded().matches(text, &BTreeSet::new());
            if !known.is_empty() {
                return;
            }
            let mut message = Message::new(first, &clues, line.number, text);
            let key = (first.key.0, message.captures.clone());
            if let Some(earlier) = messages.remove(&key) {
                message.count = earlier.count;
                message.is_warning = earlier.is_warning;
                message.speakers = earlier.speakers;
            }
            message.count(line.number, speaker, text);
            messages.insert(key, message);
        };
        let last = self.last_lines();
        let breaks = memchr_iter(b'\n', last).count();
        let mut lines = LogLines::after(self.lines.count().saturating_sub(breaks));
        lines.feed(last, &mut each);
        lines.finish(&mut each);
        let mut messages: Vec<((usize, _), Message)> = messages.into_iter().collect();
        messages.sort_by_key(|((place, _), message)| (*place, message.first));
        messages.into_iter().map(|(_, message)| message).collect()
    }

    /// The whole lines of the last bytes that were taken.
    fn last_lines(&self) -> &[u8] {
        let start = self.last.len().saturating_sub(MAX_CLUE_BYTES);
        let last = &self.last[start..];
        if last.len() == self.taken {
            return last;
        }
        let first = memchr(b'\n', last).map_or(0, |end| end + 1);
        &last[first..]
    }

    fn line(&mut self, line: LogLine<'_>) {
        let may_go_on = Signatures::embedded().may_go_on(line.text);
        if may_go_on.is_none() && self.open.is_empty() {
            return;
        }
        let (speaker, text) = speaker_and_text(line.text);
        self.go_on(speaker, text);
        let Some(may_go_on) = may_go_on else { return };
        if !may_go_on {
            return self.close(line.number, speaker, text);
        }
        if self.open.len() == MAX_OPEN
            && let Some(oldest) = self.open.pop_front()
        {
            self.close_open(&oldest);
        }
        self.open.push_back(OpenMessage {
            number: line.number,
            speaker: speaker.to_vec(),
            text: text.to_vec(),
            more_lines: 0,
        });
    }

    /// Adds a line to the messages that its process has begun.
    fn go_on(&mut self, speaker: &[u8], text: &[u8]) {
        let mut is_one_whole = false;
        for open in &mut self.open {
            if open.speaker == speaker {
                open.text.push(b'\n');
                open.text
                    .extend_from_slice(&text[..text.len().min(MAX_MORE_LENGTH)]);
                open.more_lines += 1;
                is_one_whole |= open.more_lines == MAX_MORE_LINES;
            }
        }
        if !is_one_whole {
            return;
        }
        for _ in 0..self.open.len() {
            let Some(open) = self.open.pop_front() else {
                return;
            };
            if open.more_lines == MAX_MORE_LINES {
                self.close_open(&open);
            } else {
                self.open.push_back(open);
            }
        }
    }

    fn close_open(&mut self, open: &OpenMessage) {
        self.close(open.number, &open.speaker, &open.text);
    }

    fn close(&mut self, number: usize, speaker: &[u8], text: &[u8]) {
        for found in self.matches(text).iter() {
            let row = found.key.0;
            if let Some(message) = self.messages.get_mut(&found.key) {
                message.count(number, speaker, text);
                continue;
            }
            let count = self.row_counts.entry(row).or_default();
            if *count == MAX_OF_ROW {
                self.full_rows.insert(row);
                continue;
            }
            *count += 1;
            let clues = if found.row.general {
                clues::of_message(text)
            } else {
                Vec::new()
            };
            let mut message = Message::new(found, &clues, number, text);
            message.count(number, speaker, text);
            self.messages.insert(found.key.clone(), message);
        }
    }

    fn matches(&mut self, text: &[u8]) -> Arc<[Match]> {
        if let Some(matches) = self.cache.get(text) {
            return matches.clone();
        }
        let mut matches = deciding(Signatures::embedded().matches(text, &self.full_rows));
        let count = matches.len();
        matches.retain(|found| !self.full_rows.contains(&found.key.0));
        let is_whole = matches.len() == count;
        let matches: Arc<[Match]> = matches.into();
        if is_whole {
            let bytes = text.len() + ENTRY_BYTES;
            self.cache_bytes += bytes;
            if self.cache_bytes > MAX_CACHE_BYTES {
                self.cache.clear();
                self.cache_bytes = bytes;
            }
            self.cache.insert(text.to_vec(), Arc::clone(&matches));
        }
        matches
    }
}
