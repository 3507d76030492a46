//! Writes small shared objects with the names, search paths, symbols, versions and constants of a description. `readelf`
//! and our own readers accept them; no loader opens one.
#![allow(
    clippy::cast_possible_truncation,
    reason = "nothing that is written is longer than a description"
)]

use std::collections::BTreeMap;

use serde::Deserialize;

#[path = "parts.rs"]
mod parts;

use parts::{Bytes, Section, Strings, fat_binary, note_of_build, note_section, section_table};

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
    /// The exports have no versions.
    pub unversioned: bool,
    /// Other version nodes that it defines, as a C library does.
    pub versions: Vec<String>,
    /// Imported functions by needed file; those of an empty file name have no version. The version node has the name of
    /// the file, or follows an `@`.
    pub imports: BTreeMap<String, Vec<String>>,
    /// Texts in the read-only data.
    pub constants: Vec<String>,
    /// Functions that return a number.
    pub functions: BTreeMap<String, u32>,
    /// Exported objects of four bytes.
    pub objects: BTreeMap<String, u32>,
    /// Numbers that its code passes to `snprintf`.
    pub printed: Option<[u32; 3]>,
    /// The CUDA runtime that is linked into it: 12040 is 12.4.
    pub runtime: Option<u32>,
    /// A driver library's note on the kernel drivers that it may serve.
    pub forward_compatibility: Option<String>,
    /// 62 is x86-64, 183 is aarch64.
    pub machine: Option<u16>,
    /// A 32-bit file.
    pub is_32_bit: bool,
    /// In hexadecimal.
    pub build_id: Option<String>,
    /// GPU code: `sm_90a`, `compute_90 x 12`; one container with an empty entry for each.
    pub code: Vec<String>,
    /// GPU code in separate sections, by section name.
    pub code_in: BTreeMap<String, Vec<String>>,
    /// Its headers name a segment beyond the end of the file.
    pub truncated: bool,
}

const ALLOCATED: u64 = 2;
const CODE: u64 = 4;
const AARCH64: u16 = 183;

/// Symbols with their versions, and the tables that both are in.
struct Tables {
    symbols: Bytes,
    versions: Bytes,
    needed: Bytes,
    needed_files: u64,
    defined: Bytes,
    defined_nodes: u64,
}

