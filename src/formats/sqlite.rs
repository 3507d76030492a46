//! SQLite databases, as far as it takes to read the rows of a table in place.
//! Nothing is ever locked, written or evaluated, so that a database of another machine, or one that means harm, is
//! bytes like any other. What still stands in a write-ahead log beside the file is not seen.
//!
//! The library itself (rusqlite 0.41, bundled) made the binary larger by 1.9 MB and needed libm, and every warm start
//! took 6 % longer, with or without a database (2026-11-21).

use std::collections::HashSet;
use std::fmt;

const MAGIC: &[u8] = b"SQLite format 3\0";
/// The header of the database stands in its first page, before that page's own.
const HEADER: usize = 100;
const INTERIOR: u8 = 0x05;
/// Nobody here asks for more columns than the schema has.
const COLUMNS: usize = 5;
const LEAF: u8 = 0x0d;
const SCHEMA: u32 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SqliteError(&'static str);

impl fmt::Display for SqliteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a database of SQLite ({})", self.0)
    }
}

pub struct Database<'d> {
    data: &'d [u8],
    page_size: usize,
    /// What of a page may be used.
    usable: usize,
}

/// A value in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'r> {
    Null,
    Integer(i64),
    Real,
    /// A text or a blob.
    Bytes(&'r [u8]),
}

/// The root page of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table(u32);

/// A row as it stands in a leaf.
pub struct Row<'d> {
    pub number: i64,
    /// As much of it as stands in the leaf, which is all of a short one.
    pub start: &'d [u8],
    /// How long all of it is.
    pub size: usize,
    /// The page where it goes on.
    next: u32,
}

struct Page<'d> {
    bytes: &'d [u8],
    /// Where its header stands.
    at: usize,
    is_leaf: bool,
    /// How many cells it has.
    count: usize,
}

impl<'d> Database<'d> {
    pub fn parse(data: &'d [u8]) -> Result<Database<'d>, SqliteError> {
        if !data.starts_with(MAGIC) {
            return Err(SqliteError("magic"));
        }
        let page_size = match u16_at(data, 16).ok_or(SqliteError("header"))? {
            1 => 65536,
            size => usize::from(size),
        };
        let reserved = usize::from(*data.get(20).ok_or(SqliteError("header"))?);
        let usable = page_size.saturating_sub(reserved);
        if usable < 480 || !page_size.is_power_of_two() {
            return Err(SqliteError("page size"));
        }
        Ok(Database { data, page_size, usable })
    }

    pub fn table(&self, name: &str) -> Result<Table, SqliteError> {
        let mut root = None;
        self.each_row(Table(SCHEMA), &mut |row| {
            // type, name, tbl_name, rootpage, sql
            if let [Value::Bytes(b"table"), Value::Bytes(its), _, Value::Integer(page), ..] =
                values(row.start)[..]
                && its == name.as_bytes()
            {
                root = u32::try_from(page).ok();
            }
        })?;
        root.map(Table).ok_or(SqliteError("no such table"))
    }

    /// Shows every row, in order. No page is looked at twice, whatever they say of each other.
    pub fn each_row(&self, table: Table, see: &mut dyn FnMut(&Row<'d>)) -> Result<(), SqliteError> {
        let mut pending = vec![table.0];
        let mut seen = HashSet::new();
        while let Some(number) = pending.pop() {
            if !seen.insert(number) {
                return Err(SqliteError("a page in two places"));
            }
            let page = self.page(number)?;
            if page.is_leaf {
                for index in 0..page.count {
                    see(&self.row_at(&page, index).ok_or(SqliteError("cell"))?);
                }
                continue;
            }
            pending.extend(page.children().ok_or(SqliteError("cell"))?.iter().rev());
        }
        Ok(())
    }

    fn page(&self, number: u32) -> Result<Page<'d>, SqliteError> {
        let bytes = self.bytes_of(number).ok_or(SqliteError("page"))?;
        let at = if number == SCHEMA { HEADER } else { 0 };
        let is_leaf = match bytes.get(at) {
            Some(&LEAF) => true,
            Some(&INTERIOR) => false,
            _ => return Err(SqliteError("kind of page")),
        };
        let count = u16_at(bytes, at + 3).map(usize::from).ok_or(SqliteError("page"))?;
        Ok(Page { bytes, at, is_leaf, count })
    }

    /// Pages count from one.
    fn bytes_of(&self, number: u32) -> Option<&'d [u8]> {
        let start = (number as usize).checked_sub(1)?.checked_mul(self.page_size)?;
        self.data.get(start..start.checked_add(self.usable)?)
    }

