//! Facts of one library file: names, needs, symbols, and its version and CUDA major by the rules of
//! `profiles/libraries.toml`. Reads bytes as data; nothing is executed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::installation::{ForwardCompatibility, GpuCode};
use super::machine::Scope;
use super::warning::ReadFault;
use crate::catalog::{self, Family, VersionNumber};
use crate::formats::elf::{self, Elf};
use crate::formats::fatbin;
use crate::formats::instructions;
use crate::formats::names;
use crate::formats::symbols::{self, ByFile, Exports};
use crate::text::hexadecimal;
use crate::version::{CudaVersion, Version};

const FORWARD_COMPATIBILITY: &[u8] = b".note.cuda.fwd_compatibility";
/// In bytes: longer than any version in text.
const TEXT_LIMIT: usize = 48;
/// The C and C++ libraries, each with the prefix of its symbol versions.
pub const RUNTIMES: [(&str, &str); 2] = [("libc.so.6", "GLIBC_"), ("libstdc++.so.6", "GLIBCXX_")];

/// The facts of a library file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LibraryFile {
    /// Its index in the catalog.
    family: usize,
    pub stem: String,
    pub soname: String,
    pub machine: u16,
    /// Its family and stem come from its file name and not from its SONAME.
    pub is_known_by_name: bool,
    /// Renamed by auditwheel, so that only its own package finds it.
    pub renamed: bool,
    pub needed: Vec<String>,
    pub build_id: Option<String>,
    /// The newest versions of the symbols that it needs, by prefix: `GLIBC_`, `GLIBCXX_`.
    pub needs: BTreeMap<String, Version>,
    /// As written, with `$ORIGIN`.
    pub rpath: Option<Vec<u8>>,
    pub runpath: Option<Vec<u8>>,
    pub truncated: bool,
    /// Each with the index of its rule in the family's table.
    pub versions: Vec<(usize, Version)>,
    pub cuda: Vec<(usize, u32)>,
    /// The major and minor version of the CUDA runtime that is linked into it.
    pub built_for: Vec<(usize, CudaVersion)>,
    /// None if it was not read yet.
    pub code: Option<GpuCode>,
    pub forward_compatibility: Option<ForwardCompatibility>,
}

/// The symbols of a library file, as far as the scope asks for them.
#[derive(Clone, Debug, Default)]
pub(super) struct LibrarySymbols {
    pub imports: ByFile,
    pub exports: Exports,
}

impl LibraryFile {
    pub fn family(&self) -> &'static Family {
        let families = &catalog::catalog().families;
        families.get(self.family).unwrap_or(&families[0])
    }

    /// True if its facts hold under this name as well.
    pub(super) fn holds_under(&self, name: &str) -> bool {
        !self.is_known_by_name
            && LibraryName::of(&self.soname, name)
                .is_some_and(|library| library.is(self.family(), &self.stem, self.renamed))
    }
}

/// What the names of a file say about it.
struct LibraryName {
    family: &'static Family,
    stem: String,
    /// auditwheel added a hash to the name.
    renamed: bool,
}

impl LibraryName {
    /// By SONAME, else by file name.
    fn of(soname: &str, name: &str) -> Option<LibraryName> {
        let catalog = catalog::catalog();
        for name in [name, soname] {
            if let Some((stem, _)) = names::split(name)
                && let Some(stem) = names::without_hash(stem)
                && let Some(family) = catalog.family_of_stem(stem)
            {
                return Some(LibraryName {
                    family,
                    stem: stem.to_owned(),
                    renamed: true,
                });
            }
        }
        let plain = catalog
            .family_of(soname)
            .or_else(|| catalog.family_of(name));
        plain.map(|(family, stem)| LibraryName {
            family,
            stem: stem.to_owned(),
            renamed: false,
        })
    }

    fn is(&self, family: &Family, stem: &str, renamed: bool) -> bool {
        self.family.name == family.name && self.stem == stem && self.renamed == renamed
    }
}

