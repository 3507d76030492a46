//! Packages of one library family or of a whole toolkit: the family in a package's name, and the package records of
//! files in its own directory.

use std::path::{Path, PathBuf};

use super::directory_scan;
use super::installation::Origin;
use super::location::{PackageRecord, ScanContext, SearchLocation};
use crate::catalog::{Family, catalog};
use crate::formats::names;

/// Words of a package's name that do not name a family.
const FILLERS: &[&str] = &[
    "64", "aarch64", "cuda", "dev", "devel", "impl", "lib", "linux", "nvidia", "sbsa", "static",
    "stubs",
];
/// The package of the driver that the kernel runs. Other packages of drivers have other versions: conda's `cuda-compat`
/// has the version of a toolkit.
const DRIVER: &str = "nvidia-x11";

/// The family that has the version of the package: `cuda_cudart`, `libcublas`, `cuda-nvrtc-dev_linux-64`,
/// `cuda12.4-cudnn`. None for a `cudatoolkit` or a `cuda` with many families.
pub(super) fn family(package: &str) -> Option<&'static Family> {
    if package == DRIVER {
        return catalog().family("driver");
    }
    let package = package.to_ascii_lowercase();
    let mut words = package
        .split(['-', '_'])
        .filter(|word| !FILLERS.contains(word) && !is_toolkit(word));
    let (Some(word), None) = (words.next(), words.next()) else {
        return None;
    };
    let name = word.strip_prefix("lib").unwrap_or(word);
    // `libnvshmem3`, `cutensor2`
    let unnumbered = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let mut families = [name, unnumbered]
        .into_iter()
        .filter_map(|name| catalog().family(name));
    families.find(|family| !family.is_driver())
}

/// `cuda12.4`, `cu12`
fn is_toolkit(word: &str) -> bool {
    let number = word
        .strip_prefix("cuda")
        .or_else(|| word.strip_prefix("cu"));
    number.is_some_and(|number| {
        let mut bytes = number.bytes();
        bytes.all(|byte| byte.is_ascii_digit() || byte == b'.')
    })
}

/// The family of a library by its file name.
pub(super) fn family_of_file(name: &str) -> Option<&'static Family> {
    let (stem, _) = names::split(name)?;
    catalog().family_of_stem(stem)
}

/// Returns a package's own directory with the records that `record_of` gives for its files.
pub(super) fn location(
    scan: &ScanContext<'_>,
    directory: PathBuf,
    origin: Origin,
    record_of: &dyn Fn(&Family) -> Option<PackageRecord>,
) -> SearchLocation {
    let mut location = SearchLocation::new(directory, origin);
    for name in libraries(scan, &location.directory) {
        if let Some(record) = family_of_file(&name).and_then(record_of) {
            location.records.insert(name, record);
        }
    }
    location
}

/// Returns the record of a package for the files of each family. It has the version for the family in the package's name.
pub(super) fn record_by_family(
    package: String,
    name: &str,
    version: &str,
) -> impl Fn(&Family) -> Option<PackageRecord> {
    let own = family(name);
    let version = version.parse().ok();
    move |family| {
        let is_own = own.is_some_and(|own| own.name == family.name);
        Some(PackageRecord {
            package: package.clone(),
            version: version.filter(|_| is_own),
            size: None,
        })
    }
}

/// The names in a directory that may be libraries, from the cache if it has them.
fn libraries(scan: &ScanContext<'_>, directory: &Path) -> Vec<String> {
    if let Ok(stat) = scan.host.stat(directory)
        && let Some(names) = scan.cache.directories.get(&stat)
    {
        return names.into_iter().map(|name| name.name).collect();
    }
    let entries = scan.host.list(directory).unwrap_or_default();
    entries
        .into_iter()
        .filter_map(|entry| entry.name.into_string().ok())
        .filter(|name| directory_scan::is_of_interest(name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_of_the_family_that_it_is_called_after() {
        for (package, expected) in [
            ("libcudnn", "cudnn"),
            ("cuda_cudart", "cudart"),
            ("cuda-cudart-dev_linux-64", "cudart"),
            ("cuda12.4-libcublas", "cublas"),
            ("libnvshmem3", "nvshmem"),
            ("libcusparse", "cusparse"),
            ("cusparselt", "cusparselt"),
            ("nvidia-x11", "driver"),
        ] {
            assert_eq!(family(package).unwrap().name, expected, "{package}");
        }
        for package in [
            "cudatoolkit",
            "cuda-runtime",
            "cuda-driver-dev",
            "cuda-compat",
            "cudnn-frontend",
            "_",
        ] {
            assert!(family(package).is_none(), "{package}");
        }
    }
}
