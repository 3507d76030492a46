//! Parts of an ELF file: numbers, strings, containers of GPU code, notes, the table of sections.
#![allow(
    clippy::cast_possible_truncation,
    reason = "nothing that is written is longer than a description"
)]

/// The bytes of an entry of GPU code.
pub(super) const ENTRY: usize = 64;

#[derive(Default)]
pub(super) struct Bytes(pub(super) Vec<u8>);

impl Bytes {
    pub(super) fn u16(&mut self, values: impl IntoIterator<Item = u16>) {
        self.0.extend(values.into_iter().flat_map(u16::to_le_bytes));
    }

    pub(super) fn u32(&mut self, values: impl IntoIterator<Item = u32>) {
        self.0.extend(values.into_iter().flat_map(u32::to_le_bytes));
    }

    pub(super) fn u64(&mut self, values: impl IntoIterator<Item = u64>) {
        self.0.extend(values.into_iter().flat_map(u64::to_le_bytes));
    }

    pub(super) fn align(&mut self) {
        self.0.resize(self.0.len().next_multiple_of(8), 0);
    }
}

/// A string table, which begins with an empty string.
pub(super) struct Strings(pub(super) Vec<u8>);

impl Default for Strings {
    fn default() -> Strings {
        Strings(vec![0])
    }
}

impl Strings {
    /// Returns the offset of the text in the table.
    pub(super) fn add(&mut self, text: &str) -> u32 {
        let at = self.0.len() as u32;
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(0);
        at
    }
}

/// An entry of the table of sections.
pub(super) struct Section {
    name: String,
    kind: u32,
    flags: u64,
    at: u64,
    size: u64,
    align: u64,
}

impl Section {
    pub(super) fn new(name: &str, flags: u64, start: usize, end: usize) -> Section {
        let (at, size) = (start as u64, (end - start) as u64);
        Section {
            name: name.to_owned(),
            kind: 1,
            flags,
            at,
            size,
            align: 1,
        }
    }
}

pub(super) fn note_of_build(body: &mut Bytes, id: &str) -> Result<(u64, u64), String> {
    body.align();
    let at = body.0.len() as u64;
    let digits = id.as_bytes().chunks(2).map(|two| {
        let two = std::str::from_utf8(two).ok().filter(|two| two.len() == 2)?;
        u8::from_str_radix(two, 16).ok()
    });
    let bytes: Option<Vec<u8>> = digits.collect();
    let bytes = bytes.ok_or_else(|| format!("build_id: `{id}` is not hexadecimal"))?;
    body.u32([4, bytes.len() as u32, 3]);
    body.0.extend_from_slice(b"GNU\0");
    body.0.extend_from_slice(&bytes);
    Ok((at, body.0.len() as u64 - at))
}

/// A number of equal entries of GPU code.
struct CodeEntries<'t> {
    kind: u16,
    number: u32,
    suffix: &'t str,
    count: usize,
}

fn code_entries(text: &str) -> Result<CodeEntries<'_>, String> {
    let bad = || format!("code: `{text}` is not like `sm_90a` or `compute_90 x 12`");
    let (name, count) = text.split_once(" x ").unwrap_or((text, "1"));
    let count: usize = count.parse().map_err(|_| bad())?;
    let (kind, rest) = name.split_once('_').ok_or_else(bad)?;
    let number = rest.trim_end_matches(['a', 'f']);
    let (number, suffix): (u32, &str) = (number.parse().map_err(|_| bad())?, &rest[number.len()..]);
    let kind = match kind {
        "sm" => 2,
        "compute" => 1,
        _ => return Err(bad()),
    };
    Ok(CodeEntries {
        kind,
        number,
        suffix,
        count,
    })
}

/// Returns a container of entries without code, each for its architecture.
pub(super) fn fat_binary(code: &[String]) -> Result<Vec<u8>, String> {
    let mut entries = Bytes::default();
    for text in code {
        let CodeEntries {
            kind,
            number,
            suffix,
            count,
        } = code_entries(text)?;
        let flags = match suffix {
            "a" => 0x0010_0011,
            "f" => 0x0020_0011,
            _ => 0x11,
        };
        for _ in 0..count {
            entries.u16([kind, 0x0101]);
            entries.u32([ENTRY as u32, 0, 0, 0, 0, 0, number]);
            entries.u64([0, flags]);
            entries.0.resize(entries.0.len().next_multiple_of(ENTRY), 0);
        }
    }
    let mut container = Bytes::default();
    if !code.is_empty() {
        container.u32([0xba55_ed50]);
        container.u16([1, 16]);
        container.u64([entries.0.len() as u64]);
        container.0.extend(entries.0);
    }
    Ok(container.0)
}

/// Writes NVIDIA's note and returns its section.
pub(super) fn note_section(body: &mut Bytes, json: &str) -> Section {
    body.align();
    let note = body.0.len();
    let owner = b"NVIDIA Corporation\0";
    body.u32([owner.len() as u32, json.len() as u32, 1]);
    body.0.extend_from_slice(owner);
    body.0.resize(body.0.len().next_multiple_of(4), 0);
    body.0.extend_from_slice(json.as_bytes());
    let section = Section::new(".note.cuda.fwd_compatibility", 0, note, body.0.len());
    Section {
        kind: 7,
        align: 4,
        ..section
    }
}

/// Writes the names of the sections and then their table. Returns the offset of the table.
pub(super) fn section_table(body: &mut Bytes, sections: &[Section]) -> u64 {
    body.align();
    let names_at = body.0.len();
    let mut names = Strings::default();
    let offsets: Vec<u32> = sections
        .iter()
        .map(|section| names.add(&section.name))
        .collect();
    let own = names.add(".shstrtab");
    body.0.extend_from_slice(&names.0);
    body.align();
    let table = body.0.len() as u64;
    body.0.resize(body.0.len() + 64, 0);
    let of_names = Section {
        kind: 3,
        ..Section::new(".shstrtab", 0, names_at, names_at + names.0.len())
    };
    let all = offsets.into_iter().zip(sections).chain([(own, &of_names)]);
    for (
        name,
        Section {
            kind,
            flags,
            at,
            size,
            align,
            ..
        },
    ) in all
    {
        body.u32([name, *kind]);
        body.u64([*flags, 0, *at, *size, 0, *align, 0]);
    }
    table
}
