//! The directories of a CUDA toolkit or of a package in a store, and the versions in a toolkit's manifest.

use std::ffi::OsStr;
use std::path::Path;

use super::installation::Origin;
use super::location::{PackageRecord, ScanContext, SearchLocation};
use super::parts;
use super::warning::ReadFault;
use crate::catalog::Family;
use crate::formats::{elf, manifest, store};

/// The directory of Debian's toolkits.
const DEBIAN: &str = "/usr/lib";
/// Shared directories: a user without a toolkit may name one of them.
const SHARED: [&str; 4] = ["/", "/opt", "/usr", "/usr/local"];
/// Beginnings of the names of packages with several families.
const TOOLKITS: [&str; 3] = ["cuda", "cudnn", "tensorrt"];
/// A manifest has a few thousand bytes.
const MANIFEST_LIMIT: u64 = 1 << 20;

/// The directories of one toolkit.
pub(super) fn locations_in(scan: &mut ScanContext<'_>, root: &Path) -> Vec<SearchLocation> {
    libraries(scan, root, Origin::Toolkit, &|_| None)
}

/// The directories of a package in a store, if it may have libraries of a known family.
pub(super) fn package(scan: &mut ScanContext<'_>, root: &Path) -> Vec<SearchLocation> {
    let entry = root.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let Some((name, version)) = store::package(entry) else {
        return Vec::new();
    };
    let is_toolkit = TOOLKITS.iter().any(|toolkit| name.starts_with(toolkit));
    if !is_toolkit && parts::family(name).is_none() {
        return Vec::new();
    }
    let package = format!("{name} {version}").trim_end().to_owned();
    libraries(
        scan,
        root,
        Origin::Store,
        &parts::record_by_family(package, name, version),
    )
}

/// The directories of libraries. The manifest's record of a file counts before that of `record_of`.
fn libraries(
    scan: &mut ScanContext<'_>,
    root: &Path,
    origin: Origin,
    record_of: &dyn Fn(&Family) -> Option<PackageRecord>,
) -> Vec<SearchLocation> {
    if SHARED.iter().any(|shared| root == Path::new(shared)) {
        return Vec::new();
    }
    let targets: &[&str] = match scan.scope.machine {
        elf::AARCH64 => &["targets/sbsa-linux/lib", "targets/aarch64-linux/lib"],
        _ => &["targets/x86_64-linux/lib"],
    };
    let libraries = ["lib64", "lib"]
        .iter()
        .chain(targets)
        .chain(&["extras/CUPTI/lib64", "nvvm/lib64"]);
    let manifest = manifest(scan, root);
    let mut locations = Vec::new();
    for library in libraries {
        let directory = root.join(library);
        // Debian's toolkit has links to the directory of all libraries.
        if root.starts_with(DEBIAN)
            && !scan
                .host
                .canonical(&directory)
                .is_ok_and(|real| real.starts_with(root))
        {
            scan.watch(root);
            continue;
        }
        let stubs = directory.join("stubs");
        locations.push(SearchLocation::new(stubs, Origin::Stub));
        locations.push(parts::location(scan, directory, origin, &|family| {
            let manifest = manifest.as_ref();
            manifest
                .and_then(|manifest| manifest_record(manifest, family))
                .or_else(|| record_of(family))
        }));
    }
    locations
}

fn manifest(scan: &mut ScanContext<'_>, root: &Path) -> Option<manifest::ToolkitManifest> {
    let path = root.join("version.json");
    scan.watch(&path);
    let bytes = scan.host.read_start(&path, MANIFEST_LIMIT).ok()?;
    match manifest::manifest(&bytes) {
        Ok(manifest) => manifest,
        Err(error) => {
            scan.warn(path, ReadFault::bad_json(&error));
            None
        }
    }
}

/// The manifest's record for the files of a family; none for a library that was added, such as cuDNN.
fn manifest_record(manifest: &manifest::ToolkitManifest, family: &Family) -> Option<PackageRecord> {
    let (_, version) = manifest
        .parts
        .iter()
        .find(|(name, _)| parts::family(name).is_some_and(|part| part.name == family.name))?;
    let package = format!("cuda-toolkit {}", manifest.toolkit);
    Some(PackageRecord {
        package,
        version: Some(*version),
        size: None,
    })
}
