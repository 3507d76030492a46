//! The archive that PyInstaller appends to a program. A cookie near the end of the file gives the position of its table
//! (CArchive of PyInstaller 3 to 6, see its `bootloader/src/pyi_archive.h`).

/// The start of the cookie.
const MAGIC: &[u8; 8] = b"MEI\x0c\x0b\x0a\x0b\x0e";
/// The size of the cookie: the magic, four numbers and the name of Python's library.
const COOKIE: usize = 88;
/// Section headers and signatures may follow the cookie.
const TAIL: usize = 64 << 10;
/// A table of a hundred thousand files is smaller.
const TABLE_LIMIT: usize = 16 << 20;

/// The content of a packed program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Archive {
    /// The shared objects in it, as paths below its directory. A program that comes as a directory has none.
    pub libraries: Vec<String>,
    /// The directory beside the program that holds the rest, if there is one.
    pub directory: Option<String>,
}

/// The archive of a packed program.
pub fn archive(data: &[u8]) -> Option<Archive> {
    let tail = data.len().saturating_sub(TAIL);
    let cookie = tail + memchr::memmem::rfind(&data[tail..], MAGIC)?;
    let length = big_endian(data, cookie + 8)?;
    let table = big_endian(data, cookie + 12)?;
    let size = big_endian(data, cookie + 16)?;
    let start = (cookie + COOKIE).checked_sub(length)?.checked_add(table)?;
    let mut rest = data.get(start..start.checked_add(size.min(TABLE_LIMIT))?)?;
    let mut archive = Archive::default();
    // Each entry: its own length, position, two sizes, a flag for compression, its kind, its name.
    while let Some(entry) = rest.get(..18) {
        let length = big_endian(entry, 0)?;
        let Some(name) = rest.get(18..length) else {
            break;
        };
        let name =
            String::from_utf8_lossy(name.split(|byte| *byte == 0).next().unwrap_or_default());
        match entry[17] {
            b'b' => archive.libraries.push(name.into_owned()),
            b'o' => {
                if let Some(directory) = name.strip_prefix("pyi-contents-directory ") {
                    archive.directory = Some(directory.to_owned());
                }
            }
            _ => {}
        }
        rest = &rest[length..];
    }
    Some(archive)
}

fn big_endian(data: &[u8], offset: usize) -> Option<usize> {
    Some(u32::from_be_bytes(*data.get(offset..)?.first_chunk()?) as usize)
}