/// Returns the facts of the file `name`; none if it is of no known family. Calls `release` between parts of `data`,
/// which need not stay in memory.
pub(super) fn read(
    data: &[u8],
    name: &str,
    scope: &Scope,
    release: &dyn Fn(),
) -> Result<Option<LibraryFile>, ReadFault> {
    let elf = Elf::parse(data)?;
    if elf.machine() != scope.machine {
        return Err(ReadFault::WrongMachine {
            machine: elf.machine(),
        });
    }
    // A file in a view cannot have a name with a slash.
    let own_soname = elf.soname().filter(|soname| !soname.contains(&b'/'));
    let soname = match own_soname {
        Some(soname) => String::from_utf8_lossy(soname).into_owned(),
        None => name.to_owned(),
    };
    let Some(library) = LibraryName::of(&soname, name) else {
        return Ok(None);
    };
    let LibraryName { stem, renamed, .. } = library;
    let needed: Vec<String> = elf
        .needed()
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect();
    let family = wrapped_by(&stem, &needed).unwrap_or(library.family);
    let families = &catalog::catalog().families;
    let index = families.iter().position(|other| other.name == family.name);
    let is_known_by_name = own_soname.is_none()
        || LibraryName::of(&soname, &soname)
            .is_none_or(|library| !library.is(family, &stem, renamed));
    let reader = RuleReader { elf: &elf, release };
    let versions = evaluate(&family.version, &stem, |rule| reader.version(rule));
    let built_for = evaluate(&family.cuda, &stem, |rule| reader.built_for(rule));
    let suffix = names::split(&soname).map_or("", |(_, suffix)| suffix);
    let cuda = evaluate(&family.cuda, &stem, |rule| match rule {
        VersionNumber::Suffix => family.cuda_of_suffix(suffix),
        VersionNumber::Needed { stem, .. } => number_of_needed(&needed, stem),
        VersionNumber::Embedded | VersionNumber::Function { .. } => {
            reader.built_for(rule).map(|cuda| cuda.major)
        }
        VersionNumber::Text { .. }
        | VersionNumber::Object { .. }
        | VersionNumber::Printed { .. } => reader.version(rule).map(|version| version.major()),
    });
    let mut notes = elf.notes(FORWARD_COMPATIBILITY);
    Ok(Some(LibraryFile {
        family: index.unwrap_or_default(),
        stem,
        machine: elf.machine(),
        is_known_by_name,
        renamed,
        build_id: elf.build_id().map(hexadecimal),
        needs: needed_versions(&elf),
        rpath: elf.rpath().map(<[u8]>::to_vec),
        runpath: elf.runpath().map(<[u8]>::to_vec),
        truncated: elf.is_truncated(),
        code: scope.code.then(|| fatbin::code_of(&elf, release)),
        forward_compatibility: notes.next().and_then(forward_compatibility),
        soname,
        needed,
        versions,
        cuda,
        built_for,
    }))
}

/// The newest version of each runtime that a library needs, by prefix.
fn needed_versions(elf: &Elf<'_>) -> BTreeMap<String, Version> {
    let mut newest = BTreeMap::new();
    for (file, prefix) in RUNTIMES {
        let nodes = elf.needed_versions(file.as_bytes()).into_iter();
        let texts = nodes.filter_map(|node| std::str::from_utf8(node).ok()?.strip_prefix(prefix));
        // `GLIBC_PRIVATE` and `GLIBC_ABI_DT_RELR` have no version.
        let versions = texts.filter_map(|text| text.parse::<Version>().ok());
        newest.extend(versions.max().map(|version| (prefix.to_owned(), version)));
    }
    newest
}

/// The facts of the library `name`, for a description of it.
pub fn facts(data: &[u8], name: &str, machine: u16) -> Option<LibraryFile> {
    let scope = Scope {
        machine,
        code: true,
        ..Scope::default()
    };
    read(data, name, &scope, &|| ()).ok().flatten()
}

/// The number of a library of this stem among those that a file is linked against.
fn number_of_needed(needed: &[String], stem: &str) -> Option<u32> {
    needed
        .iter()
        .filter_map(|name| names::split(name))
        .filter(|(name, _)| *name == stem)
        .find_map(|(_, suffix)| catalog::first_number(suffix))
}

/// The family that has its own file of this stem, linked against its main file: cuFFTMp has a libcufftw.
fn wrapped_by(stem: &str, needed: &[String]) -> Option<&'static Family> {
    let mut families = catalog::catalog().families.iter();
    families.find(|family| {
        family.wraps.iter().any(|wrapped| wrapped == stem)
            && needed
                .iter()
                .filter_map(|name| names::split(name))
                .any(|(name, _)| name == family.main)
    })
}

