//! Headers of tar archives: POSIX's of 1988 and 2001, and GNU's. Extended headers are returned as they are: the caller
//! limits how much of them it reads, because an archive may come from a stranger.

/// The unit of an archive, in bytes.
pub const BLOCK: usize = 512;
const NO_NUMBER: &str = "a field of a header is no number";
const DAMAGED: &str = "a record is damaged";

/// One header. Its file's contents follow, filled up to whole blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TarHeader {
    pub kind: u8,
    pub path: Vec<u8>,
    pub link: Vec<u8>,
    pub size: u64,
    pub mode: u32,
    pub uid: u64,
    pub gid: u64,
    /// Seconds.
    pub modified: i64,
}

/// Kinds of headers.
pub mod kind {
    pub const FILES: [u8; 3] = [b'0', b'\0', b'7'];
    pub const HARD_LINK: u8 = b'1';
    pub const LINK: u8 = b'2';
    pub const DIRECTORY: u8 = b'5';
    /// Links, devices, directories and fifos can have a size, and nothing follows them.
    pub const WITHOUT_CONTENTS: [u8; 6] = [HARD_LINK, LINK, b'3', b'4', DIRECTORY, b'6'];
    /// GNU's file with holes, whose map may go on after the header.
    pub const SPARSE: u8 = b'S';
    /// The next header's path and link, by GNU's tar.
    pub const LONG_PATH: u8 = b'L';
    pub const LONG_LINK: u8 = b'K';
    /// Records for the next header, and for all that follow.
    pub const RECORDS: u8 = b'x';
    /// [`RECORDS`], by Sun's tar.
    pub const SUN_RECORDS: u8 = b'X';
    pub const GLOBAL_RECORDS: u8 = b'g';
}

impl TarHeader {
    /// Reads a header; none for the block of zeros at the end of an archive.
    pub fn parse(block: &[u8; BLOCK]) -> Result<Option<TarHeader>, &'static str> {
        if block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let sum = number(&block[148..156]).ok_or("the sum of a header is no number")?;
        // The sum counts its own field as eight blanks.
        let counted = block[..148].iter().chain(b"        ").chain(&block[156..]);
        if counted.map(|byte| u64::from(*byte)).sum::<u64>() != sum {
            return Err("the sum of a header is wrong");
        }
        let mut path = text(&block[..100]).to_vec();
        let prefix = text(&block[345..500]);
        if &block[257..263] == b"ustar\0" && !prefix.is_empty() {
            path = [prefix, b"/", &path].concat();
        }
        let mode = number(&block[100..108]).ok_or(NO_NUMBER)? & 0o7777;
        Ok(Some(TarHeader {
            kind: block[156],
            path,
            link: text(&block[157..257]).to_vec(),
            size: number(&block[124..136]).ok_or(NO_NUMBER)?,
            mode: u32::try_from(mode).unwrap_or_default(),
            // Archives without users have blanks here.
            uid: number(&block[108..116]).unwrap_or_default(),
            gid: number(&block[116..124]).unwrap_or_default(),
            modified: number(&block[136..148])
                .and_then(|time| i64::try_from(time).ok())
                .unwrap_or_default(),
        }))
    }

    /// Replaces what the records of an extended header say better. Returns true if the file has capabilities.
    pub fn apply(&mut self, records: &[u8]) -> Result<bool, &'static str> {
        let mut has_capabilities = false;
        let mut rest = records;
        while !rest.is_empty() {
            let length = record_length(rest).ok_or(DAMAGED)?;
            let record = rest.split_off(..length).ok_or(DAMAGED)?;
            let TarRecord { key, value } = TarRecord::parse(record).ok_or(DAMAGED)?;
            let number = decimal(value);
            match key {
                b"path" => self.path = value.to_vec(),
                b"linkpath" => self.link = value.to_vec(),
                b"size" => self.size = number.ok_or("the size in a record is no number")?,
                b"uid" => self.uid = number.unwrap_or(self.uid),
                b"gid" => self.gid = number.unwrap_or(self.gid),
                b"SCHILY.xattr.security.capability" => has_capabilities = true,
                _ if key.starts_with(b"GNU.sparse.") => return Err("it has a file with holes"),
                _ => {}
            }
        }
        Ok(has_capabilities)
    }
}

/// `LENGTH KEY=VALUE\n`; the length counts the whole record.
struct TarRecord<'r> {
    key: &'r [u8],
    value: &'r [u8],
}

