//! Reads from a framework's files how it was built, with the readers that `profiles/frameworks/` names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::distributions::Installed;
use crate::catalog::{CodeRecord, Framework, Sign, VersionRecord};
use crate::formats::build_info;
use crate::formats::elf::Elf;
use crate::formats::fatbin::{self, Architecture};
use crate::formats::names::{self, matches_pattern};
use crate::formats::numbers::u32_at;
use crate::host::Host;
use crate::inventory;
use crate::version::{CudaVersion, Version};

/// The device node that is there when a GPU is.
pub(super) const GPU_NODE: &str = "/dev/nvidiactl";

/// A number and the file it was read from.
#[derive(Clone, Debug)]
pub(super) struct Sourced<T> {
    pub value: T,
    pub file: PathBuf,
}

/// Reads the records of one framework.
#[derive(Clone, Copy)]
pub(super) struct FrameworkReader<'a> {
    pub host: &'a Host,
    pub installed: &'a Installed<'a>,
    pub sites: &'a [PathBuf],
    pub framework: &'a Framework,
}

impl FrameworkReader<'_> {
    /// The CUDA version that the framework was built for.
    pub(super) fn cuda(&self) -> Option<Sourced<CudaVersion>> {
        self.first(&self.framework.cuda, |answer| match answer {
            RecordedValue::Text(text) => text.parse().ok(),
            RecordedValue::Number(number) => Some(CudaVersion::from_number(number)),
            RecordedValue::Version(version) => Some(CudaVersion::of(version)),
        })
    }

    /// The version of a family that the framework was compiled against.
    pub(super) fn floor(&self, family: &str) -> Option<Sourced<Version>> {
        self.first(self.framework.floor.get(family)?, version)
    }

    /// The major of a family that the framework was compiled against, where it records no more.
    pub(super) fn major(&self, family: &str) -> Option<u32> {
        self.first(self.framework.major.get(family)?, version)
            .map(|found| found.value.major())
    }

    /// The GPUs that it has code for, never an empty set. The flag is true for a written record; fat binaries may
    /// serve only some of its functions.
    pub(super) fn code(&self) -> Option<(Sourced<BTreeSet<Architecture>>, bool)> {
        for record in &self.framework.code {
            let is_written = !matches!(record, CodeRecord::FatBinaries { .. });
            let (mut value, mut first) = (BTreeSet::new(), None);
            for file in self.files(record.file()) {
                let code = self.code_in(record, &file);
                if code.is_empty() {
                    continue;
                }
                value.extend(code);
                first.get_or_insert(file);
                // Python imports the first of two installed frameworks, so its record counts; all objects of one count.
                if is_written {
                    break;
                }
            }
            if let Some(file) = first {
                return Some((Sourced { value, file }, is_written));
            }
        }
        None
    }

    fn code_in(&self, record: &CodeRecord, file: &Path) -> BTreeSet<Architecture> {
        let read = match record {
            CodeRecord::Flags { name, .. } => self.text(file, |bytes| {
                Some(build_info::gencode(&build_info::define(bytes, name)?))
            }),
            CodeRecord::Pair { name, .. } => self.text(file, |bytes| {
                Some(build_info::capabilities(&build_info::pair(bytes, name)?))
            }),
            CodeRecord::FatBinaries { .. } => Some(gpu_code(self.host, file)),
        };
        read.into_iter().flatten().collect()
    }

    /// The file that tells that it is not built for NVIDIA's GPUs, or the site where the expected files are missing.
    /// A framework that requires NVIDIA's libraries (`asks`) needs no GPU code of its own.
    pub(super) fn cpu_only(&self, version: Option<&str>, asks: bool) -> Option<PathBuf> {
        self.framework.cpu_only.iter().find_map(|sign| match sign {
            Sign::Assignment { file, name, value } => self.files(file).into_iter().find(|path| {
                self.text(path, |bytes| build_info::raw_assignment(bytes, name))
                    .as_ref()
                    == Some(value)
            }),
            Sign::Pair { file, name, value } => self.files(file).into_iter().find(|path| {
                self.text(path, |bytes| build_info::pair(bytes, name))
                    .is_some_and(|values| values == std::slice::from_ref(value))
            }),
            Sign::Lacks { files } => (!files.iter().any(|pattern| {
                self.files(pattern)
                    .iter()
                    .any(|path| self.host.stat(path).is_ok())
            }))
            .then(|| self.sites.first().cloned())?,
            Sign::NoCode { .. } if asks => None,
            Sign::NoCode { file } => {
                // A file that cannot be read may have code.
                let files: Vec<PathBuf> = self
                    .files(file)
                    .into_iter()
                    .filter(|path| {
                        self.host
                            .map(path)
                            .is_ok_and(|data| Elf::parse(&data).is_ok_and(|elf| elf.is_dynamic()))
                    })
                    .collect();
                let has_none = files
                    .iter()
                    .all(|path| gpu_code(self.host, path).is_empty());
                files.into_iter().next().filter(|_| has_none)
            }
            Sign::Installed { distribution } => {
                let found = self.installed.distributions.get(distribution)?;
                self.sites
                    .contains(&found.site)
                    .then(|| found.directory.join("METADATA"))
            }
            Sign::CrashesWithoutGpu { before } => {
                let version = version?.parse::<Version>().ok()?;
                (version < *before && !inventory::sees_gpu(self.host))
                    .then(|| Path::new(GPU_NODE).to_owned())
            }
        })
    }

    /// The first record that can be read and has a meaning.
    fn first<T>(
        &self,
        records: &[VersionRecord],
        meaning: impl Fn(RecordedValue) -> Option<T>,
    ) -> Option<Sourced<T>> {
        records.iter().find_map(|record| {
            let Some(file) = record.file() else {
                let (answer, file) = self.of_installed(record)?;
                return Some(Sourced {
                    value: meaning(answer)?,
                    file,
                });
            };
            self.files(file).into_iter().find_map(|path| {
                let value = meaning(self.answer(record, &path)?)?;
                Some(Sourced { value, file: path })
            })
        })
    }

    fn answer(&self, record: &VersionRecord, path: &Path) -> Option<RecordedValue> {
        let text = match record {
            VersionRecord::Assignment { name, .. } => {
                self.text(path, |bytes| build_info::assignment(bytes, name))
            }
            VersionRecord::Pair { name, .. } => self.text(path, |bytes| {
                build_info::pair(bytes, name)?.into_iter().next()
            }),
            VersionRecord::Json { key, .. } => self.text(path, |bytes| json(bytes, key)),
            VersionRecord::Define { names, .. } => self.text(path, |bytes| {
                let numbers = names.iter().map(|name| build_info::define(bytes, name));
                Some(numbers.collect::<Option<Vec<String>>>()?.join("."))
            }),
            VersionRecord::FileName { .. } => {
                let (stem, suffix) = names::split(path.file_name()?.to_str()?)?;
                let is_packed = names::without_hash(stem).is_some() && self.host.is_file(path);
                is_packed.then(|| suffix.to_owned())
            }
            VersionRecord::Local {
                name, word, major, ..
            } => self.text(path, |bytes| {
                build_info::digits_after(&build_info::assignment(bytes, name)?, word, *major)
            }),
            VersionRecord::Constants { position, .. } => {
                return Some(RecordedValue::Number(
                    *constants(&self.host.map(path).ok()?).get(*position)?,
                ));
            }
            VersionRecord::CompileVersion { symbol, .. } => {
                return Some(RecordedValue::Version(compile_version(
                    &self.host.map(path).ok()?,
                    symbol,
                )?));
            }
            VersionRecord::Installed { .. } | VersionRecord::VersionOf { .. } => None,
        };
        text.map(RecordedValue::Text)
    }

    /// Reads the name or the version of an installed distribution.
    fn of_installed(&self, record: &VersionRecord) -> Option<(RecordedValue, PathBuf)> {
        let (VersionRecord::Installed {
            distribution: pattern,
            ..
        }
        | VersionRecord::VersionOf {
            distribution: pattern,
        }) = record
        else {
            return None;
        };
        self.installed
            .distributions
            .iter()
            .find_map(|(name, distribution)| {
                if !self.sites.contains(&distribution.site) || !matches_pattern(pattern, name) {
                    return None;
                }
                let text = match record {
                    VersionRecord::Installed { word, major, .. } => build_info::digits_after(
                        &format!("{name} {}", distribution.version),
                        word,
                        *major,
                    )?,
                    _ => distribution.version.clone(),
                };
                Some((
                    RecordedValue::Text(text),
                    distribution.directory.join("METADATA"),
                ))
            })
    }

    fn files(&self, pattern: &str) -> Vec<PathBuf> {
        expand(self.host, self.sites, pattern)
    }

    fn text<T>(&self, path: &Path, read: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
        read(&self.host.map(path).ok()?)
    }
}