    fn row_at(&self, page: &Page<'d>, index: usize) -> Option<Row<'d>> {
        let cell = page.cell(index, 8)?;
        let (size, cell) = varint(cell)?;
        let (number, cell) = varint(cell)?;
        let size = usize::try_from(size).ok()?;
        let most = self.usable - 35;
        if size <= most {
            return Some(Row { number, start: cell.get(..size)?, size, next: 0 });
        }
        let least = (self.usable - 12) * 32 / 255 - 23;
        let wanted = least + (size - least) % (self.usable - 4);
        let start = cell.get(..if wanted <= most { wanted } else { least })?;
        Some(Row { number, start, size, next: u32_at(cell, start.len())? })
    }

    /// A row together with what of it stands in pages of its own; none when they are not what they should be.
    pub fn whole(&self, row: &Row<'d>) -> Option<Vec<u8>> {
        let mut whole = Vec::with_capacity(row.size.min(self.data.len()));
        whole.extend_from_slice(row.start);
        let mut next = row.next;
        while whole.len() < row.size {
            let page = self.bytes_of(next).filter(|_| whole.len() < self.data.len())?;
            let (following, rest) = page.split_at(4);
            whole.extend_from_slice(&rest[..rest.len().min(row.size - whole.len())]);
            next = u32_at(following, 0)?;
        }
        Some(whole)
    }
}

impl<'d> Page<'d> {
    /// The cell at this place in the table after a header of this size.
    fn cell(&self, index: usize, header: usize) -> Option<&'d [u8]> {
        let pointer = u16_at(self.bytes, self.at + header + 2 * index)?;
        self.bytes.get(usize::from(pointer)..)
    }

    /// The children of an interior page.
    fn children(&self) -> Option<Vec<u32>> {
        let last = || u32_at(self.bytes, self.at + 8);
        let others = (0..self.count).map(|index| u32_at(self.cell(index, 12)?, 0));
        others.chain(std::iter::once_with(last)).collect()
    }
}

/// The values of a row, up to the first that is not all there.
pub fn values(row: &[u8]) -> Vec<Value<'_>> {
    let mut found = Vec::new();
    let Some((size, _)) = varint(row) else { return found };
    let Some((mut header, mut body)) = usize::try_from(size).ok().and_then(|size| row.split_at_checked(size))
    else {
        return found;
    };
    header = varint(header).map_or(&[], |(_, rest)| rest);
    while found.len() < COLUMNS
        && let Some((kind, rest)) = varint(header)
    {
        header = rest;
        let size = match kind {
            0 | 8 | 9 => 0,
            1..=4 => kind,
            5 => 6,
            6 | 7 => 8,
            12.. => (kind - 12) / 2,
            _ => break,
        };
        let Some((bytes, rest)) = usize::try_from(size).ok().and_then(|size| body.split_at_checked(size))
        else {
            break;
        };
        body = rest;
        found.push(match kind {
            0 => Value::Null,
            1..=6 => Value::Integer(integer(bytes)),
            7 => Value::Real,
            8 | 9 => Value::Integer(kind - 8),
            _ => Value::Bytes(bytes),
        });
    }
    found
}

/// Big-endian, of up to eight bytes, with a sign.
fn integer(bytes: &[u8]) -> i64 {
    let start = if bytes.first().is_some_and(|first| first & 0x80 != 0) { -1 } else { 0 };
    bytes.iter().fold(start, |number, byte| number << 8 | i64::from(*byte))
}

/// Seven bits a byte, most significant first, of the ninth byte all eight; and what follows.
fn varint(data: &[u8]) -> Option<(i64, &[u8])> {
    let mut number: u64 = 0;
    for (index, byte) in data.iter().enumerate().take(9) {
        if index == 8 {
            return Some(((number << 8 | u64::from(*byte)).cast_signed(), &data[9..]));
        }
        number = number << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((number.cast_signed(), &data[index + 1..]));
        }
    }
    None
}

fn u16_at(data: &[u8], offset: usize) -> Option<u16> {
    data.get(offset..offset + 2)?.try_into().ok().map(u16::from_be_bytes)
}

fn u32_at(data: &[u8], offset: usize) -> Option<u32> {
    data.get(offset..offset + 4)?.try_into().ok().map(u32::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_are_written() {
        assert_eq!(varint(&[0x7f, 1]), Some((127, &[1][..])));
        assert_eq!(varint(&[0x81, 0x00]), Some((128, &[][..])));
        assert_eq!(varint(&[0xff; 9]), Some((-1, &[][..])));
        assert_eq!((varint(&[]), varint(&[0x80; 8])), (None, None));
        assert_eq!((integer(&[0xff, 0xfe]), integer(&[0x01, 0x00]), integer(&[])), (-2, 256, 0));
    }

    #[test]
    fn values_end_where_the_row_does() {
        let row = [5, 0, 9, 1, 19, 0xfe, b'a', b'b', b'c'];
        let all = [Value::Null, Value::Integer(1), Value::Integer(-2), Value::Bytes(b"abc")];
        assert_eq!(values(&row), all);
        for length in 0..row.len() {
            assert_eq!(
                values(&row[..length]),
                all[..if length < 5 { 0 } else { 2 + usize::from(length > 5) }]
            );
        }
        assert_eq!(values(&[2, 11, 0]), [], "a kind that is not in use");
    }
}
