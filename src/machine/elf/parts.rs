//! What such a file is put together from: bytes, strings, containers of GPU code, notes, the table of sections.
#![allow(clippy::cast_possible_truncation, reason = "nothing that is written is longer than a description")]

/// The bytes of an entry of GPU code.
pub(super) const ENTRY: usize = 64;

#[derive(Default)]
pub(super) struct Bytes(pub(super) Vec<u8>);

impl Bytes {
    pub(super) fn u16(&mut self, value: u16) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn align(&mut self) {
        while !self.0.len().is_multiple_of(8) {
            self.0.push(0);
        }
    }
}

#[derive(Default)]
pub(super) struct Strings(pub(super) Vec<u8>);

impl Strings {
    pub(super) fn add(&mut self, text: &str) -> u32 {
        if self.0.is_empty() {
            self.0.push(0);
        }
        let at = self.0.len() as u32;
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(0);
        at
    }
}

/// A section to be written into the table of them.
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
        Section { name: name.to_owned(), kind: 1, flags, at, size, align: 1 }
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
    body.u32(4);
    body.u32(bytes.len() as u32);
    body.u32(3);
    body.0.extend_from_slice(b"GNU\0");
    body.0.extend_from_slice(&bytes);
    Ok((at, body.0.len() as u64 - at))
}

/// Entries of GPU code that are all alike.
struct Alike<'t> {
    kind: u16,
    number: u32,
    suffix: &'t str,
    count: usize,
}

fn alike(text: &str) -> Result<Alike<'_>, String> {
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
    Ok(Alike { kind, number, suffix, count })
}

/// How many entries these are.
pub(super) fn count<'t>(code: impl IntoIterator<Item = &'t String>) -> Result<usize, String> {
    code.into_iter().try_fold(0_usize, |sum, text| Ok(sum.saturating_add(alike(text)?.count)))
}

/// A container of entries that hold nothing but what they are made for.
pub(super) fn fat_binary(code: &[String]) -> Result<Vec<u8>, String> {
    let mut entries = Bytes::default();
    for text in code {
        let Alike { kind, number, suffix, count } = alike(text)?;
        for _ in 0..count {
            entries.u16(kind);
            entries.u16(0x0101);
            entries.u32(ENTRY as u32);
            entries.u64(0);
            entries.u64(0);
            entries.u32(0);
            entries.u32(number);
            entries.u64(0);
            entries.u64(match suffix {
                "a" => 0x0010_0011,
                "f" => 0x0020_0011,
                _ => 0x11,
            });
            entries.0.resize(entries.0.len().next_multiple_of(ENTRY), 0);
        }
    }
    let mut container = Bytes::default();
    if !code.is_empty() {
        container.u32(0xba55_ed50);
        container.u16(1);
        container.u16(16);
        container.u64(entries.0.len() as u64);
        container.0.extend(entries.0);
    }
    Ok(container.0)
}

/// A note of NVIDIA's in a section of its own.
pub(super) fn note_section(body: &mut Bytes, json: &str) -> Section {
    body.align();
    let note = body.0.len();
    let owner = b"NVIDIA Corporation\0";
    body.u32(owner.len() as u32);
    body.u32(json.len() as u32);
    body.u32(1);
    body.0.extend_from_slice(owner);
    while !body.0.len().is_multiple_of(4) {
        body.0.push(0);
    }
    body.0.extend_from_slice(json.as_bytes());
    let section = Section::new(".note.cuda.fwd_compatibility", 0, note, body.0.len());
    Section { kind: 7, align: 4, ..section }
}

/// The table that names the sections, after their names; where it begins.
pub(super) fn section_table(body: &mut Bytes, sections: &[Section]) -> u64 {
    body.align();
    let names_at = body.0.len() as u64;
    let mut names = Strings::default();
    names.add("");
    let offsets: Vec<u32> = sections.iter().map(|section| names.add(&section.name)).collect();
    let own = names.add(".shstrtab");
    body.0.extend_from_slice(&names.0);
    body.align();
    let table = body.0.len() as u64;
    let mut write = |name: u32, section: &Section| {
        body.u32(name);
        body.u32(section.kind);
        body.u64(section.flags);
        body.u64(0);
        body.u64(section.at);
        body.u64(section.size);
        body.u32(0);
        body.u32(0);
        body.u64(section.align);
        body.u64(0);
    };
    let of = |kind, at, size| Section { name: String::new(), kind, flags: 0, at, size, align: 1 };
    write(0, &of(0, 0, 0));
    for (name, section) in offsets.iter().zip(sections) {
        write(*name, section);
    }
    write(own, &of(3, names_at, names.0.len() as u64));
    table
}
