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

    /// Returns the dynamic loader that an executable asks for.
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
        let length = self.data.len() as u64;
        let beyond = |start: u64, size: u64| start.checked_add(size).is_none_or(|end| end > length);
        let table = u64::from(self.header.e_shnum(LE)) * u64::from(self.header.e_shentsize(LE));
        self.loads()
            .map(|load| load.file_range(LE))
            .any(|(start, size)| beyond(start, size))
            || (self.header.e_shoff(LE) != 0 && beyond(self.header.e_shoff(LE), table))
    }

    /// Returns the dynamic symbols, imports and exports.
    pub fn symbols(&self) -> Vec<Symbol<'d>> {
        let symbols = self.dynamic_symbols();
        let versions = self.versions();
        let describe = |(index, symbol): (usize, &Sym64<LE>)| {
            let name = self
                .text(symbol.st_name(LE))
                .filter(|name| !name.is_empty())?;
            let version = versions(index);
            Some(Symbol {
                name,
                defined: !symbol.is_undefined(LE),
                weak: symbol.is_weak(),
                address: symbol.st_value(LE),
                size: symbol.st_size(LE),
                version: version.map(|node| node.name),
                file: version.and_then(|node| node.file),
            })
        };
        symbols
            .iter()
            .enumerate()
            .skip(1)
            .filter_map(describe)
            .collect()
    }

    /// Returns the first bytes of a symbol's code or data.
    pub fn bytes_of(&self, symbol: &Symbol<'_>) -> Option<&'d [u8]> {
        self.bytes_at(symbol.address, symbol.size)
    }

    /// Returns address and code of a function in the full symbol table.
    pub fn local_function(&self, name: &[u8]) -> Option<(u64, &'d [u8])> {
        let sections = self.header.sections(LE, self.data).ok()?;
        let table = sections.symbols(LE, self.data, SHT_SYMTAB).ok()?;
        let symbol = table
            .iter()
            .find(|symbol| symbol.name(LE, table.strings()).ok() == Some(name))?;
        let address = symbol.st_value(LE);
        Some((address, self.bytes_at(address, symbol.st_size(LE))?))
    }

    /// Returns the data from an address to the end of its segment.
    pub fn data_at(&self, address: u64) -> Option<&'d [u8]> {
        let load = self.loads().find(|segment| {
            let start = segment.p_vaddr(LE);
            (start..start.saturating_add(segment.p_filesz(LE))).contains(&address)
        })?;
        let data = load.data(LE, self.data).ok()?;
        data.get(usize::try_from(address - load.p_vaddr(LE)).ok()?..)
    }

    /// Returns the ranges that hold constants and initial values, without code, symbol tables and fat binaries.
    pub fn constants(&self) -> Vec<&'d [u8]> {
        let prefixes: [&[u8]; 4] = [b".rodata", b".lrodata", b".data", b".ldata"];
        let ranges = self.ranges(&|name, section| {
            has_flag(section, SHF_ALLOC) && prefixes.iter().any(|prefix| name.starts_with(prefix))
        });
        let ranges = if ranges.is_empty() {
            self.data_segments()
        } else {
            ranges
        };
        ranges.into_iter().map(|(_, data)| data).collect()
    }

    /// Returns all loaded data with the names of its sections; by segment, without names, if there are no sections.
    pub fn loaded_data(&self) -> Vec<(&'d [u8], &'d [u8])> {
        let ranges = self.ranges(&|_, section| {
            has_flag(section, SHF_ALLOC) && !has_flag(section, SHF_EXECINSTR)
        });
        if ranges.is_empty() {
            self.data_segments()
        } else {
            ranges
        }
    }

    fn loads(&self) -> impl Iterator<Item = &'d Segment> {
        self.segments
            .iter()
            .filter(|segment| segment.p_type(LE) == PT_LOAD)
    }

    fn data_segments(&self) -> Vec<(&'d [u8], &'d [u8])> {
        let data = self
            .loads()
            .filter(|segment| !segment.p_flags(LE).contains(PF_X));
        self.once(data.filter_map(|segment| Some((&b""[..], segment.data(LE, self.data).ok()?))))
    }

    /// Returns the ranges that hold code.
    pub fn code(&self) -> Vec<&'d [u8]> {
        let ranges = self.ranges(&|_, section| has_flag(section, SHF_EXECINSTR));
        ranges.into_iter().map(|(_, data)| data).collect()
    }

    /// Returns the wanted sections, with their names.
    fn ranges(
        &self,
        is_wanted: &dyn Fn(&[u8], &SectionHeader) -> bool,
    ) -> Vec<(&'d [u8], &'d [u8])> {
        let wanted = self
            .sections()
            .filter(|(name, section)| is_wanted(name, section));
        self.once(
            wanted.filter_map(|(name, section)| Some((name, section.data(LE, self.data).ok()?))),
        )
    }

    /// Drops ranges beyond the size of the file, since ranges of a sound file do not overlap, and beyond [`SCAN_LIMIT`],
    /// since a file may be mostly a hole.
    fn once(
        &self,
        ranges: impl Iterator<Item = (&'d [u8], &'d [u8])>,
    ) -> Vec<(&'d [u8], &'d [u8])> {
        let mut left = self.data.len().min(SCAN_LIMIT);
        let fits = |(_, data): &(&[u8], &[u8])| {
            let rest = left.checked_sub(data.len());
            left = rest.unwrap_or(left);
            rest.is_some()
        };
        ranges.filter(fits).collect()
    }

    /// Returns the payloads of the notes in sections of this name. A broken note ends its list.
    pub fn notes(&self, section: &[u8]) -> impl Iterator<Item = &'d [u8]> {
        let headers = self.sections().filter(move |(name, _)| *name == section);
        let notes = headers.filter_map(|(_, header)| {
            let data = header.data(LE, self.data).ok()?;
            NoteIterator::<FileHeader>::new(LE, header.sh_addralign(LE), data).ok()
        });
        notes.flat_map(|mut notes| {
            std::iter::from_fn(move || notes.next().ok().flatten().map(|note| note.desc()))
        })
    }

    /// Returns the build-id. A broken note ends its list.
    pub fn build_id(&self) -> Option<&'d [u8]> {
        let notes = self
            .segments
            .iter()
            .filter(|segment| segment.p_type(LE) == PT_NOTE);
        notes
            .filter_map(|segment| segment.notes(LE, self.data).ok().flatten())
            .find_map(|mut notes| {
                std::iter::from_fn(|| notes.next().ok().flatten())
                    .find(|note| note.name() == b"GNU" && note.n_type(LE) == NT_GNU_BUILD_ID)
                    .map(|note| note.desc())
            })
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

    /// Returns the name at this offset of the string table.
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

    /// Returns the data from the address in this entry on.
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

    /// Returns the length of the symbol table. Only the hash tables hold it, and the section header if nothing is exported.
    fn symbol_count(&self) -> Option<usize> {
        let gnu = self
            .table(DT_GNU_HASH)
            .and_then(|data| GnuHashTable::<FileHeader>::parse(LE, data).ok());
        if let Some(count) = gnu.and_then(|hash| hash.symbol_table_length(LE)) {
            return Some(count as usize);
        }
        if let Some(hash) = self
            .table(DT_HASH)
            .and_then(|data| HashTable::<FileHeader>::parse(LE, data).ok())
        {
            return Some(hash.symbol_table_length() as usize);
        }
        let (_, section) = self
            .sections()
            .find(|(_, section)| section.sh_type(LE) == SHT_DYNSYM)?;
        usize::try_from(section.sh_size(LE))
            .ok()
            .map(|size| size / size_of::<Sym64<LE>>())
    }
}

fn has_flag(section: &SectionHeader, flag: SectionFlags) -> bool {
    section.sh_flags(LE).contains(flag)
}
