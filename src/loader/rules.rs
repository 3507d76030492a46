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
        let mut rules = Rules {
            release,
            subdirectories: Vec::new(),
            tokens: Tokens::new(host, machine),
            defaults: default_directories(host, machine),
        };
        if rules.is_at_least(HWCAPS) {
            rules.subdirectories = cpu.levels();
        }
        if !rules.is_at_least(NO_LEGACY) {
            rules.subdirectories.extend(cpu.legacy());
        }
        rules
    }

    pub(super) fn is_at_least(&self, since: Release) -> bool {
        self.release.is_none_or(|release| release >= since)
    }
}

/// The path of the loader in the ABI of a kind of machine.
pub fn standard_loader(machine: u16) -> &'static Path {
    Path::new(if machine == elf::AARCH64 {
        "/lib/ld-linux-aarch64.so.1"
    } else {
        "/lib64/ld-linux-x86-64.so.2"
    })
}

/// The newest release among the symbol versions of the C library in the default directories.
pub fn release(host: &Host, machine: u16) -> Option<Release> {
    let directories = default_directories(host, machine);
    let file = directories
        .iter()
        .find_map(|directory| host.map(&directory.join("libc.so.6")).ok())?;
    let elf = Elf::parse(&file).ok()?;
    let mut newest = None;
    for node in elf.defined_versions() {
        if let Some(text) = node.strip_prefix(b"GLIBC_") {
            newest = newest.max(numbers(text));
        }
    }
    newest
}

/// The release in a loader's constants. Loaders before 2.33 do not name it.
fn loader_release(host: &Host, loader: &Path) -> Option<Release> {
    let file = host.map(loader).ok()?;
    let mark = memchr::memmem::find(&file, RELEASE_MARK)?;
    numbers(&file[mark + RELEASE_MARK.len()..])
}

/// `2.36` at the start of a text.
fn numbers(text: &[u8]) -> Option<Release> {
    let end = text
        .iter()
        .position(|byte| !byte.is_ascii_digit() && *byte != b'.');
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
        let flags = if machine == elf::AARCH64 {
            "Features"
        } else {
            "flags"
        };
        let flags = cpuinfo_value(cpuinfo, flags).split_whitespace();
        Cpu {
            machine,
            is_intel: cpuinfo_value(cpuinfo, "vendor_id") == "GenuineIntel",
            flags: flags.map(str::to_owned).collect(),
        }
    }

    fn has(&self, flags: &[&str]) -> bool {
        flags.iter().all(|flag| self.flags.contains(*flag))
    }

    /// The sub-directories for the instruction levels of this processor, best first.
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
        let mut directories = Vec::new();
        for (has_level, level) in [(v4, "x86-64-v4"), (v3, "x86-64-v3"), (v2, "x86-64-v2")] {
            if has_level {
                directories.push(Path::new("glibc-hwcaps").join(level));
            }
        }
        directories
    }

    /// The value of `$PLATFORM`.
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

    /// The sub-directories of loaders before 2.37: all subsets of these parts, as a counter runs down.
    fn legacy(&self) -> Vec<PathBuf> {
        let mut parts = vec!["tls", self.platform()];
        if self.machine == elf::AARCH64 {
            if self.has(&["atomics"]) {
                parts.push("atomics");
            }
        } else {
            let wide = ["avx512cd", "avx512bw", "avx512dq", "avx512vl"];
            if self.is_intel && self.has(&wide) && !self.has(&["avx512er"]) {
                parts.push("avx512_1");
            }
            parts.push("x86_64");
        }
        let mut subsets: Vec<PathBuf> = Vec::new();
        for counter in (1..1_u32 << parts.len()).rev() {
            let mut subset = PathBuf::new();
            // The first part has the highest bit.
            for (bit, part) in parts.iter().rev().enumerate().rev() {
                if counter >> bit & 1 == 1 {
                    subset.push(part);
                }
            }
            if !subsets.contains(&subset) {
                subsets.push(subset);
            }
        }
        subsets
    }
}

fn cpuinfo_value<'c>(cpuinfo: &'c str, name: &str) -> &'c str {
    for line in cpuinfo.lines() {
        let (key, value) = line.split_once(':').unwrap_or((line, ""));
        if key.trim() == name {
            return value.trim();
        }
    }
    ""
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

    /// Replaces `$ORIGIN`, `$LIB` and `$PLATFORM`, with and without braces, in an element of a search path. Gives nothing if
    /// it needs an unknown origin.
    pub fn expand(&self, element: &[u8], origin: Option<&Path>) -> Option<PathBuf> {
        let mut path = Vec::with_capacity(element.len());
        let mut rest = element;
        while let Some(dollar) = memchr::memchr(b'$', rest) {
            path.extend_from_slice(&rest[..dollar]);
            rest = &rest[dollar + 1..];
            if let Some(after) = after_token(rest, b"ORIGIN") {
                path.extend_from_slice(origin?.as_os_str().as_bytes());
                rest = after;
            } else if let Some(after) = after_token(rest, b"LIB") {
                path.extend_from_slice(self.lib.as_bytes());
                rest = after;
            } else if let Some(after) = after_token(rest, b"PLATFORM") {
                path.extend_from_slice(self.platform.as_bytes());
                rest = after;
            } else {
                path.push(b'$');
            }
        }
        path.extend_from_slice(rest);
        Some(PathBuf::from(OsString::from_vec(path)))
    }
}

/// The text after the token of this name at the start. `$LIBS` is no token.
fn after_token<'t>(text: &'t [u8], name: &[u8]) -> Option<&'t [u8]> {
    if let Some(braced) = text.strip_prefix(b"{") {
        return braced.strip_prefix(name)?.strip_prefix(b"}");
    }
    let rest = text.strip_prefix(name)?;
    match rest.first() {
        Some(b'_') => None,
        Some(next) if next.is_ascii_alphanumeric() => None,
        _ => Some(rest),
    }
}

/// The default directories of the C library, which are searched last.
pub fn default_directories(host: &Host, machine: u16) -> Vec<PathBuf> {
    let library = library_directory(host, machine);
    let mut directories = vec![format!("/{library}"), format!("/usr/{library}")];
    if library.contains('/') {
        directories.extend(["/lib".to_owned(), "/usr/lib".to_owned()]);
    }
    directories.into_iter().map(PathBuf::from).collect()
}

/// The value of `$LIB`: Debian's multiarch directory if it exists, else `lib64`.
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
        for (element, expanded) in [
            ("$ORIGIN/../${LIB}x/$PLATFORM", "/o/../lib64x/haswell"),
            ("$LIBS/${LIB/$ORIGIN_/$", "$LIBS/${LIB/$ORIGIN_/$"),
        ] {
            let path = tokens.expand(element.as_bytes(), Some(Path::new("/o")));
            assert_eq!(path.unwrap(), Path::new(expanded));
        }
        assert_eq!(tokens.expand(b"$ORIGIN", None), None);
    }
}
