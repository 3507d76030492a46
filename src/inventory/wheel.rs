//! Wheels: every directory with a library in a distribution's `RECORD`, in both layouts (`nvidia/<part>/lib` and
//! `nvidia/cu13/lib`) and in packages that bundle libraries.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::directory_scan::NamedFile;
use super::installation::{Origin, Problem};
use super::location::{Packaged, ScanContext, SearchLocation, SearchLocations};
use super::records;
use crate::catalog::{Family, catalog};
use crate::formats::metadata;
use crate::host::{DirectoryEntry, FileKind, Host};

/// It is written last, so an entry of a store that has it is whole.
pub const ABOUT: &str = "meta.toml";

pub(super) fn places(look: &mut ScanContext<'_>) -> Vec<SearchLocation> {
    let mut places = Vec::new();
    for site in &look.scope.site_packages {
        places.extend(in_site_packages(look, site));
    }
    places
}

/// Returns the places of the wheels that `cudarun fetch` has brought: each directory of a store is laid out like
/// site-packages.
pub(super) fn fetched(look: &mut ScanContext<'_>) -> Vec<SearchLocation> {
    let mut places = Vec::new();
    for store in &look.scope.stores {
        for name in look
            .children(store)
            .into_iter()
            .filter(|name| !name.starts_with('.'))
        {
            let entry = store.join(name);
            if look.host.is_file(&entry.join(ABOUT)) {
                places.extend(in_site_packages(look, &entry));
            }
        }
    }
    for place in &mut places {
        place.origin = Origin::Fetched;
    }
    places
}

/// The places of one site-packages directory, recorded or not.
pub(super) fn in_site_packages(look: &mut ScanContext<'_>, site: &Path) -> Vec<SearchLocation> {
    look.watch(site);
    let entries = look.host.listing(site).unwrap_or_default();
    let mut places = recorded(look, site);
    places.extend(laid_out(look, site, &entries));
    places
}

/// The places in the distributions' records; several of them may fill one directory.
fn recorded(look: &mut ScanContext<'_>, site: &Path) -> Vec<SearchLocation> {
    let distributions = distributions(look.host, site);
    let files: Vec<PathBuf> = distributions
        .iter()
        .map(|distribution| distribution.directory.join("RECORD"))
        .collect();
    let records = records::libraries(look, &files, u64::MAX, |bytes| {
        Ok(metadata::record(bytes, &records::is_library))
    });
    let mut places = SearchLocations::default();
    let mut claims: BTreeMap<PathBuf, Vec<Packaged>> = BTreeMap::new();
    for (SitePackage { name, version, .. }, record) in distributions.iter().zip(&records) {
        let brings = |family: &Family| family.is_wheel(name);
        let is_nvidias = name.starts_with("nvidia-") || catalog().families.iter().any(brings);
        let origin = if is_nvidias {
            Origin::Wheel
        } else {
            Origin::Bundled
        };
        for (recorded, size) in record {
            // Another package's file outside site-packages does not make its directory a bundled one.
            if !is_nvidias && recorded.starts_with("..") {
                continue;
            }
            let path = site.join(recorded);
            let Some((place, file)) = places.of_file(&path, origin) else {
                continue;
            };
            place.origin = place.origin.min(origin);
            let package = format!("{name} {version}");
            // The version of torch says nothing about the cuDNN that it bundles, nor that of cuFFTMp about a cuFFT.
            let is_its = |(family, _): (&Family, _)| {
                family.is_wheel(name) || !family.has_wheel() && is_nvidias
            };
            let version = version
                .parse()
                .ok()
                .filter(|_| catalog().family_of(file).is_some_and(is_its));
            let packaged = Packaged {
                package,
                version,
                size: *size,
            };
            place.packaged.insert(file.to_owned(), packaged.clone());
            claims.entry(path).or_default().push(packaged);
        }
    }
    claims.retain(|_, claims| differ(claims));
    for (path, claims) in claims {
        if let Some((place, file)) = places.of_file(&path, Origin::Bundled) {
            place.claimed.insert(file.to_owned(), claims);
        }
    }
    places.all()
}

/// The usual directories of such libraries, recorded or not.
fn laid_out(
    look: &mut ScanContext<'_>,
    site: &Path,
    entries: &[DirectoryEntry],
) -> Vec<SearchLocation> {
    let nvidia = site.join("nvidia");
    let parts = look.children(&nvidia);
    let mut places: Vec<SearchLocation> = parts
        .iter()
        .map(|part| SearchLocation::new(nvidia.join(part).join("lib"), Origin::Wheel))
        .collect();
    for entry in entries
        .iter()
        .filter(|entry| entry.kind == FileKind::Directory)
    {
        if let Some(name) = entry.name.to_str().filter(|name| name.ends_with(".libs")) {
            places.push(SearchLocation::new(site.join(name), Origin::Bundled));
        }
    }
    places
}

/// True if packages brought different files. Equal sizes count as equal files: no file is hashed.
fn differ(claims: &[Packaged]) -> bool {
    let sizes: BTreeSet<u64> = claims.iter().filter_map(|claim| claim.size).collect();
    sizes.len() > 1
}

/// Returns the records of the place's files, each by the package whose file it is, and the problems of those that two
/// packages claim. A file that could be either package's has no record: it is what its bytes say.
pub(super) fn settle(
    place: &SearchLocation,
    candidates: &[NamedFile],
) -> (BTreeMap<String, Packaged>, Vec<Problem>) {
    let mut packaged = place.packaged.clone();
    let mut problems: BTreeMap<Vec<String>, Problem> = BTreeMap::new();
    let files = candidates
        .iter()
        .flat_map(|one| one.names.iter().map(|name| (name, one.stat.size)));
    for (file, size) in files {
        let Some(claims) = place.claimed.get(file) else {
            continue;
        };
        let mut holders = claims
            .iter()
            .filter(|claim| claim.size.is_none_or(|own| own == size));
        let holder = holders.next().filter(|_| holders.next().is_none());
        match holder {
            Some(holder) => packaged.insert(file.clone(), holder.clone()),
            None => packaged.remove(file),
        };
        let holder = holder.map(|holder| holder.package.clone());
        let mut packages: Vec<String> = claims.iter().map(|claim| claim.package.clone()).collect();
        packages.sort();
        let problem = problems
            .entry(packages.clone())
            .or_insert_with(|| Problem::ClaimedTwice {
                files: Vec::new(),
                packages,
                holds: holder.clone(),
            });
        if let Problem::ClaimedTwice { files, holds, .. } = problem {
            files.push(file.clone());
            *holds = holds.take().filter(|holds| Some(holds) == holder.as_ref());
        }
    }
    (packaged, problems.into_values().collect())
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
    let entries = host.listing(site).unwrap_or_default();
    let described = |directory: &str| {
        let (name, version) = distribution(directory)?;
        Some(SitePackage {
            directory: site.join(directory),
            name,
            version: version.to_owned(),
        })
    };
    entries
        .iter()
        .filter_map(|entry| described(entry.name.to_str()?))
        .collect()
}

/// `nvidia_cudnn_cu12-9.1.0.70.dist-info` is `nvidia-cudnn-cu12` in version 9.1.0.70.
pub fn distribution(directory: &str) -> Option<(String, &str)> {
    let (name, version) = directory.strip_suffix(".dist-info")?.split_once('-')?;
    Some((metadata::normalised(name), version))
}
