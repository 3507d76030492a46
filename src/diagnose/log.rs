//! A text that is taken piece by piece: the beginning, and the end where it is long.

use std::collections::VecDeque;

use super::chain::Chain;
use super::messages::Reading;
use super::paths::NamedPaths;

const PIECE: usize = 1 << 20;
/// Bytes that are kept of what a program writes while it runs.
const LIVE_HEAD: usize = 256 << 10;
const LIVE_TAIL: usize = 2 << 20;

/// The messages of a text, and what is known about it.
#[derive(Debug)]
pub struct Log {
    pub chain: Chain,
    pub paths: NamedPaths,
    pub is_utf16: bool,
    pub left_out: u64,
    pub is_empty: bool,
}

/// Takes a text piece by piece.
#[derive(Default)]
pub struct LogReader {
    reading: Reading,
    paths: NamedPaths,
    left_out: u64,
    taken: usize,
    /// The end of a text of unknown length, as far as it was read.
    kept: VecDeque<Vec<u8>>,
}

impl LogReader {
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
        if self
            .kept
            .back()
            .is_none_or(|last| last.len() + piece.len() > PIECE)
        {
            let mut next = Vec::new();
            if self.kept.len() == tail / PIECE {
                next = self.kept.pop_front().unwrap_or_default();
                self.pass_over(&next);
                next.clear();
            }
            next.reserve(PIECE);
            self.kept.push_back(next);
        }
        self.kept
            .back_mut()
            .expect("just added")
            .extend_from_slice(piece);
    }

    pub fn finish(mut self) -> Log {
        for piece in std::mem::take(&mut self.kept) {
            self.take(&piece);
        }
        let is_empty = self.taken == 0;
        let is_utf16 = self.reading.is_utf16();
        let chain = Chain::new(self.reading.finish());
        Log {
            chain,
            paths: self.paths,
            is_utf16,
            left_out: self.left_out,
            is_empty,
        }
    }

    /// The bytes that were taken.
    pub fn taken(&self) -> usize {
        self.taken
    }

    pub fn take(&mut self, piece: &[u8]) {
        self.reading.feed(piece);
        self.paths.feed(piece);
        self.taken += piece.len();
    }

    /// Leaves out a piece in the middle, and counts its lines.
    pub fn pass_over(&mut self, piece: &[u8]) {
        self.reading.pass_over(piece);
        self.left_out += piece.len() as u64;
    }
}