/// The symbols that the scope asks for.
pub(super) fn symbols(data: &[u8], scope: &Scope) -> Result<LibrarySymbols, ReadFault> {
    if !scope.symbols {
        return Ok(LibrarySymbols::default());
    }
    let elf = Elf::parse(data)?;
    let imports = symbols::imports(&elf, is_library, |file, symbol| {
        catalog::catalog().may_export(file, symbol)
    });
    Ok(LibrarySymbols {
        imports: symbols::by_file(imports),
        exports: Exports::read(&elf),
    })
}

fn is_library(name: &str) -> bool {
    catalog::catalog().family_of(name).is_some()
}

/// The answers of those rules that concern the file, each with the rule's index.
fn evaluate<T>(
    rules: &[VersionNumber],
    stem: &str,
    answer: impl Fn(&VersionNumber) -> Option<T>,
) -> Vec<(usize, T)> {
    let mut answers = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        let concerns = match rule {
            VersionNumber::Text { file, .. }
            | VersionNumber::Function { file, .. }
            | VersionNumber::Object { file, .. }
            | VersionNumber::Printed { file, .. }
            | VersionNumber::Needed { file, .. } => file == stem,
            VersionNumber::Suffix | VersionNumber::Embedded => true,
        };
        if concerns && let Some(value) = answer(rule) {
            answers.push((index, value));
        }
    }
    answers
}

/// Reads a library's bytes by the rules of its family.
struct RuleReader<'d> {
    elf: &'d Elf<'d>,
    /// Called between parts of the bytes.
    release: &'d dyn Fn(),
}

impl RuleReader<'_> {
    /// The CUDA version with its minor, if the rule gives one.
    fn built_for(&self, rule: &VersionNumber) -> Option<CudaVersion> {
        match rule {
            VersionNumber::Embedded => self.embedded_runtime(),
            VersionNumber::Function { .. } => {
                let number = self.version(rule)?.major();
                Some(CudaVersion::from_number(number))
            }
            _ => None,
        }
    }

    fn version(&self, rule: &VersionNumber) -> Option<Version> {
        let elf = self.elf;
        match rule {
            VersionNumber::Text {
                after,
                then,
                separator,
                ..
            } => self.first_in(elf.constants(), |window| {
                text_version(window, after, then.as_deref(), *separator)
            }),
            VersionNumber::Function {
                name,
                major,
                minor,
                from,
                to,
                ..
            } => {
                let code = elf.bytes_of(&exported(elf, name)?)?;
                let number = instructions::only_constant(code, elf.machine(), *from, *to)?;
                match major {
                    1 => Some(Version::new(&[number])),
                    _ => Some(Version::from_scaled(number, *major, *minor)),
                }
            }
            VersionNumber::Object { name, .. } => {
                let bytes = elf.bytes_of(&exported(elf, name)?)?;
                let value = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?);
                Some(Version::new(&[
                    value >> 16,
                    value >> 8 & 0xff,
                    value & 0xff,
                ]))
            }
            VersionNumber::Printed { major, .. } => {
                let soname = std::str::from_utf8(elf.soname()?).ok()?;
                if catalog::soname_number(soname) != Some(*major) {
                    return None;
                }
                let mut ranges = elf.code().into_iter();
                let numbers = ranges
                    .find_map(|range| instructions::printed_version(range, elf.machine(), *major));
                numbers.map(|numbers| Version::new(&numbers))
            }
            VersionNumber::Embedded => self.embedded_runtime().map(|cuda| cuda.version()),
            VersionNumber::Suffix | VersionNumber::Needed { .. } => None,
        }
    }

    /// The version of the CUDA runtime that is linked into a library.
    fn embedded_runtime(&self) -> Option<CudaVersion> {
        let number = self.first_in(self.elf.code(), |window| {
            instructions::runtime_version(window, self.elf.machine())
        });
        number.map(CudaVersion::from_number)
    }

    /// Returns the first result in ranges of up to hundreds of megabytes, with one window of them in memory at a time.
    /// Windows overlap by more than the longest match.
    fn first_in<T>(&self, ranges: Vec<&[u8]>, search: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
        const WINDOW: usize = 4 << 20;
        const OVERLAP: usize = 256;
        for range in ranges {
            for start in (0..range.len()).step_by(WINDOW) {
                let end = range.len().min(start + WINDOW + OVERLAP);
                let found = search(&range[start..end]);
                if range.len() > WINDOW {
                    (self.release)();
                }
                if found.is_some() {
                    return found;
                }
            }
        }
        None
    }
}

