//! An ELF file's information for the dynamic loader, and the ranges that hold its constants and code.
//! Follows program headers as the loader does. Section headers are read only for parts that the loader ignores.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStringExt;

use object::elf::{
    DT_FLAGS_1, DT_GNU_HASH, DT_HASH, DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_SONAME, DT_STRSZ,
    DT_STRTAB, DT_SYMTAB, Dyn64, DynamicTag, FileHeader64, NT_GNU_BUILD_ID, PF_X, PT_DYNAMIC,
    PT_INTERP, PT_LOAD, PT_NOTE, ProgramHeader64, SHF_ALLOC, SHF_EXECINSTR, SHT_DYNSYM, SHT_NOBITS,
    SHT_SYMTAB, SectionFlags, Sym64,
};
use object::read::elf::{
    Dyn as _, FileHeader as _, GnuHashTable, HashTable, NoteIterator, ProgramHeader as _,
    SectionHeader as _, Sym as _,
};
use object::{LittleEndian as LE, ReadRef};

pub mod loading;
mod versions;

type FileHeader = FileHeader64<LE>;
type Segment = ProgramHeader64<LE>;
type SectionHeader = object::elf::SectionHeader64<LE>;
type SymbolList<'d> = &'d [Sym64<LE>];

/// `EM_X86_64` and `EM_AARCH64`.
pub const X86_64: u16 = 62;
pub const AARCH64: u16 = 183;

/// The name of a machine in directories of GCC and Debian. Nothing is known of places on others.
pub fn machine_name(machine: u16) -> &'static str {
    if machine == AARCH64 {
        "aarch64"
    } else {
        "x86_64"
    }
}

/// No function that returns a constant is longer than this.
const CODE_LIMIT: usize = 4096;
/// No name is longer. Without a bound, many symbols that share one long name cost quadratic time.
const NAME_LIMIT: usize = 4096;
/// No library has more bytes.
const SCAN_LIMIT: usize = 4 << 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElfError {
    /// Another magic number: a linker script, a git-lfs pointer, an empty file.
    NotElf,
    /// 32-bit or big-endian. No current NVIDIA library is.
    WrongClass,
    Malformed(&'static str),
}

impl fmt::Display for ElfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ElfError::NotElf => f.write_str("not an ELF file"),
            ElfError::WrongClass => f.write_str("not a 64-bit little-endian ELF file"),
            ElfError::Malformed(what) => write!(f, "malformed ELF file ({what})"),
        }
    }
}

/// A parsed file. Strings and slices borrow from its bytes.
pub struct Elf<'d> {
    data: &'d [u8],
    header: &'d FileHeader,
    segments: &'d [Segment],
    dynamic: &'d [Dyn64<LE>],
    strings: &'d [u8],
}

/// A symbol of the dynamic table.
#[derive(Clone, Copy, Debug)]
pub struct Symbol<'d> {
    pub name: &'d [u8],
    pub defined: bool,
    pub weak: bool,
    pub address: u64,
    pub size: u64,
    /// The version node, `libcudart.so.12` or `GLIBC_2.34`.
    pub version: Option<&'d [u8]>,
    /// The file that an import is expected from.
    pub file: Option<&'d [u8]>,
}

impl<'d> Elf<'d> {
    pub fn parse(data: &'d [u8]) -> Result<Elf<'d>, ElfError> {
        if data.get(..4) != Some(b"\x7fELF") {
            return Err(ElfError::NotElf);
        }
        // Class 2 is 64-bit, encoding 1 little-endian.
        if data.get(4..6) != Some(&[2, 1]) {
            return Err(ElfError::WrongClass);
        }
        let header = FileHeader::parse(data).map_err(|_| ElfError::Malformed("header"))?;
        let segments = header
            .program_headers(LE, data)
            .map_err(|_| ElfError::Malformed("program headers"))?;
        let mut elf = Elf {
            data,
            header,
            segments,
            dynamic: &[],
            strings: &[],
        };
        elf.dynamic = elf.find_dynamic()?;
        elf.strings = elf.find_strings();
        Ok(elf)
    }

    pub fn machine(&self) -> u16 {
        self.header.e_machine(LE).0
    }

    /// True if it has a dynamic section. A static executable has none.
    pub fn is_dynamic(&self) -> bool {
        !self.dynamic.is_empty()
    }

    /// The dynamic loader that an executable asks for.
    pub fn interpreter(&self) -> Option<OsString> {
        let segment = self
            .segments
            .iter()
            .find(|segment| segment.p_type(LE) == PT_INTERP)?;
        let bytes = segment.data(LE, self.data).ok()?;
        let end = memchr::memchr(0, bytes)?;
        Some(OsString::from_vec(bytes[..end].to_vec()))
    }

    pub fn soname(&self) -> Option<&'d [u8]> {
        self.string(DT_SONAME)
    }