impl TarRecord<'_> {
    fn parse(record: &[u8]) -> Option<TarRecord<'_>> {
        let blank = memchr::memchr(b' ', record)?;
        let pair = record[blank + 1..].strip_suffix(b"\n")?;
        let equals = memchr::memchr(b'=', pair)?;
        Some(TarRecord {
            key: &pair[..equals],
            value: &pair[equals + 1..],
        })
    }
}

fn record_length(bytes: &[u8]) -> Option<usize> {
    let blank = memchr::memchr(b' ', bytes)?;
    usize::try_from(decimal(&bytes[..blank])?).ok()
}

fn decimal(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The text of a field, up to its first NUL.
pub fn text(field: &[u8]) -> &[u8] {
    &field[..memchr::memchr(0, field).unwrap_or(field.len())]
}

/// Octal digits between blanks, or GNU's big-endian bytes after one with the highest bit.
fn number(field: &[u8]) -> Option<u64> {
    if field.first().is_some_and(|first| first & 0x80 != 0) {
        // A negative number, or one of more than eight bytes, counts as unreadable.
        let digits = field.strip_prefix(&[0x80])?;
        return digits.iter().try_fold(0_u64, |number, byte| {
            number.checked_mul(256)?.checked_add(u64::from(*byte))
        });
    }
    let digits = std::str::from_utf8(text(field)).ok()?.trim_matches(' ');
    if digits.is_empty() {
        Some(0)
    } else {
        u64::from_str_radix(digits, 8).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header as `tar --format=ustar` writes it.
    fn block(kind: u8, path: &str, size: &str) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        block[..path.len()].copy_from_slice(path.as_bytes());
        block[100..108].copy_from_slice(b"0000755\0");
        block[108..116].copy_from_slice(b"0001750\0");
        block[124..124 + size.len()].copy_from_slice(size.as_bytes());
        block[156] = kind;
        block[257..263].copy_from_slice(b"ustar\0");
        block[148..156].fill(b' ');
        let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
        block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        block
    }

    #[test]
    fn headers_are_read() {
        let header = TarHeader::parse(&block(b'0', "usr/lib/a.so", "00000001750\0"))
            .unwrap()
            .unwrap();
        assert_eq!(
            (header.path.as_slice(), header.size),
            (b"usr/lib/a.so".as_slice(), 1000)
        );
        assert_eq!((header.mode, header.uid, header.kind), (0o755, 1000, b'0'));
        assert_eq!(TarHeader::parse(&[0; BLOCK]), Ok(None));
        let mut damaged = block(b'0', "a", "0");
        damaged[0] = b'b';
        assert_eq!(
            TarHeader::parse(&damaged),
            Err("the sum of a header is wrong")
        );
    }

    #[test]
    fn numbers_are_octal_or_bytes() {
        assert_eq!(number(b" 0001750 "), Some(1000));
        assert_eq!(number(b"\0\0\0\0"), Some(0));
        assert_eq!(number(b"\x80\0\0\0\0\0\0\x02\0\0\0\0"), Some(8 << 30));
        assert_eq!(
            number(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
            None
        );
        assert_eq!(number(b"0009"), None);
        // A uid has a field of eight bytes.
        assert_eq!(number(b"\x80\0\0\0\x7f\xff\xff\xff"), Some(0x7fff_ffff));
        assert_eq!(number(b"\x80\x01\0\0\0\0\0\0\0\0\0\0"), None);
    }

    #[test]
    fn records_replace_what_a_header_says() {
        let mut header = TarHeader::parse(&block(b'0', "short", "0"))
            .unwrap()
            .unwrap();
        let records = b"20 path=a long path\n23 size=20000000000000\n41 SCHILY.xattr.security.capability=\x01\n\0\x02\n";
        assert_eq!(header.apply(records), Ok(true));
        assert_eq!(
            (header.path.as_slice(), header.size),
            (b"a long path".as_slice(), 20_000_000_000_000)
        );
        assert_eq!(header.apply(b"7 a=b\n"), Err("a record is damaged"));
        assert_eq!(
            header.apply(b"99999999999999999999 a=b\n"),
            Err("a record is damaged")
        );
        assert_eq!(header.apply(b"0 a=b\n"), Err("a record is damaged"));
        // GNU's formats 1.0, 0.1 and 0.0.
        for holes in [
            "22 GNU.sparse.major=1\n",
            "22 GNU.sparse.map=0,1\n",
            "23 GNU.sparse.offset=0\n",
        ] {
            assert_eq!(
                header.apply(holes.as_bytes()),
                Err("it has a file with holes")
            );
        }
        assert_eq!(header.apply(b"24 GNU.volume.label=abc\n"), Ok(false));
    }
}
