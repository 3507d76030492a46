//! The properties of one loader: its release, its default directories, its sub-directories for this machine's processor,
//! the values of `$LIB` and `$PLATFORM`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::formats::elf::{self, Elf};
use crate::host::Host;

/// A release of glibc: `(2, 36)`.
pub type Release = (u32, u32);

/// The first release that searches below `glibc-hwcaps`.
const HWCAPS: Release = (2, 33);
/// The first release that searches no other sub-directories.
const NO_LEGACY: Release = (2, 37);
/// The text before the release in a loader's constants.
const RELEASE_MARK: &[u8] = b"release version ";
/// Bytes of `/proc/cpuinfo` that hold the first processor's part.
const CPUINFO_LIMIT: u64 = 16 << 10;

/// The properties of one loader.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    /// None if neither the loader nor the C library names it.
    pub(super) release: Option<Release>,
    /// Sub-directories that are searched before each directory of a search path.
    pub(super) subdirectories: Vec<PathBuf>,
    pub(super) defaults: Vec<PathBuf>,
    pub(super) tokens: Tokens,
}

impl Rules {
    /// Reads the properties of the loader at this path.
    pub(super) fn read(host: &Host, machine: u16, loader: &Path) -> Rules {
        let cpu = Cpu::read(host, machine);
        let release = loader_release(host, loader).or_else(|| release(host, machine));
        let is_at_least = |since| release.is_none_or(|release| release >= since);
        let mut subdirectories = Vec::new();
        if is_at_least(HWCAPS) {
            subdirectories = cpu.levels();
        }
        if !is_at_least(NO_LEGACY) {
            subdirectories.extend(cpu.legacy());
        }
        let tokens = Tokens::new(host, machine);
        Rules {
            release,
            subdirectories,
            defaults: default_directories(host, machine),
            tokens,
        }
    }

    pub(super) fn is_at_least(&self, since: Release) -> bool {
        self.release.is_none_or(|release| release >= since)
    }
}

/// Returns the path of the loader in the ABI of a kind of machine.
pub fn standard_loader(machine: u16) -> &'static Path {
    Path::new(if machine == elf::AARCH64 {
        "/lib/ld-linux-aarch64.so.1"
    } else {
        "/lib64/ld-linux-x86-64.so.2"
    })
}

/// Returns the newest release among the symbol versions of the C library in the default directories.
pub fn release(host: &Host, machine: u16) -> Option<Release> {
    let directories = default_directories(host, machine);
    let file = directories
        .iter()
        .find_map(|directory| host.map(&directory.join("libc.so.6")).ok())?;
    let elf = Elf::parse(&file).ok()?;
    let release_of = |node: &[u8]| numbers(node.strip_prefix(b"GLIBC_")?);
    elf.defined_versions()
        .into_iter()
        .filter_map(release_of)
        .max()
}

/// Returns the release in a loader's constants. Loaders before 2.33 do not name it.
fn loader_release(host: &Host, loader: &Path) -> Option<Release> {
    let file = host.map(loader).ok()?;
    let at = memchr::memmem::find(&file, RELEASE_MARK)?;
    numbers(&file[at + RELEASE_MARK.len()..])
}

