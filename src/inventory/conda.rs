//! Environments of conda, mamba and pixi, and the package of each library in them.

use std::path::{Path, PathBuf};

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
    let mut places = environment(scan, root);
    if !places.is_empty() {
        places.extend(python::in_environment(scan, root));
    }
    places
}

/// The directories of one environment, without its Python packages; empty where there is no environment.
pub(super) fn environment(look: &mut ScanContext<'_>, root: &Path) -> Vec<SearchLocation> {
    let meta = root.join("conda-meta");
    let names = look.children(&meta);
    if !look.host.is_directory(&meta) {
        return Vec::new();
    }
    let mut places = SearchLocations::default();
    for (below, origin) in [
        ("lib", Origin::Conda),
        ("lib/stubs", Origin::Stub),
        ("targets/sbsa-linux/lib", Origin::Conda),
        ("targets/sbsa-linux/lib/stubs", Origin::Stub),
        ("targets/x86_64-linux/lib", Origin::Conda),
        ("targets/x86_64-linux/lib/stubs", Origin::Stub),
    ] {
        places.insert(SearchLocation::new(root.join(below), origin));
    }
    let packages: Vec<_> = names
        .iter()
        .filter_map(|name| Some((name, conda::package(name)?)))
        .collect();
    let files: Vec<PathBuf> = packages.iter().map(|(name, _)| meta.join(name)).collect();
    let listed = records::libraries(look, &files, RECORD_LIMIT, |bytes| {
        let files = conda::files(bytes, &records::is_library)
            .map_err(|error| ReadFault::bad_json(&error))?;
        Ok(files.into_iter().map(|path| (path, None)).collect())
    });
    for ((_, (package, version, build)), libraries) in packages.into_iter().zip(listed) {
        // As `conda list` writes it.
        let says = parts::says(format!("{package} {version} {build}"), package, version);
        for (path, _) in &libraries {
            let path = root.join(path);
            let Some((place, file)) = places.of_file(&path, Origin::Conda) else {
                continue;
            };
            let said = parts::family_of_file(file).and_then(&says);
            place
                .packaged
                .extend(said.map(|said| (file.to_owned(), said)));
        }
    }
    places.all()
}
