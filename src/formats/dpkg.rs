//! What Debian's package manager records in text: the packages that are installed, the files of each, and what a
//! package's version says of the libraries in it.

use crate::version::Version;

/// A package as `/var/lib/dpkg/status` has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Package {
    pub name: String,
    pub version: String,
    pub architecture: String,
    /// Whether it may be installed for several architectures at once: its list of files is called `name:architecture`.
    pub is_coinstallable: bool,
}

/// The packages whose files are there and whose names are wanted. Most are not, and only their names are looked at.
pub fn installed(status: &[u8], is_wanted: &dyn Fn(&str) -> bool) -> Vec<Package> {
    const FIELD: &[u8] = b"Package: ";
    let mut found = Vec::new();
    let mut end = 0;
    for at in memchr::memmem::find_iter(status, FIELD) {
        if at < end || at > 0 && status[at - 1] != b'\n' {
            continue;
        }
        let name = line(&status[at + FIELD.len()..]);
        if !std::str::from_utf8(name).is_ok_and(is_wanted) {
            continue;
        }
        let paragraph = &status[at..];
        let length = memchr::memmem::find(paragraph, b"\n\n").unwrap_or(paragraph.len());
        end = at + length;
        found.extend(package(&paragraph[..length]));
    }
    found
}

/// The paths of a list of files that lead to something wanted; a path has a line.
pub fn list(bytes: &[u8], is_wanted: &dyn Fn(&str) -> bool) -> Vec<String> {
    let lines = bytes.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
    lines.filter(|path| path.starts_with('/') && is_wanted(path)).map(str::to_owned).collect()
}

/// The version that stands first in that of a package: `9.1.0.70-1`, `2.21.5-1+cuda12.4`, `535.261.03-1~deb12u1`. Three
/// numbers at least, since no library has fewer and other things have.
pub fn upstream(version: &str) -> Option<Version> {
    let (upstream, _) = without_epoch(version).split_once('-')?;
    upstream.parse().ok().filter(|version: &Version| version.numbers().len() >= 3)
}

/// The library's version where Debian's own packages write that of the toolkit behind it:
/// `11.11.3.6~11.8.0-5~deb12u1`, and `11.1.1+~10.9.0.58~11.8.0-5~deb12u1` where an older one counted higher.
pub fn before_toolkit(version: &str) -> Option<Version> {
    let (upstream, _) = without_epoch(version).split_once('-')?;
    let (library, toolkit) = upstream.rsplit_once('~')?;
    let library = library.rsplit_once("+~").map_or(library, |(_, library)| library);
    let toolkit: Version = toolkit.parse().ok()?;
    library.parse().ok().filter(|_| toolkit.numbers().len() == 3)
}

fn package(paragraph: &[u8]) -> Option<Package> {
    let mut package = Package::default();
    let mut has_files = false;
    for line in paragraph.split(|byte| *byte == b'\n') {
        let Some((field, value)) = std::str::from_utf8(line).ok().and_then(|line| line.split_once(": "))
        else {
            continue;
        };
        match field {
            "Package" => value.clone_into(&mut package.name),
            "Version" => value.clone_into(&mut package.version),
            "Architecture" => value.clone_into(&mut package.architecture),
            "Multi-Arch" => package.is_coinstallable = value == "same",
            // What is wanted, whether it went wrong, and what it is now.
            "Status" => {
                let state = value.rsplit(' ').next();
                has_files = !matches!(state, Some("not-installed" | "config-files"));
            }
            _ => {}
        }
    }
    has_files.then_some(package).filter(|package| !package.name.is_empty())
}

fn line(bytes: &[u8]) -> &[u8] {
    &bytes[..memchr::memchr(b'\n', bytes).unwrap_or(bytes.len())]
}

fn without_epoch(version: &str) -> &str {
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    version.split_once(':').filter(|(epoch, _)| is_number(epoch)).map_or(version, |(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "\
Package: libcudnn9-cuda-12
Status: install ok installed
Architecture: amd64
Multi-Arch: same
Version: 9.1.0.70-1
Description: NVIDIA cuDNN
 Package: libcudnn7 is older

Package: libcudnn8
Status: deinstall ok config-files
Version: 8.9.7.29-1+cuda12.2

Package: bash
Status: install ok installed
Version: 5.2-1

Package: libcuda1
Version: 535.261.03-1~deb12u1
Architecture: amd64
Status: install ok unpacked
";

    #[test]
    fn installed_packages_are_found() {
        let found = installed(STATUS.as_bytes(), &|name| name.starts_with("libcu"));
        let package = |name: &str, version: &str, is_coinstallable| Package {
            name: name.to_owned(),
            version: version.to_owned(),
            architecture: "amd64".to_owned(),
            is_coinstallable,
        };
        let expected = [
            package("libcudnn9-cuda-12", "9.1.0.70-1", true),
            package("libcuda1", "535.261.03-1~deb12u1", false),
        ];
        assert_eq!(found, expected);
        assert!(installed(b"", &|_| true).is_empty());
    }

    #[test]
    fn a_list_has_a_path_in_each_line() {
        let text = b"/.\n/usr\n/usr/lib/libcudnn.so.9\n\xff\nlibcudnn.so.9\n/usr/lib/libcudnn.so.9.1.0";
        let found = list(text, &|path| path.contains(".so"));
        assert_eq!(found, ["/usr/lib/libcudnn.so.9", "/usr/lib/libcudnn.so.9.1.0"]);
    }

    #[test]
    fn versions_of_libraries_in_versions_of_packages() {
        let upstream = |text| super::upstream(text).map(|version| version.to_string());
        assert_eq!(upstream("9.1.0.70-1").unwrap(), "9.1.0.70");
        assert_eq!(upstream("12.4.127-1").unwrap(), "12.4.127");
        assert_eq!(upstream("2.21.5-1+cuda12.4").unwrap(), "2.21.5");
        assert_eq!(upstream("535.261.03-1~deb12u1").unwrap(), "535.261.03");
        assert_eq!(upstream("3:550.54.15-1.el9").unwrap(), "550.54.15");
        for other in ["12.4-1", "8.7.0.84~cuda11.8", "11.11.3.6~11.8.0-5~deb12u1", "1.2.3", "a:1.2.3-1", ""] {
            assert_eq!(upstream(other), None, "{other}");
        }
        let before = |text| before_toolkit(text).map(|version| version.to_string());
        assert_eq!(before("11.11.3.6~11.8.0-5~deb12u1").unwrap(), "11.11.3.6");
        assert_eq!(before("11.1.1+~10.9.0.58~11.8.0-5~deb12u1").unwrap(), "10.9.0.58");
        assert_eq!(before("11.5.117~11.5.1-1ubuntu1").unwrap(), "11.5.117");
        for other in
            ["11.8.0-5~deb12u1", "8.7.0.84~cuda11.8", "535.261.03-1~deb12u1", "1.2.3~rc1-2", "~-", ""]
        {
            assert_eq!(before(other), None, "{other}");
        }
    }

    #[test]
    fn any_prefix_gives_a_result() {
        for length in 0..STATUS.len() {
            installed(&STATUS.as_bytes()[..length], &|_| true);
        }
    }
}
