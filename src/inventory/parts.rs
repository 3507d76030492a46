//! Packages that bring one library family or a whole toolkit: which family a package is of by its name, and what it
//! says of the files in a directory that is its own.

use std::path::{Path, PathBuf};

use super::directory_scan;
use super::location::{Packaged, ScanContext, SearchLocation};
use super::model::Origin;
use crate::catalog::{Family, catalog};
use crate::formats::names;

/// Words of a package's name that say for what it is and not what it is.
const FILLERS: &[&str] =
    &["64", "aarch64", "cuda", "dev", "devel", "impl", "lib", "linux", "nvidia", "sbsa", "static", "stubs"];
/// What each package manager calls the driver where it packs the one that the kernel runs. Other packages of drivers
/// have versions of their own: conda's `cuda-compat` that of a toolkit.
const DRIVER: &str = "nvidia-x11";

/// The family whose version is that of the package: `cuda_cudart`, `libcublas`, `cuda-nvrtc-dev_linux-64`,
/// `cuda12.4-cudnn`. A `cudatoolkit` or a `cuda` holds many.
pub(super) fn family(package: &str) -> Option<&'static Family> {
    if package == DRIVER {
        return catalog().family("driver");
    }
    let package = package.to_ascii_lowercase();
    let is_of_toolkit = |word: &str| {
        let number = word.strip_prefix("cuda").or_else(|| word.strip_prefix("cu"));
        number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
    };
    let mut words = package.split(['-', '_']).filter(|word| !FILLERS.contains(word) && !is_of_toolkit(word));
    let (Some(word), None) = (words.next(), words.next()) else { return None };
    let plain = word.strip_prefix("lib").unwrap_or(word);
    let is_it = |name: &str| catalog().family(name).filter(|family| family.name != "driver");
    // `libnvshmem3`, `cutensor2`
    is_it(plain).or_else(|| is_it(plain.trim_end_matches(|c: char| c.is_ascii_digit())))
}

/// The family of a library by its file name.
pub(super) fn family_of_file(name: &str) -> Option<&'static Family> {
    let (stem, _) = names::split(name)?;
    catalog().family_of_stem(stem)
}

/// A directory that is a package's own, with what the package says of the families in it.
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

/// What a package says that is called so and has this version: of the family that it is of, the version as well.
pub(super) fn says(package: String, name: &str, version: &str) -> impl Fn(&Family) -> Option<Packaged> {
    let own = family(name);
    let version = version.parse().ok();
    move |family| {
        let is_own = own.is_some_and(|own| own.name == family.name);
        Some(Packaged { package: package.clone(), version: version.filter(|_| is_own), size: None })
    }
}

/// The names in a directory that may be libraries.
fn libraries(look: &ScanContext<'_>, directory: &Path) -> Vec<String> {
    let known = look.host.stat(directory).ok().and_then(|stat| look.known.directories.get(&stat));
    if let Some(known) = known {
        return known.into_iter().map(|known| known.name).collect();
    }
    let entries = look.host.list(directory).unwrap_or_default();
    let names = entries.into_iter().filter_map(|entry| entry.name.into_string().ok());
    names.filter(|name| directory_scan::is_of_interest(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_of_the_family_that_it_is_called_after() {
        let of = |name: &str| family(name).map_or("", |family| family.name.as_str());
        for (package, expected) in [
            ("cudnn", "cudnn"),
            ("libcudnn", "cudnn"),
            ("cuda_cudart", "cudart"),
            ("cuda-cudart-dev_linux-64", "cudart"),
            ("cuda12.4-libcublas", "cublas"),
            ("cuda-nvrtc", "nvrtc"),
            ("libnvjitlink", "nvjitlink"),
            ("libnvshmem3", "nvshmem"),
            ("libcusparse", "cusparse"),
            ("cusparselt", "cusparselt"),
            ("nvidia-x11", "driver"),
        ] {
            assert_eq!(of(package), expected, "{package}");
        }
        for package in [
            "cuda",
            "cudatoolkit",
            "cuda-version",
            "cuda-runtime",
            "cuda-driver-dev",
            "cuda-compat",
            "nvidia_driver",
            "cudnn-frontend",
            "pytorch",
            "",
            "_",
            "lib",
        ] {
            assert_eq!(of(package), "", "{package}");
        }
    }
}
