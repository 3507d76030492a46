//! What a framework's files record of how it was built: the readers that `profiles/frameworks/` names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::catalog::{Framework, Record, matches_pattern};
use crate::formats::elf::Elf;
use crate::host::Host;
use crate::version::{CudaVersion, Version};

/// A number and the file it was read from.
#[derive(Clone, Debug)]
pub(super) struct Found<T> {
    pub value: T,
    pub file: PathBuf,
}

/// The CUDA that a framework was built for.
pub(super) fn cuda(host: &Host, sites: &[PathBuf], framework: &Framework) -> Option<Found<CudaVersion>> {
    read(host, sites, &framework.cuda, |answer| match answer {
        Answer::Text(text) => text.parse().ok(),
        Answer::Number(number) => Some(CudaVersion::from_number(number)),
        Answer::Version(version) => Some(CudaVersion { major: version.major(), minor: version.minor() }),
    })
}

/// The version of a family that a framework was compiled against.
pub(super) fn floor(
    host: &Host,
    sites: &[PathBuf],
    framework: &Framework,
    family: &str,
) -> Option<Found<Version>> {
    read(host, sites, framework.floor.get(family)?, |answer| match answer {
        Answer::Text(text) => text.parse().ok(),
        // cuDNN counts its major in thousands up to 8 and in tens of thousands since.
        Answer::Number(number) if number < 10_000 => Some(Version::from_scaled(number, 1000, 100)),
        Answer::Number(number) => Some(Version::from_scaled(number, 10_000, 100)),
        Answer::Version(version) => Some(version),
    })
}

/// The files below `site` that a pattern names; each component may hold one `*`.
pub(super) fn expand(host: &Host, site: &Path, pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![site.to_owned()];
    for component in pattern.split('/') {
        found = if component.contains('*') {
            let matching = |directory: &PathBuf| {
                let entries = host.list(directory).unwrap_or_default();
                let names = entries.into_iter().filter_map(|entry| entry.name.into_string().ok());
                names
                    .filter(|name| matches_pattern(component, name))
                    .map(|name| directory.join(name))
                    .collect::<Vec<_>>()
            };
            found.iter().flat_map(matching).collect()
        } else {
            found.into_iter().map(|directory| directory.join(component)).collect()
        };
    }
    found
}

enum Answer {
    Text(String),
    Number(u32),
    Version(Version),
}

fn read<T>(
    host: &Host,
    sites: &[PathBuf],
    record: &Record,
    meaning: impl Fn(Answer) -> Option<T>,
) -> Option<Found<T>> {
    let (Record::Assignment { file, .. }
    | Record::Json { file, .. }
    | Record::Constants { file, .. }
    | Record::CompileVersion { file, .. }) = record;
    sites.iter().flat_map(|site| expand(host, site, file)).find_map(|path| {
        let bytes = host.map(&path).ok()?;
        let answer = match record {
            Record::Assignment { name, .. } => Answer::Text(assignment(&bytes, name)?),
            Record::Json { key, .. } => {
                let value: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
                Answer::Text(value.get(key)?.as_str()?.to_owned())
            }
            Record::Constants { position, .. } => Answer::Number(*constants(&bytes).get(*position)?),
            Record::CompileVersion { symbol, .. } => Answer::Version(compile_version(&bytes, symbol)?),
        };
        Some(Found { value: meaning(answer)?, file: path })
    })
}

/// `name = 'text'`, or `name: type = 'text'`.
fn assignment(source: &[u8], name: &str) -> Option<String> {
    let text = std::str::from_utf8(source).ok()?;
    text.lines().find_map(|line| {
        let rest = line.strip_prefix(name)?.trim_start();
        let value = match rest.strip_prefix(':') {
            Some(typed) => typed.split_once('=')?.1,
            None => rest.strip_prefix('=')?,
        };
        let value = value.trim();
        let quote = value.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
        value[1..].split(quote).next().map(str::to_owned)
    })
}

/// The constants that are handed to one and the same function, in address order: `mov $imm32,%edi; call`.
/// Of all functions that are called so, the one whose first constant is a CUDA version.
fn constants(data: &[u8]) -> Vec<u32> {
    let Ok(elf) = Elf::parse(data) else { return Vec::new() };
    elf.code().into_iter().find_map(constants_in).unwrap_or_default()
}

