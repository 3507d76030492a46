//! Writes small shared objects that say what a test needs them to say: names, search paths, symbols with
//! versions, constants. `readelf` reads them; the real loader is given real ones, built by a compiler.

use std::collections::BTreeMap;

use serde::Deserialize;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Elf {
    pub soname: Option<String>,
    pub needed: Vec<String>,
    pub rpath: Option<String>,
    pub runpath: Option<String>,
    /// The loader: makes it an executable.
    pub interpreter: Option<String>,
    /// Exported functions; the version node is the SONAME.
    pub exports: Vec<String>,
    /// They have no versions.
    pub unversioned: bool,
    /// Imported functions, by the needed file that they come from; without a name they have no version.
    pub imports: BTreeMap<String, Vec<String>>,
    /// Texts in the read-only data.
    pub constants: Vec<String>,
    /// Functions that return a number.
    pub functions: BTreeMap<String, u32>,
    /// A driver library's note on the kernel drivers that it may serve.
    pub forward_compatibility: Option<String>,
    /// 62 is x86-64, 183 is aarch64.
    pub machine: Option<u16>,
    /// A 32-bit file.
    pub is_32_bit: bool,
    /// In hexadecimal.
    pub build_id: Option<String>,
    /// GPU code: `sm_90a`, `compute_90`; one container with an empty entry for each.
    pub code: Vec<String>,
}

const BASE: u64 = 0;

#[derive(Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn u16(&mut self, value: u16) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn align(&mut self) {
        while !self.0.len().is_multiple_of(8) {
            self.0.push(0);
        }
    }
}

#[derive(Default)]
struct Strings(Vec<u8>);

impl Strings {
    fn add(&mut self, text: &str) -> u32 {
        if self.0.is_empty() {
            self.0.push(0);
        }
        let at = self.0.len() as u32;
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(0);
        at
    }
}

impl Elf {
    pub fn build(&self) -> Vec<u8> {
        let mut strings = Strings::default();
        strings.add("");
        let header = 64 + 4 * 56;
        let mut body = Bytes(vec![0; header]);

        let interpreter = self.interpreter.as_ref().map(|interpreter| {
            let at = body.0.len();
            body.0.extend_from_slice(interpreter.as_bytes());
            body.0.push(0);
            (at as u64, interpreter.len() as u64 + 1)
        });
        for constant in &self.constants {
            body.0.push(0);
            body.0.extend_from_slice(constant.as_bytes());
            body.0.push(0);
        }
        body.align();
        body.0.extend(fat_binary(&self.code));
        let build_id = self.build_id.as_ref().map(|id| {
            let at = body.0.len() as u64;
            let bytes: Vec<u8> =
                (0..id.len() / 2).map(|i| u8::from_str_radix(&id[2 * i..2 * i + 2], 16).unwrap()).collect();
            body.u32(4);
            body.u32(bytes.len() as u32);
            body.u32(3);
            body.0.extend_from_slice(b"GNU\0");
            body.0.extend_from_slice(&bytes);
            (at, body.0.len() as u64 - at)
        });
        body.align();

        // Functions: mov $number,%eax; ret
        let mut code = BTreeMap::new();
        for (name, number) in &self.functions {
            code.insert(name.clone(), body.0.len() as u64);
            body.0.push(0xb8);
            body.u32(*number);
            body.0.push(0xc3);
        }
        body.align();

        // Symbols: imports first, then exports; version indexes beside them.
        let mut symbols = Bytes(vec![0; 24]);
        let mut versions = Bytes::default();
        versions.u16(0);
        let mut nodes: Vec<(String, u16)> = Vec::new();
        let own = self
            .soname
            .clone()
            .filter(|_| !self.unversioned)
            .filter(|_| !self.exports.is_empty() || !self.functions.is_empty());
        let own_index = own.as_ref().map(|_| 2_u16);
        for (file, names) in &self.imports {
            let index = if file.is_empty() { 1 } else { 3 + nodes.len() as u16 };
            if !file.is_empty() {
                nodes.push((file.clone(), index));
            }
            for name in names {
                symbols.u32(strings.add(name));
                symbols.0.extend_from_slice(&[0x12, 0, 0, 0]);
                symbols.u64(0);
                symbols.u64(0);
                versions.u16(index);
            }
        }
        let exported = self.exports.iter().map(|name| (name, 0)).chain(code.iter().map(|(n, at)| (n, *at)));
        for (name, at) in exported {
            symbols.u32(strings.add(name));
            symbols.0.extend_from_slice(&[0x12, 0, 1, 0]);
            symbols.u64(BASE + at);
            symbols.u64(6);
            versions.u16(own_index.unwrap_or(1));
        }
        let count = symbols.0.len() / 24;

        let mut verneed = Bytes::default();
        for (position, (file, index)) in nodes.iter().enumerate() {
            verneed.u16(1);
            verneed.u16(1);
            verneed.u32(strings.add(file));
            verneed.u32(16);
            verneed.u32(if position + 1 == nodes.len() { 0 } else { 32 });
            verneed.u32(0);
            verneed.u16(0);
            verneed.u16(*index);
            verneed.u32(strings.add(file));
            verneed.u32(0);
        }
        let mut verdef = Bytes::default();
        if let Some(own) = &own {
            for (flags, index, next) in [(1, 1, 28), (0, 2, 0)] {
                verdef.u16(1);
                verdef.u16(flags);
                verdef.u16(index);
                verdef.u16(1);
                verdef.u32(0);
                verdef.u32(20);
                verdef.u32(next);
                verdef.u32(strings.add(own));
                verdef.u32(0);
            }
        }
        let mut hash = Bytes::default();
        hash.u32(1);
        hash.u32(count as u32);
        hash.u32(0);
        for _ in 0..count {
            hash.u32(0);
        }

        let mut entries: Vec<(u64, u64)> = Vec::new();
        for needed in &self.needed {
            entries.push((1, strings.add(needed).into()));
        }
        for (tag, text) in [(14, &self.soname), (15, &self.rpath), (29, &self.runpath)] {
            if let Some(text) = text {
                entries.push((tag, strings.add(text).into()));
            }
        }
        let mut place = |bytes: &[u8], tag: u64, entries: &mut Vec<(u64, u64)>| {
            body.align();
            entries.push((tag, BASE + body.0.len() as u64));
            body.0.extend_from_slice(bytes);
        };
        place(&symbols.0, 6, &mut entries);
        place(&hash.0, 4, &mut entries);
        place(&versions.0, 0x6fff_fff0, &mut entries);
        if !nodes.is_empty() {
            place(&verneed.0, 0x6fff_fffe, &mut entries);
            entries.push((0x6fff_ffff, nodes.len() as u64));
        }
        if own.is_some() {
            place(&verdef.0, 0x6fff_fffc, &mut entries);
            entries.push((0x6fff_fffd, 2));
        }
        place(&strings.0, 5, &mut entries);
        entries.push((10, strings.0.len() as u64));
        entries.push((0, 0));

        body.align();
        let dynamic = body.0.len() as u64;
        for (tag, value) in &entries {
            body.u64(*tag);
            body.u64(*value);
        }
        let dynamic_size = body.0.len() as u64 - dynamic;
        let sections = self.forward_compatibility.as_ref().map(|note| note_section(&mut body, note));
        let size = body.0.len() as u64;

        let mut head = Bytes::default();
        head.0.extend_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
        head.0[4] = if self.is_32_bit { 1 } else { 2 };
        head.u16(3);
        head.u16(self.machine.unwrap_or(62));
        head.u32(1);
        head.u64(0);
        head.u64(64);
        head.u64(sections.unwrap_or(0));
        head.u32(0);
        head.u16(64);
        head.u16(56);
        head.u16(2 + u16::from(interpreter.is_some()) + u16::from(build_id.is_some()));
        head.u16(64);
        head.u16(if sections.is_some() { 3 } else { 0 });
        head.u16(if sections.is_some() { 2 } else { 0 });
        let mut segment = |kind: u32, offset: u64, size: u64| {
            head.u32(kind);
            head.u32(4);
            head.u64(offset);
            head.u64(BASE + offset);
            head.u64(BASE + offset);
            head.u64(size);
            head.u64(size);
            head.u64(8);
        };
        segment(1, 0, size);
        segment(2, dynamic, dynamic_size);
        if let Some((at, length)) = interpreter {
            segment(3, at, length);
        }
        if let Some((at, length)) = build_id {
            segment(4, at, length);
        }
        body.0[..head.0.len()].copy_from_slice(&head.0);
        body.0
    }
}

