//! Packages of one library family or of a whole toolkit: the family in a package's name, and the package records of
//! files in its own directory.

use std::path::{Path, PathBuf};

use super::directory_scan;
use super::installation::Origin;
use super::location::{Packaged, ScanContext, SearchLocation};
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

/// Returns the family that has the version of the package: `cuda_cudart`, `libcublas`, `cuda-nvrtc-dev_linux-64`,
/// `cuda12.4-cudnn`. None for a `cudatoolkit` or a `cuda` with many families.
pub(super) fn family(package: &str) -> Option<&'static Family> {
    if package == DRIVER {
        return catalog().family("driver");
    }
    let package = package.to_ascii_lowercase();
    let is_of_toolkit = |word: &str| {
        let number = word
            .strip_prefix("cuda")
            .or_else(|| word.strip_prefix("cu"));
        number.is_some_and(|number| {
            number
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'.')
        })
    };
    let mut words = package
        .split(['-', '_'])
        .filter(|word| !FILLERS.contains(word) && !is_of_toolkit(word));
    let (Some(word), None) = (words.next(), words.next()) else {
        return None;
    };
    let plain = word.strip_prefix("lib").unwrap_or(word);
    let family = |name: &str| {
        catalog()
            .family(name)
            .filter(|family| family.name != "driver")
    };
    // `libnvshmem3`, `cutensor2`
    family(plain).or_else(|| family(plain.trim_end_matches(|c: char| c.is_ascii_digit())))
}

/// The family of a library by its file name.
pub(super) fn family_of_file(name: &str) -> Option<&'static Family> {
    let (stem, _) = names::split(name)?;
    catalog().family_of_stem(stem)
}

/// Returns a package's own directory with the records that `says` gives for its files.
pub(super) fn place(
    look: &ScanContext<'_>,
    directory: PathBuf,
    origin: Origin,
    says: &dyn Fn(&Family) -> Option<Packaged>,
) -> SearchLocation {
    let mut place = SearchLocation::new(directory, origin);
    for name in libraries(look, &place.directory) {
        if let Some(packaged) = family_of_file(&name).and_then(says) {
            place.packaged.insert(name, packaged);
        }
    }
    place
}

/// Returns the record of a package for the files of each family. It has the version for the family in the package's name.
pub(super) fn says(
    package: String,
    name: &str,
    version: &str,
) -> impl Fn(&Family) -> Option<Packaged> {
    let own = family(name);
    let version = version.parse().ok();
    move |family| {
        let is_own = own.is_some_and(|own| own.name == family.name);
        Some(Packaged {
            package: package.clone(),
            version: version.filter(|_| is_own),
            size: None,
        })
    }
}

/// Returns the names in a directory that may be libraries, from the cache if it has them.
fn libraries(look: &ScanContext<'_>, directory: &Path) -> Vec<String> {
    let known = look
        .host
        .stat(directory)
        .ok()
        .and_then(|stat| look.known.directories.get(&stat));
    if let Some(known) = known {
        return known.into_iter().map(|known| known.name).collect();
    }
    let entries = look.host.list(directory).unwrap_or_default();
    let names = entries
        .into_iter()
        .filter_map(|entry| entry.name.into_string().ok());
    names
        .filter(|name| directory_scan::is_of_interest(name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_of_the_family_that_it_is_called_after() {
        let named = |name: &str| family(name).map_or("", |family| family.name.as_str());
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
            assert_eq!(named(package), expected, "{package}");
        }
        for package in [
            "cudatoolkit",
            "cuda-runtime",
            "cuda-driver-dev",
            "cuda-compat",
            "cudnn-frontend",
            "_",
        ] {
            assert_eq!(named(package), "", "{package}");
        }
    }
}
