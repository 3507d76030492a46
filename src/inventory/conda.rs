//! Environments of conda, mamba and pixi, and the package of each library in them.

use std::path::Path;

use super::installation::Origin;
use super::location::{ScanContext, SearchLocation, SearchLocations};
use super::warning::ReadFault;
use super::{parts, python, records};
use crate::formats::conda;

/// In bytes. The records of the largest packages have a few megabytes.
const RECORD_LIMIT: u64 = 16 << 20;

/// The environments in a list, as `~/.conda/environments.txt` is one.
pub(super) fn listed(scan: &mut ScanContext<'_>, list: &Path) -> Vec<SearchLocation> {
    let text = scan.host.read_text(list).unwrap_or_default();
    let roots = conda::environments(&text);
    roots
        .flat_map(|root| with_packages(scan, Path::new(root)))
        .collect()
}

/// The directories of one environment and of its Python packages.
pub(super) fn with_packages(scan: &mut ScanContext<'_>, root: &Path) -> Vec<SearchLocation> {
    let mut locations = environment(scan, root);
    if !locations.is_empty() {
        locations.extend(python::in_environment(scan, root));
    }
    locations
}

/// The directories of one environment, without its Python packages; empty where there is no environment.
pub(super) fn environment(scan: &mut ScanContext<'_>, root: &Path) -> Vec<SearchLocation> {
    let meta = root.join("conda-meta");
    let names = scan.children(&meta);
    if !scan.host.is_directory(&meta) {
        return Vec::new();
    }
    let mut locations = SearchLocations::default();
    for (directory, origin) in [
        ("lib", Origin::Conda),
        ("lib/stubs", Origin::Stub),
        ("targets/sbsa-linux/lib", Origin::Conda),
        ("targets/sbsa-linux/lib/stubs", Origin::Stub),
        ("targets/x86_64-linux/lib", Origin::Conda),
        ("targets/x86_64-linux/lib/stubs", Origin::Stub),
    ] {
        locations.insert(SearchLocation::new(root.join(directory), origin));
    }
    let mut packages = Vec::new();
    let mut files = Vec::new();
    for name in &names {
        if let Some(package) = conda::package(name) {
            packages.push(package);
            files.push(meta.join(name));
        }
    }
    let listed = records::libraries(scan, &files, RECORD_LIMIT, |bytes| {
        let files = conda::files(bytes, &records::is_library)
            .map_err(|error| ReadFault::bad_json(&error))?;
        Ok(files.into_iter().map(|path| (path, None)).collect())
    });
    for ((package, version, build), libraries) in packages.into_iter().zip(listed) {
        // As `conda list` writes it.
        let record_of =
            parts::record_by_family(format!("{package} {version} {build}"), package, version);
        for (path, _) in &libraries {
            let path = root.join(path);
            let Some((location, file)) = locations.of_file(&path, Origin::Conda) else {
                continue;
            };
            if let Some(record) = parts::family_of_file(file).and_then(&record_of) {
                location.records.insert(file.to_owned(), record);
            }
        }
    }
    locations.all()
}