/// The GPUs that an ELF file has code for; empty where the file is none.
pub fn gpu_code(host: &Host, path: &Path) -> BTreeSet<Architecture> {
    let Ok(data) = host.map(path) else {
        return BTreeSet::new();
    };
    let Ok(elf) = Elf::parse(&data) else {
        return BTreeSet::new();
    };
    fatbin::code_of(&elf, &|| data.release())
        .into_values()
        .flat_map(BTreeMap::into_keys)
        .collect()
}

/// The paths below `sites` that a pattern names. Paths without `*` need not exist.
pub(super) fn expand(host: &Host, sites: &[PathBuf], pattern: &str) -> Vec<PathBuf> {
    names::expand(sites.to_vec(), pattern, |directory| {
        let entries = host.listing(directory).unwrap_or_default();
        let names = entries.iter().filter_map(|entry| entry.name.to_str());
        names.map(str::to_owned).collect()
    })
}

enum RecordedValue {
    Text(String),
    Number(u32),
    Version(Version),
}

fn version(answer: RecordedValue) -> Option<Version> {
    match answer {
        RecordedValue::Text(text) => text.parse().ok(),
        // cuDNN counts its major in thousands up to 8 and in tens of thousands since.
        RecordedValue::Number(number) if number < 10_000 => {
            Some(Version::from_scaled(number, 1000, 100))
        }
        RecordedValue::Number(number) => Some(Version::from_scaled(number, 10_000, 100)),
        RecordedValue::Version(version) => Some(version),
    }
}

