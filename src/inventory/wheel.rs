//! Wheels: every directory with a library in a distribution's `RECORD`, in both layouts (`nvidia/<part>/lib` and
//! `nvidia/cu13/lib`) and in packages that bundle libraries.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::directory_scan::NamedFile;
use super::installation::{Origin, Problem};
use super::location::{PackageRecord, ScanContext, SearchLocation, SearchLocations};
use super::records;
use crate::catalog::catalog;
use crate::formats::metadata;
use crate::host::{DirectoryEntry, FileKind, Host};

/// It is written last, so an entry of a store that has it is whole.
pub const ABOUT: &str = "meta.toml";

pub(super) fn locations(scan: &mut ScanContext<'_>) -> Vec<SearchLocation> {
    let mut locations = Vec::new();
    for site in &scan.scope.site_packages {
        locations.extend(in_site_packages(scan, site));
    }
    locations
}

/// The directories of the wheels that `cudarun fetch` has brought: each directory of a store is laid out like
/// site-packages.
pub(super) fn fetched(scan: &mut ScanContext<'_>) -> Vec<SearchLocation> {
    let mut locations = Vec::new();
    for store in &scan.scope.stores {
        for name in scan.children(store) {
            let entry = store.join(&name);
            if !name.starts_with('.') && scan.host.is_file(&entry.join(ABOUT)) {
                locations.extend(in_site_packages(scan, &entry));
            }
        }
    }
    for location in &mut locations {
        location.origin = Origin::Fetched;
    }
    locations
}

/// The directories with libraries of one site-packages directory, recorded or not.
pub(super) fn in_site_packages(scan: &mut ScanContext<'_>, site: &Path) -> Vec<SearchLocation> {
    scan.watch(site);
    let entries = scan.host.listing(site).unwrap_or_default();
    let mut locations = recorded(scan, site);
    locations.extend(laid_out(scan, site, &entries));
    locations
}

/// The directories in the distributions' records; several of them may fill one directory.
fn recorded(scan: &mut ScanContext<'_>, site: &Path) -> Vec<SearchLocation> {
    let distributions = distributions(scan.host, site);
    let files: Vec<PathBuf> = distributions
        .iter()
        .map(|distribution| distribution.directory.join("RECORD"))
        .collect();
    let records = records::libraries(scan, &files, u64::MAX, |bytes| {
        Ok(metadata::record(bytes, &records::is_library))
    });
    let mut locations = SearchLocations::default();
    let mut claims: BTreeMap<PathBuf, Vec<PackageRecord>> = BTreeMap::new();
    for (SitePackage { name, version, .. }, record) in distributions.iter().zip(records) {
        let mut families = catalog().families.iter();
        let is_nvidias =
            name.starts_with("nvidia-") || families.any(|family| family.is_wheel(name));
        let origin = if is_nvidias {
            Origin::Wheel
        } else {
            Origin::Bundled
        };
        for (path, size) in record {
            // Another package's file outside site-packages does not make its directory a bundled one.
            if !is_nvidias && path.starts_with("..") {
                continue;
            }
            let path = site.join(path);
            let Some((location, file)) = locations.of_file(&path, origin) else {
                continue;
            };
            location.origin = location.origin.min(origin);
            // The version of torch says nothing about the cuDNN that it bundles, nor that of cuFFTMp about a cuFFT.
            let has_its_version = catalog().family_of(file).is_some_and(|(family, _)| {
                family.is_wheel(name) || !family.has_wheel() && is_nvidias
            });
            let package_record = PackageRecord {
                package: format!("{name} {version}"),
                version: version.parse().ok().filter(|_| has_its_version),
                size,
            };
            location
                .records
                .insert(file.to_owned(), package_record.clone());
            claims.entry(path).or_default().push(package_record);
        }
    }
    for (path, claims) in claims {
        if differ(&claims)
            && let Some((location, file)) = locations.of_file(&path, Origin::Bundled)
        {
            location.claims.insert(file.to_owned(), claims);
        }
    }
    locations.all()
}

/// The usual directories of such libraries, recorded or not.
fn laid_out(
    scan: &mut ScanContext<'_>,
    site: &Path,
    entries: &[DirectoryEntry],
) -> Vec<SearchLocation> {
    let nvidia = site.join("nvidia");
    let mut locations = Vec::new();
    for part in scan.children(&nvidia) {
        let directory = nvidia.join(part).join("lib");
        locations.push(SearchLocation::new(directory, Origin::Wheel));
    }
    for entry in entries {
        if entry.kind == FileKind::Directory
            && let Some(name) = entry.name.to_str()
            && name.ends_with(".libs")
        {
            locations.push(SearchLocation::new(site.join(name), Origin::Bundled));
        }
    }
    locations
}

/// True if packages brought different files. Equal sizes count as equal files: no file is hashed.
fn differ(claims: &[PackageRecord]) -> bool {
    let sizes: BTreeSet<u64> = claims.iter().filter_map(|claim| claim.size).collect();
    sizes.len() > 1
}

/// Returns the records of the location's files, each by the package whose file it is, and the problems of those that two
/// packages claim. A file that could be either package's has no record: it is what its bytes say.
pub(super) fn settle(
    location: &SearchLocation,
    candidates: &[NamedFile],
) -> (BTreeMap<String, PackageRecord>, Vec<Problem>) {
    let mut records = location.records.clone();
    let mut problems: BTreeMap<Vec<String>, Problem> = BTreeMap::new();
    for candidate in candidates {
        for file in &candidate.names {
            let Some(claims) = location.claims.get(file) else {
                continue;
            };
            let size = candidate.stat.size;
            let mut holders = claims
                .iter()
                .filter(|claim| claim.size.is_none_or(|own| own == size));
            let holder = holders.next().filter(|_| holders.next().is_none());
            match holder {
                Some(holder) => records.insert(file.clone(), holder.clone()),
                None => records.remove(file),
            };
            let holder = holder.map(|holder| holder.package.clone());
            let mut packages: Vec<String> =
                claims.iter().map(|claim| claim.package.clone()).collect();
            packages.sort();
            let problem =
                problems
                    .entry(packages.clone())
                    .or_insert_with(|| Problem::ClaimedTwice {
                        files: Vec::new(),
                        packages,
                        holds: holder.clone(),
                    });
            if let Problem::ClaimedTwice { files, holds, .. } = problem {
                files.push(file.clone());
                if *holds != holder {
                    *holds = None;
                }
            }
        }
    }
    (records, problems.into_values().collect())
}

/// A distribution in a site-packages directory.
pub struct SitePackage {
    /// Its `.dist-info` directory.
    pub directory: PathBuf,
    /// Normalised.
    pub name: String,
    pub version: String,
}

pub fn distributions(host: &Host, site: &Path) -> Vec<SitePackage> {
    let mut distributions = Vec::new();
    for entry in host.listing(site).unwrap_or_default().iter() {
        if let Some(directory) = entry.name.to_str()
            && let Some((name, version)) = distribution(directory)
        {
            distributions.push(SitePackage {
                directory: site.join(directory),
                name,
                version: version.to_owned(),
            });
        }
    }
    distributions
}

/// `nvidia_cudnn_cu12-9.1.0.70.dist-info` is `nvidia-cudnn-cu12` in version 9.1.0.70.
pub fn distribution(directory: &str) -> Option<(String, &str)> {
    let (name, version) = directory.strip_suffix(".dist-info")?.split_once('-')?;
    Some((metadata::normalised(name), version))
}
