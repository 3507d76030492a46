//! Makes a small library a large one: constants that are holes, with the texts of the library at their end, and fat
//! binaries of which only headers are written.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes from one entry of GPU code to the next, and entries in a container. In cuBLAS 12.4, cuDNN 9.1,
/// cuFFT 11.2, cuSPARSE 12.3 and NCCL 2.21 it is every 17 to 320 kB, and up to eleven of them.
const ENTRY: u64 = 200_000;
const ENTRIES: u64 = 6;
const MAGIC: u32 = 0xba55_ed50;
const ARCHITECTURES: [u32; ENTRIES as usize] = [60, 70, 75, 80, 86, 90];

/// Adds sections to a library that was written to a file; returns how large it is then.
pub fn add(path: &Path, elf: &[u8], constants: u64, code: u64) -> u64 {
    let file = File::options().write(true).open(path).unwrap();
    let beginning = elf.len() as u64;
    let constants = (2 * beginning + constants).next_multiple_of(4096);
    file.write_all_at(elf, constants - beginning).unwrap();
    let containers = code / (ENTRY * ENTRIES);
    for container in 0..containers {
        let at = constants + container * (ENTRY * ENTRIES + 16);
        let header = [
            &MAGIC.to_le_bytes()[..],
            &1_u16.to_le_bytes(),
            &16_u16.to_le_bytes(),
            &(ENTRY * ENTRIES).to_le_bytes(),
        ];
        file.write_all_at(&header.concat(), at).unwrap();
        for (number, architecture) in (0..).zip(ARCHITECTURES) {
            file.write_all_at(&entry(architecture), at + 16 + number * ENTRY)
                .unwrap();
        }
    }
    let names_at = constants + containers * (ENTRY * ENTRIES + 16);
    let names = b"\0.rodata\0.nv_fatbin\0.shstrtab\0";
    let table_at = (names_at + names.len() as u64).next_multiple_of(8);
    let mut table = vec![0; 64];
    for (name, kind, flags, at, size) in [
        (1_u32, 1_u32, 2_u64, beginning, constants - beginning),
        (9, 1, 2, constants, names_at - constants),
        (20, 3, 0, names_at, names.len() as u64),
    ] {
        table.extend([name.to_le_bytes(), kind.to_le_bytes()].concat());
        table.extend(
            [flags, at, at, size, 0, 1, 0]
                .map(u64::to_le_bytes)
                .concat(),
        );
    }
    file.write_all_at(names, names_at).unwrap();
    file.write_all_at(&table, table_at).unwrap();
    // The file's header: where the table of sections is, how many there are, and which of them has their names.
    file.write_all_at(&table_at.to_le_bytes(), 0x28).unwrap();
    file.write_all_at(&[4, 0, 3, 0], 0x3c).unwrap();
    table_at + table.len() as u64
}

/// The header of an entry of machine code.
fn entry(architecture: u32) -> [u8; 64] {
    let mut header = [0; 64];
    header[..2].copy_from_slice(&2_u16.to_le_bytes());
    header[4..8].copy_from_slice(&64_u32.to_le_bytes());
    header[8..16].copy_from_slice(&(ENTRY - 64).to_le_bytes());
    header[28..32].copy_from_slice(&architecture.to_le_bytes());
    header
}
