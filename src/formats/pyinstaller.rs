//! The archive that PyInstaller appends to a program: what it carries. A cookie near the end of the file says where
//! its table is (CArchive of PyInstaller 3 to 6; read from its `bootloader/src/pyi_archive.h`).

/// Ends an archive; the last bytes are those of no text.
const MAGIC: &[u8; 8] = b"MEI\x0c\x0b\x0a\x0b\x0e";
/// The cookie: the magic, four numbers and the name of Python's library.
const COOKIE: usize = 88;
/// Section headers and signatures may stand behind it.
const TAIL: usize = 64 << 10;
/// A table of a hundred thousand files; more is none.
const TABLE_LIMIT: usize = 16 << 20;

/// What a packed program carries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Archive {
    /// The shared objects in it, as they will stand below its directory. A program that comes as a directory has none.
    pub libraries: Vec<String>,
    /// Where the rest stands beside the program, if it does.
    pub directory: Option<String>,
}

/// The archive of a packed program; none where there is none.
pub fn archive(data: &[u8]) -> Option<Archive> {
    let tail = data.len().saturating_sub(TAIL);
    let at = tail + memchr::memmem::rfind(&data[tail..], MAGIC)?;
    let number = |position: usize| {
        let bytes = data.get(at + position..at + position + 4)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?) as usize)
    };
    let (length, table, size) = (number(8)?, number(12)?, number(16)?);
    let start = (at + COOKIE).checked_sub(length)?.checked_add(table)?;
    let mut rest = data.get(start..start.checked_add(size.min(TABLE_LIMIT))?)?;
    let mut archive = Archive::default();
    // Each entry: its own length, position, two sizes, whether it is packed, what it is, its name.
    while let Some(entry) = rest.get(..18) {
        let length = u32::from_be_bytes(entry[..4].try_into().ok()?) as usize;
        let Some(name) = rest.get(18..length) else { break };
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let name = String::from_utf8_lossy(name);
        match entry[17] {
            b'b' => archive.libraries.push(name.into_owned()),
            b'o' => {
                let directory = name.strip_prefix("pyi-contents-directory ");
                archive.directory = directory.map(str::to_owned).or(archive.directory);
            }
            _ => {}
        }
        rest = &rest[length..];
    }
    Some(archive)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program with this table, and something behind it.
    fn packed(entries: &[(u8, &str)]) -> Vec<u8> {
        let mut table = Vec::new();
        for (kind, name) in entries {
            table.extend(((18 + name.len() + 1) as u32).to_be_bytes());
            table.extend([0; 13]);
            table.push(*kind);
            table.extend(name.as_bytes());
            table.push(0);
        }
        let contents = b"contents";
        let mut data = [b"\x7fELF and so on".as_slice(), contents, &table, MAGIC].concat();
        let length = contents.len() + table.len() + COOKIE;
        for number in [length, contents.len(), table.len(), 311] {
            data.extend((number as u32).to_be_bytes());
        }
        data.extend([0; 64]);
        data.extend(b"headers");
        data
    }

    #[test]
    fn says_what_a_program_carries() {
        let data = packed(&[
            (b'o', "pyi-contents-directory _internal"),
            (b's', "app"),
            (b'b', "nvidia/libcudnn.so.9"),
        ]);
        let archive = archive(&data).unwrap();
        assert_eq!(archive.libraries, ["nvidia/libcudnn.so.9"]);
        assert_eq!(archive.directory.as_deref(), Some("_internal"));
    }

    #[test]
    fn any_damage_is_answered() {
        let data = packed(&[(b'b', "libcudart.so.12"), (b's', "app")]);
        for length in 0..data.len() {
            let _ = archive(&data[..length]);
        }
        for index in 0..data.len() {
            let mut bad = data.clone();
            bad[index] ^= 0xff;
            let _ = archive(&bad);
        }
        assert_eq!(archive(b"MEI"), None);
    }
}