impl Elf {
    /// Returns the bytes of the file. Fails on a bad description.
    pub fn build(&self) -> Result<Vec<u8>, String> {
        let mut strings = Strings::default();
        let header = 64 + 56 * (4 + usize::from(self.truncated));
        let mut body = Bytes(vec![0; header]);
        let mut sections = Vec::new();

        let interpreter = self.interpreter.as_ref().map(|interpreter| {
            let at = body.0.len();
            body.0.extend_from_slice(interpreter.as_bytes());
            body.0.push(0);
            (at as u64, interpreter.len() as u64 + 1)
        });
        let start = body.0.len();
        for constant in &self.constants {
            body.0.push(0);
            body.0.extend_from_slice(constant.as_bytes());
            body.0.push(0);
        }
        sections.push(Section::new(".rodata", ALLOCATED, start, body.0.len()));
        body.align();
        body.0.extend(fat_binary(&self.code)?);
        for (name, code) in &self.code_in {
            body.align();
            let start = body.0.len();
            body.0.extend(fat_binary(code)?);
            sections.push(Section::new(name, ALLOCATED, start, body.0.len()));
        }
        let build_id = self
            .build_id
            .as_ref()
            .map(|id| note_of_build(&mut body, id))
            .transpose()?;
        body.align();
        let start = body.0.len();
        let defined = self.definitions(&mut body);
        sections.push(Section::new(".text", ALLOCATED | CODE, start, body.0.len()));
        body.align();
        let tables = self.tables(&defined, &mut strings);

        let mut entries: Vec<(u64, u64)> = Vec::new();
        for needed in &self.needed {
            entries.push((1, strings.add(needed).into()));
        }
        for (tag, text) in [(14, &self.soname), (15, &self.rpath), (29, &self.runpath)] {
            if let Some(text) = text {
                entries.push((tag, strings.add(text).into()));
            }
        }
        let count = tables.symbols.0.len() / 24;
        let mut hash = Bytes::default();
        hash.u32([1, count as u32]);
        hash.0.resize(hash.0.len() + 4 * (1 + count), 0);
        let mut place = |bytes: &[u8], tag: u64, entries: &mut Vec<(u64, u64)>| {
            body.align();
            entries.push((tag, body.0.len() as u64));
            body.0.extend_from_slice(bytes);
        };
        place(&tables.symbols.0, 6, &mut entries);
        place(&hash.0, 4, &mut entries);
        place(&tables.versions.0, 0x6fff_fff0, &mut entries);
        if tables.needed_files > 0 {
            place(&tables.needed.0, 0x6fff_fffe, &mut entries);
            entries.push((0x6fff_ffff, tables.needed_files));
        }
        if tables.defined_nodes > 0 {
            place(&tables.defined.0, 0x6fff_fffc, &mut entries);
            entries.push((0x6fff_fffd, tables.defined_nodes));
        }
        place(&strings.0, 5, &mut entries);
        entries.push((10, strings.0.len() as u64));
        entries.push((0, 0));

        body.align();
        let dynamic = body.0.len() as u64;
        body.u64(entries.into_iter().flat_map(|(tag, value)| [tag, value]));
        let dynamic_size = body.0.len() as u64 - dynamic;
        // Without facts that only sections contain there are no sections: readers then use segments.
        if self.runtime.is_none() && self.printed.is_none() && self.code_in.is_empty() {
            sections.clear();
        }
        sections.extend(
            self.forward_compatibility
                .as_ref()
                .map(|note| note_section(&mut body, note)),
        );
        let table = (!sections.is_empty()).then(|| section_table(&mut body, &sections));
        let size = body.0.len() as u64;
        let mut segments = vec![(1, 0, size), (2, dynamic, dynamic_size)];
        segments.extend(interpreter.map(|(at, length)| (3, at, length)));
        segments.extend(build_id.map(|(at, length)| (4, at, length)));
        segments.extend(self.truncated.then_some((1, size, 4096)));
        let head = self.head(&segments, table, sections.len() as u16 + 2);
        body.0[..head.0.len()].copy_from_slice(&head.0);
        Ok(body.0)
    }

    /// Writes functions and objects. Returns the name, offset and size of each.
    fn definitions(&self, body: &mut Bytes) -> Vec<(String, u64, u64)> {
        let mut defined = Vec::new();
        let is_arm = self.machine == Some(AARCH64);
        for (name, number) in &self.functions {
            let at = body.0.len();
            if is_arm {
                // movz w0,#low; movk w0,#high,lsl #16; ret
                let (low, high) = (number & 0xffff, number >> 16);
                body.u32([0x5280_0000 | low << 5, 0x72a0_0000 | high << 5, 0xd65f_03c0]);
            } else {
                // mov $number,%eax; ret
                body.0.push(0xb8);
                body.u32([*number]);
                body.0.push(0xc3);
            }
            defined.push((name.clone(), at as u64, (body.0.len() - at) as u64));
        }
        if let Some(number) = self.runtime {
            if is_arm {
                body.align();
                body.u32([
                    0x5280_0002 | (number & 0xffff) << 5,
                    0x5280_0000,
                    0xb900_0022,
                    0xd65f_03c0,
                ]);
            } else {
                body.0
                    .extend_from_slice(&[0x48, 0x85, 0xff, 0x74, 0x0b, 0xc7, 0x07]);
                body.u32([number]);
                body.0.extend_from_slice(&[0x31, 0xc0, 0xc3]);
            }
        }
        if let Some([major, minor, patch]) = self.printed {
            // push $patch; mov $minor,%r9d; mov $major,%r8d
            body.0.extend_from_slice(&[0x6a, patch as u8, 0x41, 0xb9]);
            body.u32([minor]);
            body.0.extend_from_slice(&[0x41, 0xb8]);
            body.u32([major]);
        }
        for (name, number) in &self.objects {
            body.align();
            defined.push((name.clone(), body.0.len() as u64, 4));
            body.u32([*number]);
        }
        defined
    }

