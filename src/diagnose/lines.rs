//! Bytes of a log to lines: without colours and progress, with their numbers.

use std::borrow::Cow;
use std::mem::take;
use std::sync::LazyLock;

use anstream::adapter::strip_bytes;
use memchr::{memchr, memchr_iter, memchr3};
use regex::bytes::Regex;

/// Longer lines are cut in pieces.
const MAX_LENGTH: usize = 64 << 10;
/// A message is not lost at a cut that it does not cross by more than this.
const OVERLAP: usize = 512;

/// A line, or a part of one that a carriage return or an escaped line break ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogLine<'t> {
    /// From 1.
    pub number: usize,
    pub text: &'t [u8],
}

/// Splits a log that is fed in pieces of any size.
#[derive(Debug, Default)]
pub struct LogLines {
    /// Of the lines that have ended.
    count: usize,
    /// The beginning of the line that has not ended.
    rest: Vec<u8>,
}

impl LogLines {
    pub fn feed(&mut self, mut bytes: &[u8], each: &mut impl FnMut(LogLine<'_>)) {
        while let Some(end) = memchr(b'\n', bytes) {
            self.count += 1;
            if self.rest.is_empty() {
                split_line(self.count, &bytes[..end], each);
            } else {
                self.rest.extend_from_slice(&bytes[..end]);
                split_line(self.count, &self.rest, each);
                self.rest.clear();
            }
            bytes = &bytes[end + 1..];
        }
        for piece in bytes.chunks(MAX_LENGTH) {
            self.rest.extend_from_slice(piece);
            if self.rest.len() >= MAX_LENGTH {
                split_line(self.count + 1, &self.rest, each);
                self.rest.drain(..self.rest.len() - OVERLAP);
            }
        }
    }

    /// Of which the first `count` lines are left out.
    pub fn after(count: usize) -> LogLines {
        LogLines {
            count,
            rest: Vec::new(),
        }
    }

    /// True if the next byte begins a line.
    pub fn is_at_start(&self) -> bool {
        self.rest.is_empty()
    }

    /// The lines that have ended.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Counts the lines of a part of the log that is left out.
    pub fn pass_over(&mut self, bytes: &[u8]) {
        self.count += memchr_iter(b'\n', bytes).count();
    }

    /// The last line may end without a line break.
    pub fn finish(&mut self, each: &mut impl FnMut(LogLine<'_>)) {
        split_line(self.count + 1, &take(&mut self.rest), each);
    }
}

/// Cuts a long line.
fn split_line(number: usize, line: &[u8], each: &mut impl FnMut(LogLine<'_>)) {
    let mut start = 0;
    while start < line.len() {
        let end = line.len().min(start + MAX_LENGTH);
        split_piece(number, &line[start..end], each);
        start = if end == line.len() {
            end
        } else {
            end - OVERLAP
        };
    }
}

/// Splits where a program overwrites its line, and where a text in JSON has line breaks.
fn split_piece(number: usize, piece: &[u8], each: &mut impl FnMut(LogLine<'_>)) {
    let mut text = Cow::Borrowed(piece);
    if is_json(piece) {
        text = Cow::Owned(unescape(piece));
    }
    if memchr3(b'\x1b', b'\r', b'\n', &text).is_none() {
        return each(LogLine {
            number,
            text: &text,
        });
    }
    for part in text.split(|byte| matches!(byte, b'\r' | b'\n')) {
        // A part without a word may be the end of a text in JSON, or a bar.
        if part.iter().any(u8::is_ascii_alphanumeric) {
            each(LogLine {
                number,
                text: &strip_bytes(part).into_vec(),
            });
        }
    }
}

/// True for a line of JSON with escaped characters: of a container's log, or of a notebook.
fn is_json(text: &[u8]) -> bool {
    let start = text.trim_ascii_start();
    matches!(start.first(), Some(b'{' | b'"')) && memchr(b'\\', start).is_some()
}

fn unescape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..start]);
        let (byte, length) = match rest.get(start + 1) {
            Some(b'n') => (b'\n', 2),
            Some(b'r') => (b'\r', 2),
            Some(b't') => (b'\t', 2),
            Some(b'u') if rest[start..].starts_with(b"\\u001b") => (0x1b, 6),
            Some(other) => (*other, 2),
            None => (b'\\', 1),
        };
        out.push(byte);
        rest = &rest[start + length..];
    }
    out.extend_from_slice(rest);
    out
}

/// Time stamps and other marks that loggers and container runtimes put before a line.
static MARK: LazyLock<Regex> = LazyLock::new(|| {
    prefix(concat!(
        r"\[\s*\d+\.\d+\]\s",                                                  // kernel
        r"|[A-Z][a-z][a-z]\s+\d+\s[\d:]{8}\s\S+\s(?:[\w.-]+(?:\[\d+\])?:\s)?", // syslog
        r"|\[?\d{2,4}[-/:]\d\d[-/:]\d\d[\d.,:+ZT-]*\]?(?:\s\d\d:\d\d:\d\d\S*)?\s",
        r"|[IWEF]\d{4}\s[\d:.]+\s+\d+\s",               // glog
        r"|(?:stdout|stderr)\s[FP]\s|#\d+\s\d+\.\d+\s", // container runtimes, docker build
        r"|[A-Z]+\s\d\d-\d\d\s[\d:]{8}\s(?:\[[\w.]+:\d+\]\s)?", // vLLM
        r#"|""#,
    ))
});

/// The names of ranks, containers, pods and actors, as launchers put them before a line.
static SPEAKER: LazyLock<Regex> = LazyLock::new(|| {
    prefix(concat!(
        r"(?:\[\d+(?:,\d+)?\]<std\w+>:?|\[(?:default)?(?:rank)?\d+\]:?|\d{1,5}:\s",
        r"|\([\w. -]*\b(?:pid|rank)=\d+[^)]*\)|[\w.-]+\s+\||\[pod/[^\]]*\]|[A-Za-z][\w-]*\d:\s)\s?",
    ))
});

fn prefix(pattern: &str) -> Regex {
    Regex::new(&format!(r"^(?-u)\s*(?:{pattern})")).expect("a pattern of ours")
}

/// Splits a line into the launcher's name for its process, or nothing, and the text without prefixes. Without groups a regex
/// takes a tenth of the time.
pub(super) fn speaker_and_text(line: &[u8]) -> (&[u8], &[u8]) {
    let (mut speaker, mut text): (&[u8], _) = (b"", line);
    for _ in 0..6 {
        if let Some(mark) = MARK.find(text) {
            text = &text[mark.end()..];
        } else if let Some(found) = SPEAKER.find(text) {
            speaker = found.as_bytes().trim_ascii();
            text = &text[found.end()..];
        } else {
            break;
        }
    }
    (speaker, text)
}
