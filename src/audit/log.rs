//! The log of mapped files. A record has five fields, each ended by NUL, and a line feed: process, rule, requester, name,
//! path. The reader creates the file: a process that outlives the program must not create it again. Failures are silent, and
//! no descriptor stays open, because programs close descriptors that they do not know.

use crate::system::{self, Piece};

/// The variable that names the file.
pub(crate) const VARIABLE: &str = "CUDARUN_TRACE";

/// No path is longer.
const FIELD_LIMIT: usize = 4096;

/// Adds one record, by one write, so that those of many processes do not mix. `file` ends in NUL.
pub(crate) fn append(file: &[u8], rule: &[u8], requester: &[u8], name: &[u8], path: &[u8]) {
    let Some(descriptor) = open(file) else { return };
    let mut digits = [0; 20];
    let process = decimal(system::process_id(), &mut digits);
    let pieces = [
        field(process),
        Piece::new(b"\0"),
        field(rule),
        Piece::new(b"\0"),
        field(requester),
        Piece::new(b"\0"),
        field(name),
        Piece::new(b"\0"),
        field(path),
        Piece::new(b"\0\n"),
    ];
    system::write(descriptor, &pieces);
    system::close(descriptor);
}

fn field(text: &[u8]) -> Piece {
    Piece::new(text.get(..FIELD_LIMIT).unwrap_or(text))
}

/// Gives a descriptor above the standard streams: if one of those is closed, the program would print into the log.
fn open(file: &[u8]) -> Option<usize> {
    let descriptor = system::open_to_append(file)?;
    if descriptor > 2 {
        return Some(descriptor);
    }
    let above = system::above_standard_streams(descriptor);
    system::close(descriptor);
    above
}

fn decimal(mut number: usize, digits: &mut [u8; 20]) -> &[u8] {
    let mut used = 0;
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789".get(number % 10).copied().unwrap_or_default();
        number /= 10;
        used += 1;
        if number == 0 {
            break;
        }
    }
    digits.get(digits.len() - used..).unwrap_or_default()
}