    pub fn needed(&self) -> impl Iterator<Item = &'d [u8]> + '_ {
        self.entries()
            .filter(|(tag, _)| *tag == DT_NEEDED)
            .filter_map(|(_, value)| self.text(u32::try_from(value).ok()?))
    }

    pub fn rpath(&self) -> Option<&'d [u8]> {
        self.string(DT_RPATH)
    }

    pub fn runpath(&self) -> Option<&'d [u8]> {
        self.string(DT_RUNPATH)
    }

    /// True for `DF_1_NODEFLIB`: the loader skips the cache and the default directories for this file.
    pub fn has_no_default_libraries(&self) -> bool {
        self.value(DT_FLAGS_1)
            .is_some_and(|flags| flags & 0x800 != 0)
    }

    /// True if a segment or the section table ends beyond the end of the file.
    pub fn is_truncated(&self) -> bool {
        let table = u64::from(self.header.e_shnum(LE)) * u64::from(self.header.e_shentsize(LE));
        let table = (self.header.e_shoff(LE), table);
        self.loads()
            .map(|load| load.file_range(LE))
            .chain((table.0 != 0).then_some(table))
            .any(|(start, size)| {
                start
                    .checked_add(size)
                    .is_none_or(|end| end > self.data.len() as u64)
            })
    }

    /// The dynamic symbols, imports and exports.
    pub fn symbols(&self) -> Vec<Symbol<'d>> {
        let versions = self.symbol_versions();
        let mut symbols = Vec::new();
        for (index, symbol) in self.dynamic_symbols().iter().enumerate().skip(1) {
            let Some(name @ [_, ..]) = self.text(symbol.st_name(LE)) else {
                continue;
            };
            let version = versions.of_symbol(index);
            symbols.push(Symbol {
                name,
                defined: !symbol.is_undefined(LE),
                weak: symbol.is_weak(),
                address: symbol.st_value(LE),
                size: symbol.st_size(LE),
                version: version.map(|node| node.name),
                file: version.and_then(|node| node.file),
            });
        }
        symbols
    }

    /// True if it defines a symbol of this name, of any version.
    pub fn exports(&self, name: &[u8]) -> bool {
        self.exports_by_hash(name).unwrap_or_else(|| {
            let symbols = self.symbols();
            symbols
                .iter()
                .any(|symbol| symbol.defined && symbol.name == name)
        })
    }

    /// Looks a name up as the loader does: in the table of GNU hashes. `None` where that is absent or cut short.
    fn exports_by_hash(&self, name: &[u8]) -> Option<bool> {
        let (table, symbols) = (self.table(DT_GNU_HASH)?, self.table(DT_SYMTAB)?);
        let word = |place: usize| {
            let bytes = table.get(4 * place..)?.first_chunk()?;
            Some(u32::from_le_bytes(*bytes))
        };
        let (buckets, first, filters) = (word(0)?, word(1)?, word(2)? as usize);
        let hash = name.iter().fold(5381_u32, |hash, byte| {
            hash.wrapping_mul(33).wrapping_add(u32::from(*byte))
        });
        // Four words come before the filter, which has words of 64 bits.
        let of_buckets = 4 + 2 * filters;
        let chains = of_buckets + buckets as usize;
        let mut index = word(of_buckets + hash.checked_rem(buckets)? as usize)?;
        if index < first {
            return Some(false);
        }
        loop {
            let other = word(chains + (index - first) as usize)?;
            if other | 1 == hash | 1 {
                let place = index as usize * size_of::<Sym64<LE>>();
                let symbol = symbols.read_at::<Sym64<LE>>(place as u64).ok()?;
                if !symbol.is_undefined(LE) && self.text(symbol.st_name(LE)) == Some(name) {
                    return Some(true);
                }
            }
            if other & 1 == 1 {
                return Some(false);
            }
            index = index.checked_add(1)?;
        }
    }

    /// The first bytes of a symbol's code or data.
    pub fn bytes_of(&self, symbol: &Symbol<'_>) -> Option<&'d [u8]> {
        self.bytes_at(symbol.address, symbol.size)
    }

    /// Address and code of a function in the full symbol table.
    pub fn local_function(&self, name: &[u8]) -> Option<(u64, &'d [u8])> {
        let sections = self.header.sections(LE, self.data).ok()?;
        let table = sections.symbols(LE, self.data, SHT_SYMTAB).ok()?;
        let symbol = table
            .iter()
            .find(|symbol| symbol.name(LE, table.strings()).ok() == Some(name))?;
        let address = symbol.st_value(LE);
        Some((address, self.bytes_at(address, symbol.st_size(LE))?))
    }

    /// The data from an address to the end of its segment.
    pub fn data_at(&self, address: u64) -> Option<&'d [u8]> {
        let load = self.loads().find(|segment| {
            let start = segment.p_vaddr(LE);
            (start..start.saturating_add(segment.p_filesz(LE))).contains(&address)
        })?;
        let data = load.data(LE, self.data).ok()?;
        data.get(usize::try_from(address - load.p_vaddr(LE)).ok()?..)
    }

    /// The ranges that hold constants and initial values, without code, symbol tables and fat binaries.
    pub fn constants(&self) -> Vec<&'d [u8]> {
        let prefixes: [&[u8]; 4] = [b".rodata", b".lrodata", b".data", b".ldata"];
        let mut ranges = self.ranges(&|name, section| {
            has_flag(section, SHF_ALLOC) && prefixes.iter().any(|prefix| name.starts_with(prefix))
        });
        if ranges.is_empty() {
            ranges = self.data_segments();
        }
        ranges.into_iter().map(|(_, data)| data).collect()
    }

    /// All loaded data with the names of its sections; by segment, without names, if there are no sections.
    pub fn loaded_data(&self) -> Vec<(&'d [u8], &'d [u8])> {
        let mut ranges = self.ranges(&|_, section| {
            has_flag(section, SHF_ALLOC) && !has_flag(section, SHF_EXECINSTR)
        });
        if ranges.is_empty() {
            ranges = self.data_segments();
        }
        ranges
    }

    fn loads(&self) -> impl Iterator<Item = &'d Segment> {
        self.segments
            .iter()
            .filter(|segment| segment.p_type(LE) == PT_LOAD)
    }

    fn data_segments(&self) -> Vec<(&'d [u8], &'d [u8])> {
        let mut ranges = Vec::new();
        for segment in self.loads() {
            if !segment.p_flags(LE).contains(PF_X)
                && let Ok(data) = segment.data(LE, self.data)
            {
                ranges.push((&b""[..], data));
            }
        }
        self.drop_overlaps(&mut ranges);
        ranges
    }

    /// The ranges that hold code.
    pub fn code(&self) -> Vec<&'d [u8]> {
        let ranges = self.ranges(&|_, section| has_flag(section, SHF_EXECINSTR));
        ranges.into_iter().map(|(_, data)| data).collect()
    }

    /// The wanted sections, with their names.
    fn ranges(
        &self,
        is_wanted: &dyn Fn(&[u8], &SectionHeader) -> bool,
    ) -> Vec<(&'d [u8], &'d [u8])> {
        let mut ranges = Vec::new();
        for (name, section) in self.sections() {
            if is_wanted(name, section)
                && let Ok(data) = section.data(LE, self.data)
            {
                ranges.push((name, data));
            }
        }
        self.drop_overlaps(&mut ranges);
        ranges
    }

    /// Drops ranges beyond the size of the file, since ranges of a sound file do not overlap, and beyond [`SCAN_LIMIT`],
    /// since a file may be mostly a hole.
    fn drop_overlaps(&self, ranges: &mut Vec<(&'d [u8], &'d [u8])>) {
        let mut left = self.data.len().min(SCAN_LIMIT);
        ranges.retain(|(_, data)| {
            let fits = data.len() <= left;
            if fits {
                left -= data.len();
            }
            fits
        });
    }

    /// The payloads of the notes in sections of this name. A broken note ends its list.
    pub fn notes(&self, section: &[u8]) -> impl Iterator<Item = &'d [u8]> {
        let mut payloads = Vec::new();
        for (name, header) in self.sections() {
            if name == section
                && let Ok(data) = header.data(LE, self.data)
                && let Ok(mut notes) =
                    NoteIterator::<FileHeader>::new(LE, header.sh_addralign(LE), data)
            {
                while let Ok(Some(note)) = notes.next() {
                    payloads.push(note.desc());
                }
            }
        }
        payloads.into_iter()
    }

    /// A broken note ends its list.
    pub fn build_id(&self) -> Option<&'d [u8]> {
        for segment in self.segments {
            if segment.p_type(LE) != PT_NOTE {
                continue;
            }
            let Ok(Some(mut notes)) = segment.notes(LE, self.data) else {
                continue;
            };
            while let Ok(Some(note)) = notes.next() {
                if note.name() == b"GNU" && note.n_type(LE) == NT_GNU_BUILD_ID {
                    return Some(note.desc());
                }
            }
        }
        None
    }

    fn sections(&self) -> impl Iterator<Item = (&'d [u8], &'d SectionHeader)> {
        let sections = self.header.sections(LE, self.data).ok();
        let headers: &'d [SectionHeader] = self
            .header
            .section_headers(LE, self.data)
            .unwrap_or_default();
        headers
            .iter()
            .filter(|section| section.sh_type(LE) != SHT_NOBITS)
            .filter_map(move |section| {
                Some((sections.as_ref()?.section_name(LE, section).ok()?, section))
            })
    }

    fn find_dynamic(&self) -> Result<&'d [Dyn64<LE>], ElfError> {
        let segment = self
            .segments
            .iter()
            .find(|segment| segment.p_type(LE) == PT_DYNAMIC);
        let Some(segment) = segment else {
            return Ok(&[]);
        };
        segment
            .data_as_array(LE, self.data)
            .map_err(|()| ElfError::Malformed("dynamic section"))
    }

    fn find_strings(&self) -> &'d [u8] {
        let table = self.table(DT_STRTAB).unwrap_or_default();
        let size = usize::try_from(self.value(DT_STRSZ).unwrap_or(0)).unwrap_or(usize::MAX);
        &table[..size.min(table.len())]
    }

    /// The name at this offset of the string table.
    fn text(&self, offset: u32) -> Option<&'d [u8]> {
        let rest = self.strings.get(offset as usize..)?;
        let rest = &rest[..rest.len().min(NAME_LIMIT)];
        Some(&rest[..memchr::memchr(0, rest)?])
    }

    fn entries(&self) -> impl Iterator<Item = (DynamicTag, u64)> + '_ {
        self.dynamic
            .iter()
            .map(|entry| (entry.d_tag(LE), entry.d_val(LE)))
            .take_while(|(tag, _)| *tag != object::elf::DT_NULL)
    }

    fn value(&self, tag: DynamicTag) -> Option<u64> {
        self.entries()
            .find(|entry| entry.0 == tag)
            .map(|entry| entry.1)
    }

    /// The data from the address in this entry on.
    fn table(&self, tag: DynamicTag) -> Option<&'d [u8]> {
        self.data_at(self.value(tag)?)
    }

    fn string(&self, tag: DynamicTag) -> Option<&'d [u8]> {
        self.text(u32::try_from(self.value(tag)?).ok()?)
    }

    fn bytes_at(&self, address: u64, size: u64) -> Option<&'d [u8]> {
        let data = self.data_at(address)?;
        let size = usize::try_from(size)
            .unwrap_or(usize::MAX)
            .min(CODE_LIMIT)
            .min(data.len());
        Some(&data[..size])
    }

    fn dynamic_symbols(&self) -> SymbolList<'d> {
        let Some(table) = self.table(DT_SYMTAB) else {
            return &[];
        };
        let entry = size_of::<Sym64<LE>>();
        let count = self.symbol_count().unwrap_or(0).min(table.len() / entry);
        table.read_slice_at(0, count).unwrap_or_default()
    }

    /// The length of the symbol table. Only the hash tables hold it, and the section header if nothing is exported.
    fn symbol_count(&self) -> Option<usize> {
        if let Some(data) = self.table(DT_GNU_HASH)
            && let Ok(hash) = GnuHashTable::<FileHeader>::parse(LE, data)
            && let Some(count) = hash.symbol_table_length(LE)
        {
            return Some(count as usize);
        }
        if let Some(data) = self.table(DT_HASH)
            && let Ok(hash) = HashTable::<FileHeader>::parse(LE, data)
        {
            return Some(hash.symbol_table_length() as usize);
        }
        let (_, section) = self
            .sections()
            .find(|(_, section)| section.sh_type(LE) == SHT_DYNSYM)?;
        let size = usize::try_from(section.sh_size(LE)).ok()?;
        Some(size / size_of::<Sym64<LE>>())
    }
}

fn has_flag(section: &SectionHeader, flag: SectionFlags) -> bool {
    section.sh_flags(LE).contains(flag)
}