    /// Writes imports, then definitions, and their version indexes.
    fn tables(&self, defined: &[(String, u64, u64)], strings: &mut Strings) -> Tables {
        let (mut symbols, mut versions) = (Bytes(vec![0; 24]), Bytes(vec![0; 2]));
        let has_own = !(self.unversioned || self.exports.is_empty() && defined.is_empty());
        let own: Vec<&String> = self.soname.iter().filter(|_| has_own).collect();
        let own_nodes: Vec<&String> = own.iter().copied().chain(&self.versions).collect();
        let mut next = 2 + own_nodes.len() as u16;
        let mut needed: Vec<(&str, Vec<(&str, u16)>)> = Vec::new();
        for (file, names) in &self.imports {
            let mut nodes: Vec<(&str, u16)> = Vec::new();
            let mut known: BTreeMap<&str, u16> = BTreeMap::new();
            for name in names {
                let (name, version) = name.split_once('@').unwrap_or((name, file));
                let index = match known.get(version) {
                    _ if file.is_empty() => 1,
                    Some(index) => *index,
                    None => {
                        next += 1;
                        nodes.push((version, next - 1));
                        known.insert(version, next - 1);
                        next - 1
                    }
                };
                symbols.u32([strings.add(name), 0x12]);
                symbols.u64([0, 0]);
                versions.u16([index]);
            }
            if !nodes.is_empty() {
                needed.push((file, nodes));
            }
        }
        let exported = self.exports.iter().map(|name| (name, 0, 6));
        let all = exported.chain(defined.iter().map(|(name, at, size)| (name, *at, *size)));
        for (name, at, size) in all {
            symbols.u32([strings.add(name), 0x0001_0012]);
            symbols.u64([at, size]);
            versions.u16([if own.is_empty() { 1 } else { 2 }]);
        }
        let needed_files = needed.len() as u64;
        let mut verneed = Bytes::default();
        for (position, (file, nodes)) in needed.iter().enumerate() {
            let is_last = position + 1 == needed.len();
            let next = if is_last {
                0
            } else {
                16 + 16 * nodes.len() as u32
            };
            verneed.u16([1, nodes.len() as u16]);
            verneed.u32([strings.add(file), 16, next]);
            for (place, (node, index)) in nodes.iter().enumerate() {
                let next = if place + 1 == nodes.len() { 0 } else { 16 };
                verneed.u32([0, u32::from(*index) << 16, strings.add(node), next]);
            }
        }
        let mut verdef = Bytes::default();
        // The first is the name of the file itself; no symbol has it.
        let base = self
            .soname
            .iter()
            .filter(|_| !own_nodes.is_empty())
            .map(|name| (1, 1, name));
        let nodes = base.chain(
            own_nodes
                .iter()
                .zip(2..)
                .map(|(name, index)| (0, index, *name)),
        );
        let nodes: Vec<(u16, u16, &String)> = nodes.collect();
        for (position, (flags, index, name)) in nodes.iter().enumerate() {
            let next = if position + 1 == nodes.len() { 0 } else { 28 };
            verdef.u16([1, *flags, *index, 1]);
            verdef.u32([0, 20, next, strings.add(name), 0]);
        }
        Tables {
            symbols,
            versions,
            needed: verneed,
            needed_files,
            defined: verdef,
            defined_nodes: nodes.len() as u64,
        }
    }

    fn head(&self, segments: &[(u32, u64, u64)], table: Option<u64>, sections: u16) -> Bytes {
        let mut head = Bytes::default();
        head.0
            .extend_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
        head.0[4] = if self.is_32_bit { 1 } else { 2 };
        head.u16([3, self.machine.unwrap_or(62)]);
        head.u32([1]);
        head.u64([0, 64, table.unwrap_or(0)]);
        head.u32([0]);
        let (sections, names) = if table.is_some() {
            (sections, sections - 1)
        } else {
            (0, 0)
        };
        head.u16([64, 56, segments.len() as u16, 64, sections, names]);
        for (kind, offset, size) in segments {
            head.u32([*kind, 4]);
            head.u64([*offset, *offset, *offset, *size, *size, 8]);
        }
        head
    }
}