/// `2.36` at the start of a text.
fn numbers(text: &[u8]) -> Option<Release> {
    let is_part = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    let end = text.iter().position(|byte| !is_part(byte));
    let text = std::str::from_utf8(&text[..end.unwrap_or(text.len())]).ok()?;
    let mut parts = text.split('.').map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

/// The properties of the processor that decide the loader's choice.
#[derive(Debug)]
struct Cpu {
    machine: u16,
    is_intel: bool,
    flags: BTreeSet<String>,
}

impl Cpu {
    fn read(host: &Host, machine: u16) -> Cpu {
        let text = host
            .read_start(Path::new("/proc/cpuinfo"), CPUINFO_LIMIT)
            .unwrap_or_default();
        Cpu::parse(&String::from_utf8_lossy(&text), machine)
    }

    /// Reads the part of the first processor.
    fn parse(cpuinfo: &str, machine: u16) -> Cpu {
        let value = |name: &str| {
            let line = cpuinfo
                .lines()
                .find(|line| line.split(':').next().is_some_and(|key| key.trim() == name));
            line.and_then(|line| line.split_once(':'))
                .map(|(_, value)| value.trim())
                .unwrap_or_default()
        };
        let flags = if machine == elf::AARCH64 {
            value("Features")
        } else {
            value("flags")
        };
        Cpu {
            machine,
            is_intel: value("vendor_id") == "GenuineIntel",
            flags: flags.split_whitespace().map(str::to_owned).collect(),
        }
    }

    fn has(&self, flags: &[&str]) -> bool {
        flags.iter().all(|flag| self.flags.contains(*flag))
    }

    /// Returns the sub-directories for the instruction levels of this processor, best first.
    fn levels(&self) -> Vec<PathBuf> {
        if self.machine != elf::X86_64 {
            return Vec::new();
        }
        let v2 = self.has(&[
            "cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3",
        ]);
        let v3 = v2
            && self.has(&[
                "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave",
            ]);
        let v4 = v3 && self.has(&["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"]);
        let levels = [(v4, "x86-64-v4"), (v3, "x86-64-v3"), (v2, "x86-64-v2")];
        levels
            .into_iter()
            .filter(|(has, _)| *has)
            .map(|(_, level)| Path::new("glibc-hwcaps").join(level))
            .collect()
    }

    /// Returns the value of `$PLATFORM`.
    fn platform(&self) -> &'static str {
        if self.machine == elf::AARCH64 {
            return "aarch64";
        }
        // Only for Intel's processors, the loader's value differs from the kernel's.
        if self.is_intel && self.has(&["avx512cd", "avx512er", "avx512pf"]) {
            "xeon_phi"
        } else if self.is_intel
            && self.has(&["avx2", "bmi1", "bmi2", "abm", "movbe", "popcnt", "fma"])
        {
            "haswell"
        } else {
            "x86_64"
        }
    }

    /// Returns the sub-directories of loaders before 2.37: all subsets of these parts, as a counter runs down.
    fn legacy(&self) -> Vec<PathBuf> {
        let mut parts = vec!["tls", self.platform()];
        if self.machine == elf::AARCH64 {
            parts.extend(self.has(&["atomics"]).then_some("atomics"));
        } else {
            let wide = ["avx512cd", "avx512bw", "avx512dq", "avx512vl"];
            parts.extend(
                (self.is_intel && self.has(&wide) && !self.has(&["avx512er"]))
                    .then_some("avx512_1"),
            );
            parts.push("x86_64");
        }
        let mut choices: Vec<PathBuf> = Vec::new();
        for chosen in (1..1_u32 << parts.len()).rev() {
            let is_chosen = |at: &usize| chosen >> (parts.len() - 1 - at) & 1 == 1;
            let choice: PathBuf = (0..parts.len())
                .filter(is_chosen)
                .map(|at| parts[at])
                .collect();
            if !choices.contains(&choice) {
                choices.push(choice);
            }
        }
        choices
    }
}

/// The values of `$LIB` and `$PLATFORM`. `$ORIGIN` differs for each file.
#[derive(Clone, Copy, Debug)]
pub struct Tokens {
    lib: &'static str,
    platform: &'static str,
}

impl Tokens {
    pub fn new(host: &Host, machine: u16) -> Tokens {
        Tokens {
            lib: library_directory(host, machine),
            platform: Cpu::read(host, machine).platform(),
        }
    }

    /// Replaces `$ORIGIN`, `$LIB` and `$PLATFORM`, with and without braces, in an element of a search path. Returns nothing if
    /// it needs an unknown origin.
    pub fn expand(&self, element: &[u8], origin: Option<&Path>) -> Option<PathBuf> {
        let origin = origin.map(|origin| origin.as_os_str().as_bytes());
        let mut path = Vec::with_capacity(element.len());
        let mut rest = element;
        while let Some(at) = memchr::memchr(b'$', rest) {
            path.extend_from_slice(&rest[..at]);
            rest = &rest[at + 1..];
            let tokens: [(&[u8], Option<&[u8]>); 3] = [
                (b"ORIGIN", origin),
                (b"LIB", Some(self.lib.as_bytes())),
                (b"PLATFORM", Some(self.platform.as_bytes())),
            ];
            match tokens
                .iter()
                .find_map(|(name, value)| Some((after_token(rest, name)?, value)))
            {
                Some((after, value)) => {
                    path.extend_from_slice((*value)?);
                    rest = after;
                }
                None => path.push(b'$'),
            }
        }
        path.extend_from_slice(rest);
        Some(PathBuf::from(OsString::from_vec(path)))
    }
}

