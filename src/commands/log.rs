//! Reads the text that `cudarun diagnose` explains: all of a short one; of a long one, the beginning and the end.

use std::io::{self, ErrorKind, Read};
use std::path::Path;

use super::say;
use crate::cli::{Common, Diagnose};
use crate::diagnose::{Log, LogReader};
use crate::error::Error;
use crate::host::{self, Host};

/// Bytes that are read of a long text: at its beginning, and at its end.
const HEAD: usize = 8 << 20;
const TAIL: usize = 56 << 20;
const PIECE: usize = 1 << 20;

/// Reads the text of an option, or standard input.
pub(super) fn asked(host: &Host, common: &Common, options: &Diagnose) -> Result<Log, Error> {
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |error| Error::Unreadable { path, error }
    };
    if let Some(text) = &options.text {
        return read(&mut text.as_bytes(), None).map_err(unreadable(Path::new("--text")));
    }
    if let Some(file) = options.from.as_ref().filter(|file| *file != Path::new("-")) {
        let (mut input, size) = host.open(&host.absolute(file)).map_err(unreadable(file))?;
        return read(&mut input, Some(size)).map_err(unreadable(file));
    }
    let (mut input, is_terminal) = host::standard_input();
    if is_terminal && !common.quiet {
        say("paste the message, then Ctrl-D");
    }
    read(&mut input, None).map_err(unreadable(Path::new("-")))
}

/// `size` is that of a file. Without it, the end of the text is kept until all is read.
fn read(input: &mut impl Read, size: Option<u64>) -> io::Result<Log> {
    let mut reader = LogReader::default();
    let tail = size.map(|size| size.saturating_sub(TAIL as u64));
    let mut at = 0_u64;
    loop {
        let piece = whole_lines(input)?;
        if piece.is_empty() {
            break;
        }
        at += piece.len() as u64;
        match tail {
            _ if reader.taken() < HEAD => reader.take(&piece),
            Some(tail) if at <= tail => reader.pass_over(&piece),
            Some(_) => reader.take(&piece),
            None => reader.keep(&piece, TAIL),
        }
    }
    Ok(reader.finish())
}

/// Reads a piece that ends with a line, if a line ends soon after it.
fn whole_lines(input: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut piece = Vec::with_capacity(PIECE + 4096);
    input.take(PIECE as u64).read_to_end(&mut piece)?;
    let mut byte = [0];
    while piece.len() >= PIECE && piece.len() < PIECE + 4096 && piece.last() != Some(&b'\n') {
        match input.read(&mut byte) {
            Ok(0) => break,
            Ok(_) => piece.push(byte[0]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(piece)
}
