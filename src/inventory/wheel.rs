//! Wheels: every directory with a library in a distribution's `RECORD`, in both layouts (`nvidia/<part>/lib` and
//! `nvidia/cu13/lib`) and in packages that bundle libraries.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::claims;
use super::location::{Packaged, ScanContext, SearchLocation, SearchLocations};
use super::model::Origin;
use super::records;
use crate::catalog::{Family, catalog};
use crate::formats::metadata;
use crate::host::{Entry, Host, Kind};

pub(super) fn places(look: &mut ScanContext<'_>) -> Vec<SearchLocation> {
    let mut places = Vec::new();
    for site in &look.scope.site_packages {
        places.extend(in_site_packages(look, site));
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
    for (Distribution { name, version, .. }, record) in distributions.iter().zip(&records) {
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
    claims.retain(|_, claims| claims::differ(claims));
    for (path, claims) in claims {
        if let Some((place, file)) = places.of_file(&path, Origin::Bundled) {
            place.claimed.insert(file.to_owned(), claims);
        }
    }
    places.all()
}

/// The usual directories of such libraries, recorded or not.
fn laid_out(look: &mut ScanContext<'_>, site: &Path, entries: &[Entry]) -> Vec<SearchLocation> {
    let nvidia = site.join("nvidia");
    let parts = look.children(&nvidia);
    let mut places: Vec<SearchLocation> = parts
        .iter()
        .map(|part| SearchLocation::new(nvidia.join(part).join("lib"), Origin::Wheel))
        .collect();
    for entry in entries.iter().filter(|entry| entry.kind == Kind::Directory) {
        if let Some(name) = entry.name.to_str().filter(|name| name.ends_with(".libs")) {
            places.push(SearchLocation::new(site.join(name), Origin::Bundled));
        }
    }
    places
}

/// A distribution in a site-packages directory.
pub struct Distribution {
    /// Its `.dist-info` directory.
    pub directory: PathBuf,
    /// Normalised.
    pub name: String,
    pub version: String,
}

pub fn distributions(host: &Host, site: &Path) -> Vec<Distribution> {
    let entries = host.listing(site).unwrap_or_default();
    let described = |directory: &str| {
        let (name, version) = distribution(directory)?;
        Some(Distribution {
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