/// A container of entries that hold nothing but what they are made for.
fn fat_binary(code: &[String]) -> Vec<u8> {
    let mut entries = Bytes::default();
    for name in code {
        let (kind, rest) = name.split_once('_').unwrap();
        let number = rest.trim_end_matches(['a', 'f']);
        entries.u16(if kind == "sm" { 2 } else { 1 });
        entries.u16(0x0101);
        entries.u32(64);
        entries.u64(0);
        entries.u64(0);
        entries.u32(0);
        entries.u32(number.parse().unwrap());
        entries.u64(0);
        entries.u64(match &rest[number.len()..] {
            "a" => 0x0010_0011,
            "f" => 0x0020_0011,
            _ => 0x11,
        });
        entries.0.resize(entries.0.len().next_multiple_of(64), 0);
    }
    let mut container = Bytes::default();
    if !code.is_empty() {
        container.u32(0xba55_ed50);
        container.u16(1);
        container.u16(16);
        container.u64(entries.0.len() as u64);
        container.0.extend(entries.0);
    }
    container.0
}

/// A note of NVIDIA's in a section of its own, with the section table that names it.
fn note_section(body: &mut Bytes, json: &str) -> u64 {
    body.align();
    let note = body.0.len() as u64;
    let owner = b"NVIDIA Corporation\0";
    body.u32(owner.len() as u32);
    body.u32(json.len() as u32);
    body.u32(1);
    body.0.extend_from_slice(owner);
    while !body.0.len().is_multiple_of(4) {
        body.0.push(0);
    }
    body.0.extend_from_slice(json.as_bytes());
    let note_size = body.0.len() as u64 - note;
    body.align();
    let names = body.0.len() as u64;
    let text = b"\0.note.cuda.fwd_compatibility\0.shstrtab\0";
    body.0.extend_from_slice(text);
    body.align();
    let table = body.0.len() as u64;
    let mut section = |name: u32, kind: u32, offset: u64, size: u64, align: u64| {
        body.u32(name);
        body.u32(kind);
        body.u64(0);
        body.u64(0);
        body.u64(offset);
        body.u64(size);
        body.u32(0);
        body.u32(0);
        body.u64(align);
        body.u64(0);
    };
    section(0, 0, 0, 0, 0);
    section(1, 7, note, note_size, 4);
    section(30, 3, names, text.len() as u64, 1);
    table
}
