//! Debian's package database: installed packages, the files of each, and the library's version in a package's version.

use crate::version::Version;

/// A package in `/var/lib/dpkg/status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DebianPackage {
    pub name: String,
    pub version: String,
    pub architecture: String,
    /// True if it may be installed for several architectures at once. Its list of files is then named `name:architecture`.
    pub is_coinstallable: bool,
}

/// The wanted packages that have files. Only the names of the others are read, since they are most of the file.
pub fn installed(status: &[u8], is_wanted: &dyn Fn(&str) -> bool) -> Vec<DebianPackage> {
    const FIELD: &[u8] = b"Package: ";
    let mut packages = Vec::new();
    let mut end = 0;
    for start in memchr::memmem::find_iter(status, FIELD) {
        if start < end || start > 0 && status[start - 1] != b'\n' {
            continue;
        }
        let name = line(&status[start + FIELD.len()..]);
        if !std::str::from_utf8(name).is_ok_and(is_wanted) {
            continue;
        }
        let paragraph = &status[start..];
        let length = memchr::memmem::find(paragraph, b"\n\n").unwrap_or(paragraph.len());
        end = start + length;
        packages.extend(package(&paragraph[..length]));
    }
    packages
}

/// The wanted absolute paths of a list of files, which has one path in each line.
pub fn list(bytes: &[u8], is_wanted: &dyn Fn(&str) -> bool) -> Vec<String> {
    let mut paths = Vec::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        let Ok(path) = std::str::from_utf8(line) else {
            continue;
        };
        if path.starts_with('/') && is_wanted(path) {
            paths.push(path.to_owned());
        }
    }
    paths
}

/// The upstream version of a package: `9.1.0.70` of `9.1.0.70-1`, `2.21.5` of `2.21.5-1+cuda12.4`. It has at least
/// three numbers, as every library's version has.
pub fn upstream(version: &str) -> Option<Version> {
    let (upstream, _) = without_epoch(version).split_once('-')?;
    let version: Version = upstream.parse().ok()?;
    (version.numbers().len() >= 3).then_some(version)
}

/// The library's version from Debian's own packages, which append the toolkit's version:
/// `11.11.3.6~11.8.0-5~deb12u1`, and `11.1.1+~10.9.0.58~11.8.0-5~deb12u1` where an older one counted higher.
pub fn before_toolkit(version: &str) -> Option<Version> {
    let (upstream, _) = without_epoch(version).split_once('-')?;
    let (library, toolkit) = upstream.rsplit_once('~')?;
    let toolkit: Version = toolkit.parse().ok()?;
    if toolkit.numbers().len() != 3 {
        return None;
    }
    match library.rsplit_once("+~") {
        Some((_, newest)) => newest.parse().ok(),
        None => library.parse().ok(),
    }
}

fn package(paragraph: &[u8]) -> Option<DebianPackage> {
    let mut package = DebianPackage::default();
    let mut has_files = false;
    for line in paragraph.split(|byte| *byte == b'\n') {
        let Some((field, value)) = std::str::from_utf8(line)
            .ok()
            .and_then(|line| line.split_once(": "))
        else {
            continue;
        };
        match field {
            "Package" => value.clone_into(&mut package.name),
            "Version" => value.clone_into(&mut package.version),
            "Architecture" => value.clone_into(&mut package.architecture),
            "Multi-Arch" => package.is_coinstallable = value == "same",
            // The wanted state, an error flag and the present state.
            "Status" => {
                let state = value.rsplit(' ').next();
                has_files = !matches!(state, Some("not-installed" | "config-files"));
            }
            _ => {}
        }
    }
    (has_files && !package.name.is_empty()).then_some(package)
}

fn line(bytes: &[u8]) -> &[u8] {
    &bytes[..memchr::memchr(b'\n', bytes).unwrap_or(bytes.len())]
}

fn without_epoch(version: &str) -> &str {
    match version.split_once(':') {
        Some((epoch, rest)) if epoch.bytes().all(|byte| byte.is_ascii_digit()) => rest,
        _ => version,
    }
}