fn exported<'d>(elf: &Elf<'d>, name: &str) -> Option<elf::Symbol<'d>> {
    elf.symbols()
        .into_iter()
        .find(|symbol| symbol.defined && symbol.name == name.as_bytes())
}

fn text_version(
    data: &[u8],
    after: &str,
    then: Option<&str>,
    separator: Option<char>,
) -> Option<Version> {
    memchr::memmem::find_iter(data, after.as_bytes()).find_map(|start| {
        let rest = &data[start + after.len()..];
        let rest = &rest[..rest.len().min(TEXT_LIMIT)];
        let rest = &rest[..memchr::memchr(0, rest).unwrap_or(rest.len())];
        let rest = match then {
            Some(then) => &rest[memchr::memmem::find(rest, then.as_bytes())? + then.len()..],
            None => rest,
        };
        let separator = separator.unwrap_or('.');
        let length = rest
            .iter()
            .take_while(|byte| byte.is_ascii_digit() || **byte == separator as u8)
            .count();
        let text = std::str::from_utf8(&rest[..length])
            .ok()?
            .trim_matches(separator);
        let text = text.replace(separator, ".");
        let numbers: Vec<&str> = text.split('.').take(4).collect();
        numbers.join(".").parse().ok()
    })
}

/// `{"format":1,"CUDA version":"13.0","driver":[535,…],"device":[…]}`
fn forward_compatibility(note: &[u8]) -> Option<ForwardCompatibility> {
    #[derive(Deserialize)]
    struct CompatibilityNote {
        #[serde(rename = "CUDA version")]
        cuda: String,
        driver: Vec<u32>,
    }
    let end = memchr::memchr(0, note).unwrap_or(note.len());
    let note: CompatibilityNote = serde_json::from_slice(&note[..end]).ok()?;
    Some(ForwardCompatibility {
        cuda: note.cuda.parse().ok(),
        kernel_branches: note.driver,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_give_versions() {
        let (tools, nccl) = ("Cuda compilation tools, release ", "NCCL version ");
        for (text, after, then, separator, expected) in [
            (
                "x cudnn_version_9_10_2_21_36061468_e0",
                "cudnn_version_",
                None,
                Some('_'),
                "9.10.2.21",
            ),
            // The version follows in the same text: NVRTC 11.8 has a format with other texts after it.
            (
                "Cuda compilation tools, release %d.%d,\0, V1\0Cuda compilation tools, release 11.8, V11.8.89\0",
                tools,
                Some(", V"),
                None,
                "11.8.89",
            ),
            (
                "NCCL version 2.21.5+cuda12.4\n",
                nccl,
                Some("+cuda"),
                None,
                "12.4",
            ),
            (
                "NCCL version %d then NCCL version 2.1",
                nccl,
                None,
                None,
                "2.1",
            ),
            ("cudnn_version_", "cudnn_version_", None, Some('_'), ""),
        ] {
            let version = text_version(text.as_bytes(), after, then, separator);
            assert_eq!(
                version.map_or(String::new(), |version| version.to_string()),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn renamed_files_are_known_for_what_they_were() {
        for (soname, name, family, stem, renamed) in [
            (
                "libcudnn-74a4c495.so.9.1.0",
                "libcudnn-74a4c495.so.9.1.0",
                "cudnn",
                "libcudnn",
                true,
            ),
            (
                "libcudart.so.12",
                "libcudart.41118559.so.12",
                "cudart",
                "libcudart",
                true,
            ),
            ("libcudnn.so.9", "libcudnn.so", "cudnn", "libcudnn", false),
        ] {
            let library = LibraryName::of(soname, name).unwrap();
            let family = catalog::catalog().family(family).unwrap();
            assert!(library.is(family, stem, renamed), "{name}");
        }
        assert!(LibraryName::of("libz.so.1", "libz.so.1").is_none());
    }
}
