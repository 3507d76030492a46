//! Reads the text that `cudarun diagnose` explains: all of a short one; of a long one, the beginning and the end.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use super::say;
use crate::cli::{Common, Diagnose};
use crate::diagnose::{Log, LogReader};
use crate::error::Error;
use crate::host::{self, Host};

/// Bytes that are read of a long text: at its beginning, and at its end.
const HEAD: usize = 8 << 20;
const TAIL: usize = 56 << 20;
/// Bytes that are read of a pipe or a device, which may never end.
const MAX_STREAM_BYTES: u64 = 1 << 30;
const PIECE: usize = 1 << 20;
const LINE: usize = 4 << 10;

/// Reads the text of an option, or standard input.
pub(super) fn asked(host: &Host, common: &Common, options: &Diagnose) -> Result<Log, Error> {
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |error| Error::Unreadable { path, error }
    };
    if let Some(text) = &options.text {
        return read(text.as_bytes(), None).map_err(unreadable(Path::new("--text")));
    }
    if let Some(file) = options.from.as_ref().filter(|file| *file != Path::new("-")) {
        let (input, size) = host::open_named(&host.absolute(file)).map_err(unreadable(file))?;
        return read(input, size).map_err(unreadable(file));
    }
    let (input, is_terminal) = host::standard_input();
    if is_terminal && !common.quiet {
        say("paste the message, then Ctrl-D");
    }
    read(input, None).map_err(unreadable(Path::new("-")))
}

/// `size` is that of a file. Without it, the end of the text is kept until all is read.
fn read(input: impl Read, size: Option<u64>) -> io::Result<Log> {
    let mut input = BufReader::with_capacity(LINE, input);
    let mut reader = LogReader::default();
    let tail = size.map(|size| size.saturating_sub(TAIL as u64));
    let mut at = 0_u64;
    loop {
        let piece = whole_lines(&mut input)?;
        at += piece.len() as u64;
        if size.is_none() && at > MAX_STREAM_BYTES {
            return Err(io::Error::other(
                "no end within a gigabyte; save it to a file, which may have any size, and name that with --from",
            ));
        }
        match tail {
            _ if reader.taken() < HEAD => reader.take(&piece),
            Some(tail) if at <= tail => reader.pass_over(&piece),
            Some(_) => reader.take(&piece),
            None => reader.keep(&piece, TAIL),
        }
        if piece.len() < PIECE {
            break;
        }
    }
    Ok(reader.finish())
}

/// Reads a piece that ends with a line, if a line ends soon after it.
fn whole_lines(input: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut piece = Vec::with_capacity(PIECE + LINE);
    input.take(PIECE as u64).read_to_end(&mut piece)?;
    if piece.len() == PIECE && piece.last() != Some(&b'\n') {
        input.take(LINE as u64).read_until(b'\n', &mut piece)?;
    }
    Ok(piece)
}