/// A text in a JSON file, by its path: `key.key`.
fn json(bytes: &[u8], key: &str) -> Option<String> {
    let whole: serde_json::Value = serde_json::from_slice(bytes).ok()?;
    key.split('.')
        .try_fold(&whole, |value, name| value.get(name))?
        .as_str()
        .map(str::to_owned)
}

/// The constants that are passed to one function, in address order: `mov $imm32,%edi; call`. This function is the
/// one whose first constant is a CUDA version.
fn constants(data: &[u8]) -> Vec<u32> {
    let Ok(elf) = Elf::parse(data) else {
        return Vec::new();
    };
    elf.code()
        .into_iter()
        .find_map(constants_in)
        .unwrap_or_default()
}

fn constants_in(code: &[u8]) -> Option<Vec<u32>> {
    let mut by_callee: BTreeMap<i64, Vec<u32>> = BTreeMap::new();
    for index in memchr::memchr_iter(0xbf, code) {
        // Relative to the next instruction; a call through a table is told apart by the table's address.
        let length = match code.get(index + 5..) {
            Some([0xe8, ..]) => 5,
            Some([0xff, 0x15, ..]) => 6,
            _ => continue,
        };
        let (Some(value), Some(offset)) =
            (u32_at(code, index + 1), u32_at(code, index + 1 + length))
        else {
            continue;
        };
        let next = i64::try_from(index + 5 + length).ok()?;
        // Up to 3 they are flags.
        if value > 3 {
            by_callee
                .entry(next + i64::from(offset.cast_signed()))
                .or_default()
                .push(value);
        }
    }
    by_callee.into_values().find(|values| {
        values.len() >= 5
            && values
                .first()
                .is_some_and(|number| (9000..20_000).contains(number) && number.is_multiple_of(10))
    })
}

/// Reads a function that stores major, minor and patch as three 64-bit numbers at 16, 8 and 0 of its result:
/// one `movq $imm32, disp(%rdi)` each, or the lower two at once from a constant in memory.
fn compile_version(data: &[u8], symbol: &str) -> Option<Version> {
    let elf = Elf::parse(data).ok()?;
    let (start, code) = elf.local_function(symbol.as_bytes())?;
    let mut fields = [None; 3];
    for index in 0..code.len() {
        match &code[index..] {
            [0x48, 0xc7, 0x07, ..] => fields[0] = u32_at(code, index + 3),
            [0x48, 0xc7, 0x47, displacement @ (0 | 8 | 16), ..] => {
                fields[usize::from(*displacement) / 8] = u32_at(code, index + 4);
            }
            [0x66, 0x0f, 0x6f, 0x05, ..] => {
                // movdqa relative to the next instruction.
                let next = start + u64::try_from(index).ok()? + 8;
                let pair = elf.data_at(
                    next.wrapping_add_signed(i64::from(u32_at(code, index + 4)?.cast_signed())),
                )?;
                for (field, from) in [(0, 0), (1, 8)] {
                    let number = pair.get(from..).and_then(<[u8]>::first_chunk);
                    fields[field] =
                        number.and_then(|number| u32::try_from(u64::from_le_bytes(*number)).ok());
                }
            }
            _ => {}
        }
    }
    let [Some(patch), Some(minor), Some(major)] = fields else {
        return None;
    };
    (major < 100 && minor < 1000).then(|| Version::new(&[major, minor, patch]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_of_one_callee_are_told_from_other_calls() {
        let mut code = Vec::new();
        for (value, callee) in [
            (24_u32, 900_i64),
            (12090, 500),
            (90800, 500),
            (16, 900),
            (120_901, 500),
            (26, 500),
            (11401, 500),
        ] {
            code.push(0xbf);
            code.extend_from_slice(&value.to_le_bytes());
            code.push(0xe8);
            let next = i64::try_from(code.len()).unwrap() + 4;
            code.extend_from_slice(&i32::try_from(callee - next).unwrap().to_le_bytes());
        }
        assert_eq!(
            constants_in(&code).unwrap(),
            [12090, 90800, 120_901, 26, 11401]
        );
        assert_eq!(constants_in(&code[..30]), None);
        assert_eq!(constants_in(b"\xbf\x00\xbf\xe8"), None);
    }
}