fn constants_in(code: &[u8]) -> Option<Vec<u32>> {
    let mut by_callee: BTreeMap<i64, Vec<u32>> = BTreeMap::new();
    for at in memchr::memchr_iter(0xbf, code) {
        let word = |from: usize| Some(u32::from_le_bytes(code.get(from..from + 4)?.try_into().ok()?));
        // Relative to the next instruction; a call through a table is told apart by the table's address.
        let length = match code.get(at + 5..) {
            Some([0xe8, ..]) => 5,
            Some([0xff, 0x15, ..]) => 6,
            _ => continue,
        };
        let (Some(value), Some(offset)) = (word(at + 1), word(at + 1 + length)) else { continue };
        let next = i64::try_from(at + 5 + length).ok()?;
        // Up to 3 they are flags.
        if value > 3 {
            by_callee.entry(next + i64::from(offset.cast_signed())).or_default().push(value);
        }
    }
    let is_cuda = |number: &u32| (9000..20_000).contains(number) && number.is_multiple_of(10);
    by_callee.into_values().find(|values| values.len() >= 5 && values.first().is_some_and(is_cuda))
}

/// A function that stores major, minor and patch as three 64-bit numbers at 16, 8 and 0 of its result:
/// one `movq $imm32, disp(%rdi)` each, or the lower two at once from a constant in memory.
fn compile_version(data: &[u8], symbol: &str) -> Option<Version> {
    let elf = Elf::parse(data).ok()?;
    let (start, code) = elf.local_function(symbol.as_bytes())?;
    let mut fields = [None; 3];
    let immediate = |at: usize| Some(u32::from_le_bytes(code.get(at..at + 4)?.try_into().ok()?));
    for at in 0..code.len() {
        match &code[at..] {
            [0x48, 0xc7, 0x07, ..] => fields[0] = immediate(at + 3),
            [0x48, 0xc7, 0x47, displacement @ (0 | 8 | 16), ..] => {
                fields[usize::from(*displacement) / 8] = immediate(at + 4);
            }
            [0x66, 0x0f, 0x6f, 0x05, ..] => {
                // movdqa relative to the next instruction.
                let next = start + u64::try_from(at).ok()? + 8;
                let pair =
                    elf.data_at(next.wrapping_add_signed(i64::from(immediate(at + 4)?.cast_signed())))?;
                let number = |from: usize| {
                    u32::try_from(u64::from_le_bytes(pair.get(from..from + 8)?.try_into().ok()?)).ok()
                };
                fields[0] = number(0);
                fields[1] = number(8);
            }
            _ => {}
        }
    }
    let [Some(patch), Some(minor), Some(major)] = fields else { return None };
    (major < 100 && minor < 1000).then(|| Version::new(&[major, minor, patch]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_of_one_callee_are_told_from_other_calls() {
        let mut code = Vec::new();
        let mut call = |value: u32, callee: i64| {
            code.push(0xbf);
            code.extend_from_slice(&value.to_le_bytes());
            code.push(0xe8);
            let next = i64::try_from(code.len()).unwrap() + 4;
            code.extend_from_slice(&i32::try_from(callee - next).unwrap().to_le_bytes());
        };
        for (value, callee) in
            [(24, 900), (12090, 500), (90800, 500), (16, 900), (120_901, 500), (26, 500), (11401, 500)]
        {
            call(value, callee);
        }
        assert_eq!(constants_in(&code).unwrap(), [12090, 90800, 120_901, 26, 11401]);
        assert_eq!(constants_in(&code[..30]), None);
        assert_eq!(constants_in(b"\xbf\x00\xbf\xe8"), None);
    }

    #[test]
    fn reads_assignments_with_and_without_a_type() {
        let source = b"from typing import Optional\n__version__ = '2.5.1+cu124'\ncuda: Optional[str] = '12.4'\nhip = None\n";
        assert_eq!(assignment(source, "cuda").as_deref(), Some("12.4"));
        assert_eq!(assignment(source, "__version__").as_deref(), Some("2.5.1+cu124"));
        assert_eq!(assignment(source, "hip"), None);
        assert_eq!(assignment(b"cuda = \"11.7\"", "cuda").as_deref(), Some("11.7"));
        assert_eq!(assignment(b"\xff", "cuda"), None);
    }
}
