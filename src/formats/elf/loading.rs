//! The checks of the dynamic loader before it maps a file, in its order.

use object::LittleEndian as LE;
use object::elf::{DT_FLAGS_1, ET_DYN, ET_EXEC};

use super::Elf;

const HEADER: usize = 64;
const SEGMENT: u64 = 56;
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
    let half = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
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
    if half(18) != machine {
        return Err(Unloadable::Foreign);
    }
    if half(16) != ET_DYN.0 && half(16) != ET_EXEC.0 {
        return broken;
    }
    let start = u64::from_le_bytes(header[32..40].try_into().expect("eight bytes"));
    let end = start.checked_add(u64::from(half(56)) * SEGMENT);
    if u64::from(half(54)) != SEGMENT || end.is_none_or(|end| end > data.len() as u64) {
        return broken;
    }
    Ok(())
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
