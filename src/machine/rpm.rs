//! Writes RPM's database of installed packages as SQLite stores it, in pages so small that headers go on in others and
//! tables have several. `rpm` reads real ones: tests/packages.sh.
#![allow(clippy::cast_possible_truncation, reason = "nothing that is written is longer than a description")]

use std::collections::BTreeSet;

use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    pub name: String,
    pub version: String,
    pub release: String,
    #[serde(default = "architecture")]
    pub architecture: String,
    #[serde(default)]
    pub files: Vec<String>,
    /// Those that are recorded and not there, replaced by another package's.
    #[serde(default)]
    pub replaced: Vec<String>,
}

fn architecture() -> String {
    "x86_64".to_owned()
}

const PAGE: usize = 512;
/// As many pages as one page above them names.
const CHILDREN: usize = 40;

enum Value<'v> {
    Null,
    Integer(u32),
    Text(&'v str),
    Blob(&'v [u8]),
}

/// The pages after the first, which is the schema's.
#[derive(Default)]
struct Pages(Vec<Vec<u8>>);

impl Package {
    /// The header as the database keeps it.
    pub fn header(&self) -> Vec<u8> {
        let (mut index, mut store) = (Vec::new(), Vec::new());
        let mut add = |tag: u32, kind: u32, count: usize, bytes: &[u8]| {
            if kind == 4 {
                store.resize(store.len().next_multiple_of(4), 0);
            }
            for number in [tag, kind, store.len() as u32, count as u32] {
                index.extend_from_slice(&number.to_be_bytes());
            }
            store.extend_from_slice(bytes);
        };
        let text = |text: &str| [text.as_bytes(), b"\0"].concat();
        for (tag, value) in [(1000, &self.name), (1001, &self.version), (1002, &self.release)] {
            add(tag, 6, 1, &text(value));
        }
        add(1022, 6, 1, &text(&self.architecture));
        let files: Vec<&String> = self.files.iter().chain(&self.replaced).collect();
        let replaced: BTreeSet<&String> = self.replaced.iter().collect();
        let states: Vec<u8> = files.iter().map(|file| u8::from(replaced.contains(file))).collect();
        let parts: Vec<(&str, &str)> =
            files.iter().map(|file| file.split_at(file.rfind('/').map_or(0, |at| at + 1))).collect();
        let mut directories: Vec<&str> = parts.iter().map(|(directory, _)| *directory).collect();
        directories.sort_unstable();
        directories.dedup();
        let place = |directory: &str| directories.binary_search(&directory).unwrap_or_default() as u32;
        if !files.is_empty() {
            add(1029, 1, files.len(), &states);
            let indices: Vec<u8> =
                parts.iter().flat_map(|(directory, _)| place(directory).to_be_bytes()).collect();
            add(1116, 4, files.len(), &indices);
            add(1117, 8, files.len(), &parts.iter().flat_map(|(_, name)| text(name)).collect::<Vec<u8>>());
            add(
                1118,
                8,
                directories.len(),
                &directories.iter().flat_map(|name| text(name)).collect::<Vec<u8>>(),
            );
        }
        let sizes = [(index.len() / 16) as u32, store.len() as u32];
        [sizes.map(u32::to_be_bytes).concat(), index, store].concat()
    }
}

/// The database in which these packages are installed.
pub fn database(packages: &[Package]) -> Vec<u8> {
    let mut pages = Pages::default();
    let headers: Vec<Vec<u8>> = packages.iter().map(Package::header).collect();
    let rows = headers.iter().map(|header| record(&[Value::Null, Value::Blob(header)]));
    let headers = pages.table(&rows.collect::<Vec<_>>());
    let named = packages.iter().zip(1..);
    let rows = named
        .map(|(package, at)| record(&[Value::Text(&package.name), Value::Integer(at), Value::Integer(0)]));
    let names = pages.table(&rows.collect::<Vec<_>>());
    let schema: Vec<Vec<u8>> = [("Packages", headers), ("Name", names)]
        .iter()
        .map(|(name, root)| {
            let sql = format!("CREATE TABLE '{name}' (hnum INTEGER)");
            record(&[
                Value::Text("table"),
                Value::Text(name),
                Value::Text(name),
                Value::Integer(*root),
                Value::Text(&sql),
            ])
        })
        .collect();
    let mut header = b"SQLite format 3\0".to_vec();
    header.extend_from_slice(&(PAGE as u16).to_be_bytes());
    header.resize(100, 0);
    let cells: Vec<Vec<u8>> = schema.iter().zip(1..).map(|(row, number)| pages.cell(number, row)).collect();
    let first = page(&header, LEAF, &cells, &[]);
    [vec![first], pages.0].concat().concat()
}

const INTERIOR: u8 = 0x05;
const LEAF: u8 = 0x0d;

impl Pages {
    /// Adds a page and returns its number.
    fn add(&mut self, page: Vec<u8>) -> u32 {
        self.0.push(page);
        self.0.len() as u32 + 1
    }

    /// Adds the rows, numbered from one, and returns the root.
    fn table(&mut self, rows: &[Vec<u8>]) -> u32 {
        let mut leaves: Vec<(Vec<Vec<u8>>, u32)> = vec![(Vec::new(), 0)];
        for (row, number) in rows.iter().zip(1..) {
            let cell = self.cell(number, row);
            let used = |cells: &[Vec<u8>]| cells.iter().map(|cell| cell.len() + 2).sum::<usize>();
            match leaves.last_mut() {
                Some((cells, last)) if used(cells) + cell.len() + 2 + 8 <= PAGE => {
                    cells.push(cell);
                    *last = number;
                }
                _ => leaves.push((vec![cell], number)),
            }
        }
        let mut children: Vec<(u32, u32)> =
            leaves.iter().map(|(cells, last)| (self.add(page(&[], LEAF, cells, &[])), *last)).collect();
        let cell =
            |(child, last): &(u32, u32)| [child.to_be_bytes().to_vec(), varint(*last as usize)].concat();
        while children.len() > 1 {
            let groups: Vec<Vec<(u32, u32)>> = children.chunks(CHILDREN).map(<[_]>::to_vec).collect();
            children = Vec::new();
            for mut group in groups {
                let Some((right, last)) = group.pop() else { continue };
                let cells: Vec<Vec<u8>> = group.iter().map(cell).collect();
                children.push((self.add(page(&[], INTERIOR, &cells, &right.to_be_bytes())), last));
            }
        }
        children.first().map_or(0, |(root, _)| *root)
    }

    /// The cell of a row in a leaf; what is too long goes on in pages that are added.
    fn cell(&mut self, number: u32, row: &[u8]) -> Vec<u8> {
        let (most, least) = (PAGE - 35, (PAGE - 12) * 32 / 255 - 23);
        let head = [varint(row.len()), varint(number as usize)].concat();
        if row.len() <= most {
            return [head, row.to_vec()].concat();
        }
        let wanted = least + (row.len() - least) % (PAGE - 4);
        let (local, rest) = row.split_at(if wanted <= most { wanted } else { least });
        let mut next = 0;
        for chunk in rest.chunks(PAGE - 4).rev() {
            let mut page = [&u32::to_be_bytes(next), chunk].concat();
            page.resize(PAGE, 0);
            next = self.add(page);
        }
        [&head, local, &next.to_be_bytes()].concat()
    }
}

/// A page of a table: a header, pointers, and the cells at its end.
fn page(before: &[u8], kind: u8, cells: &[Vec<u8>], after: &[u8]) -> Vec<u8> {
    let mut pointers = Vec::new();
    let mut at = PAGE;
    for cell in cells {
        at -= cell.len();
        pointers.extend_from_slice(&(at as u16).to_be_bytes());
    }
    let mut page =
        [before, &[kind, 0, 0], &(cells.len() as u16).to_be_bytes(), &(at as u16).to_be_bytes(), &[0], after]
            .concat();
    page.extend(pointers);
    debug_assert!(page.len() <= at, "more than a page holds");
    page.resize(at, 0);
    page.extend(cells.iter().rev().flatten());
    page
}

fn record(values: &[Value<'_>]) -> Vec<u8> {
    let (mut kinds, mut body) = (Vec::new(), Vec::new());
    for value in values {
        let (kind, bytes) = match value {
            Value::Null => (0, Vec::new()),
            Value::Integer(number) => (4, number.to_be_bytes().to_vec()),
            Value::Text(text) => (13 + 2 * text.len(), text.as_bytes().to_vec()),
            Value::Blob(blob) => (12 + 2 * blob.len(), blob.to_vec()),
        };
        kinds.extend(varint(kind));
        body.extend(bytes);
    }
    [varint(kinds.len() + 1), kinds, body].concat()
}

fn varint(mut number: usize) -> Vec<u8> {
    let mut bytes = vec![(number & 0x7f) as u8];
    while number > 0x7f {
        number >>= 7;
        bytes.insert(0, (number & 0x7f) as u8 | 0x80);
    }
    bytes
}
