//! RPM's database of installed packages where it is one of SQLite, and the header that it keeps of each package.
//! Of the other two kinds, Berkeley DB and ndb, nothing is read.

use std::collections::BTreeSet;

use super::sqlite::{Database, Value, values};

pub use super::sqlite::SqliteError as DatabaseError;

const NAME: u32 = 1000;
const VERSION: u32 = 1001;
const RELEASE: u32 = 1002;
const ARCHITECTURE: u32 = 1022;
const FILE_STATES: u32 = 1029;
const DIRECTORY_INDICES: u32 = 1116;
const BASENAMES: u32 = 1117;
const DIRECTORY_NAMES: u32 = 1118;

const CHARACTER: u32 = 1;
const INT32: u32 = 4;
const STRING: u32 = 6;
const STRING_ARRAY: u32 = 8;

/// No path is longer, and no package has more libraries: one long directory may be shared by all of its files.
const PATH_LIMIT: usize = 4096;
const FILE_LIMIT: usize = 4096;

/// What the header of an installed package says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Package {
    pub name: String,
    pub version: String,
    pub release: String,
    pub architecture: String,
    /// Those of its files that are wanted and that it still has.
    pub files: Vec<String>,
}

/// The installed packages whose names are wanted, each with its files whose names are wanted.
pub fn installed(
    database: &[u8],
    is_wanted: &dyn Fn(&str) -> bool,
    is_wanted_file: &dyn Fn(&str) -> bool,
) -> Result<Vec<Package>, DatabaseError> {
    let data = database;
    let database = Database::parse(data)?;
    let (names, packages) = (database.table("Name")?, database.table("Packages")?);
    let mut wanted = BTreeSet::new();
    // The index of names is short, and most headers go on in pages that need not be read then.
    database.each_row(names, &mut |row| {
        if let [Value::Bytes(name), Value::Integer(package), ..] = values(row.start)[..]
            && std::str::from_utf8(name).is_ok_and(is_wanted)
        {
            wanted.insert(package);
        }
    })?;
    let mut found = Vec::new();
    // No two rows share bytes: together they are not more than there are.
    let mut left = data.len();
    database.each_row(packages, &mut |row| {
        if !wanted.contains(&row.number) || row.size > left {
            return;
        }
        left -= row.size;
        let Some(row) = database.whole(row) else { return };
        if let [_, Value::Bytes(header), ..] = values(&row)[..] {
            found.extend(package(header, is_wanted_file));
        }
    })?;
    Ok(found)
}

/// Reads a header as the database has it, without the magic that it has in a package file.
pub fn package(header: &[u8], is_wanted_file: &dyn Fn(&str) -> bool) -> Option<Package> {
    let count = u32_at(header, 0)? as usize;
    let (index, store) = header.get(8..)?.split_at_checked(count.checked_mul(16)?)?;
    let header = Header { index, store: store.get(..u32_at(header, 4)? as usize)? };
    let text = |tag| header.text(tag);
    Some(Package {
        name: text(NAME)?,
        version: text(VERSION)?,
        release: text(RELEASE)?,
        architecture: text(ARCHITECTURE).unwrap_or_default(),
        files: header.files(is_wanted_file).unwrap_or_default(),
    })
}

struct Header<'h> {
    index: &'h [u8],
    store: &'h [u8],
}

impl<'h> Header<'h> {
    /// The bytes from where the values of a tag begin, and how many values there are.
    fn find(&self, tag: u32, kind: u32) -> Option<(&'h [u8], usize)> {
        let is_it = |entry: &&[u8]| u32_at(entry, 0) == Some(tag) && u32_at(entry, 4) == Some(kind);
        let entry = self.index.chunks_exact(16).find(is_it)?;
        Some((self.store.get(u32_at(entry, 8)? as usize..)?, u32_at(entry, 12)? as usize))
    }

    fn text(&self, tag: u32) -> Option<String> {
        let (bytes, _) = self.find(tag, STRING)?;
        text(bytes).map(str::to_owned)
    }

    fn texts(&self, tag: u32) -> Option<impl Iterator<Item = Option<&'h str>>> {
        let (mut bytes, count) = self.find(tag, STRING_ARRAY)?;
        // One that is not UTF-8 keeps its place.
        let next = move |_| {
            let end = memchr::memchr(0, bytes)?;
            let (text, rest) = (&bytes[..end], &bytes[end + 1..]);
            bytes = rest;
            Some(std::str::from_utf8(text).ok())
        };
        Some((0..count).map_while(next))
    }

    fn files(&self, is_wanted: &dyn Fn(&str) -> bool) -> Option<Vec<String>> {
        let directories: Vec<Option<&str>> = self.texts(DIRECTORY_NAMES)?.collect();
        let (indices, _) = self.find(DIRECTORY_INDICES, INT32)?;
        let states = self.find(FILE_STATES, CHARACTER).map_or(&[][..], |(states, _)| states);
        let wanted = self.texts(BASENAMES)?.enumerate().filter_map(|(at, name)| {
            let name = name.filter(|name| is_wanted(name))?;
            // Another state than this: replaced by another package's, or never written.
            states.get(at).is_none_or(|state| *state == 0).then_some(())?;
            let directory = u32_at(indices, at.checked_mul(4)?)? as usize;
            let directory =
                (*directories.get(directory)?).filter(|directory| directory.len() <= PATH_LIMIT)?;
            Some(format!("{directory}{name}"))
        });
        Some(wanted.take(FILE_LIMIT).collect())
    }
}

/// What stands before the first zero.
fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(&bytes[..memchr::memchr(0, bytes)?]).ok()
}

fn u32_at(data: &[u8], offset: usize) -> Option<u32> {
    data.get(offset..offset.checked_add(4)?)?.try_into().ok().map(u32::from_be_bytes)
}