/// Returns the text after the token of this name at the start. `$LIBS` is no token.
fn after_token<'t>(text: &'t [u8], name: &[u8]) -> Option<&'t [u8]> {
    let braced = text
        .strip_prefix(b"{")
        .and_then(|text| text.strip_prefix(name)?.strip_prefix(b"}"));
    let goes_on = |text: &[u8]| {
        text.first()
            .is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
    };
    braced.or_else(|| text.strip_prefix(name).filter(|after| !goes_on(after)))
}

/// Returns the default directories of the C library, which are searched last.
pub fn default_directories(host: &Host, machine: u16) -> Vec<PathBuf> {
    let library = library_directory(host, machine);
    let mut directories = vec![format!("/{library}"), format!("/usr/{library}")];
    if library.contains('/') {
        directories.extend(["/lib".to_owned(), "/usr/lib".to_owned()]);
    }
    directories.into_iter().map(PathBuf::from).collect()
}

/// Returns the value of `$LIB`: Debian's multiarch directory if it exists, else `lib64`.
fn library_directory(host: &Host, machine: u16) -> &'static str {
    let multiarch = match machine {
        elf::AARCH64 => "lib/aarch64-linux-gnu",
        _ => "lib/x86_64-linux-gnu",
    };
    if host.is_directory(&Path::new("/usr").join(multiarch)) {
        multiarch
    } else {
        "lib64"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V3: &str =
        "cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3 avx avx2 bmi1 bmi2 f16c fma abm movbe xsave";
    const V4: &str = "avx512f avx512bw avx512cd avx512dq avx512vl";

    #[test]
    fn the_processor_decides_about_levels_and_subdirectories() {
        for (vendor, flags, levels, platform, legacy) in [
            (
                "AuthenticAMD",
                V3,
                2,
                "x86_64",
                "tls/x86_64/x86_64 tls/x86_64 tls x86_64/x86_64 x86_64",
            ),
            (
                "GenuineIntel",
                &V3.replace("movbe", ""),
                1,
                "x86_64",
                "tls/x86_64/x86_64",
            ),
            (
                "GenuineIntel",
                V4,
                0,
                "x86_64",
                "tls/x86_64/avx512_1/x86_64",
            ),
            (
                "GenuineIntel",
                &format!("{V3} {V4}"),
                3,
                "haswell",
                "tls/haswell/avx512_1/x86_64",
            ),
        ] {
            let text =
                format!("processor : 0\nvendor_id\t: {vendor}\nflags\t\t: {flags}\n\nflags\t: x\n");
            let cpu = Cpu::parse(&text, elf::X86_64);
            assert_eq!(
                (cpu.levels().len(), cpu.platform()),
                (levels, platform),
                "{text}"
            );
            assert!(
                cpu.legacy()
                    .iter()
                    .map(|path| path.to_str().unwrap())
                    .zip(legacy.split(' '))
                    .all(|(a, b)| a == b)
            );
        }
        let arm = Cpu::parse("Features\t: fp asimd atomics", elf::AARCH64);
        assert_eq!(
            (arm.levels().len(), &*arm.legacy()[0]),
            (0, Path::new("tls/aarch64/atomics"))
        );
    }

    #[test]
    fn a_token_ends_where_its_name_does() {
        let tokens = Tokens {
            lib: "lib64",
            platform: "haswell",
        };
        let expand = |text: &str| {
            tokens
                .expand(text.as_bytes(), Some(Path::new("/o")))
                .unwrap()
        };
        assert_eq!(
            expand("$ORIGIN/../${LIB}x/$PLATFORM"),
            Path::new("/o/../lib64x/haswell")
        );
        assert_eq!(
            expand("$LIBS/${LIB/$ORIGIN_/$"),
            Path::new("$LIBS/${LIB/$ORIGIN_/$")
        );
        assert_eq!(tokens.expand(b"$ORIGIN", None), None);
    }
}
