//! The checks of the dynamic loader before it maps a file, in its order.

use object::LittleEndian as LE;
use object::elf::{DT_FLAGS_1, ET_DYN, ET_EXEC};

use super::Elf;
use crate::formats::numbers::{u16_at, u64_at};

const HEADER: usize = 64;
const SEGMENT: u16 = 56;
/// `DF_1_PIE`: a program, although it is built like a library.
const PIE: u64 = 0x0800_0000;

/// The reason why the loader does not take a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unloadable {
    /// For another kind of machine. The loader skips it.
    Foreign,
    /// An error that ends the search, and the program with it.
    Broken(&'static str),
}

/// Fails where the loader does not take a file with these bytes in a program for `machine`.
pub fn check(data: &[u8], machine: u16) -> Result<(), Unloadable> {
    if data.is_empty() {
        return Err(Unloadable::Broken("an empty file"));
    }
    let broken = Err(Unloadable::Broken("not a library"));
    let Some(header) = data.get(..HEADER) else {
        return broken;
    };
    if header[..4] != *b"\x7fELF" {
        return broken;
    }
    if header[4] != 2 {
        return Err(Unloadable::Foreign);
    }
    // Little-endian, version 1, the ABI of System V or GNU with its version, then zeros.
    let is_known = header[5] == 1 && header[6] == 1 && matches!(header[7..9], [0, 0] | [3, 0..=4]);
    if !is_known || header[9..16] != [0; 7] {
        return broken;
    }
    if header[20..24] != [1, 0, 0, 0] {
        return broken;
    }
    if u16_at(header, 18) != Some(machine) {
        return Err(Unloadable::Foreign);
    }
    let kind = u16_at(header, 16);
    if kind != Some(ET_DYN.0) && kind != Some(ET_EXEC.0) {
        return broken;
    }
    if u16_at(header, 54) != Some(SEGMENT) || !has_segments(header, data.len()) {
        return broken;
    }
    Ok(())
}

/// True if the table of segments is in the file.
fn has_segments(header: &[u8], length: usize) -> bool {
    let start = u64_at(header, 32);
    let count = u16_at(header, 56).unwrap_or_default();
    let end = start.and_then(|start| start.checked_add(u64::from(count) * u64::from(SEGMENT)));
    end.is_some_and(|end| end <= length as u64)
}

impl Elf<'_> {
    /// True for a program, which cannot be loaded into another one.
    pub fn is_program(&self) -> bool {
        self.header.e_type.get(LE) == ET_EXEC
            || self.value(DT_FLAGS_1).is_some_and(|flags| flags & PIE != 0)
    }

    /// True if it has a segment to map.
    pub fn is_loadable(&self) -> bool {
        self.loads().next().is_some()
    }
}
