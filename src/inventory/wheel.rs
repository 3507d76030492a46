//! Wheels: every directory of an environment that an installed distribution records a library in, in both layouts
//! (`nvidia/<part>/lib` and `nvidia/cu13/lib`) and wherever a package bundles copies of its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Origin;
use super::place::{Look, Packaged, Place};
use crate::catalog::{Family, catalog};
use crate::formats::metadata;
use crate::host::{Entry, Kind, Stat};
use crate::parallel;

pub(super) fn places(look: &mut Look<'_>) -> Vec<Place> {
    let mut places = Vec::new();
    for site in &look.scope.site_packages {
        places.extend(in_site_packages(look, site));
    }
    places
}

/// What stands in one site-packages directory, recorded or not.
pub(super) fn in_site_packages(look: &mut Look<'_>, site: &Path) -> Vec<Place> {
    look.watch(site);
    let entries = look.host.list(site).unwrap_or_default();
    let mut places = recorded(look, site, &entries);
    places.extend(laid_out(look, site, &entries));
    places
}

/// What the distributions' own records say; one directory may be filled by many of them.
fn recorded(look: &mut Look<'_>, site: &Path, entries: &[Entry]) -> Vec<Place> {
    let distributions: Vec<&str> = entries
        .iter()
        .filter_map(|entry| entry.name.to_str().filter(|name| name.ends_with(".dist-info")))
        .collect();
    let files: Vec<PathBuf> =
        distributions.iter().map(|directory| site.join(directory).join("RECORD")).collect();
    let records = records(look, &files);
    let mut places: BTreeMap<_, Place> = BTreeMap::new();
    for (directory, record) in distributions.into_iter().zip(records) {
        let Some((name, version)) = distribution(directory) else { continue };
        let brings = |family: &Family| family.is_wheel(&name);
        let is_nvidias = name.starts_with("nvidia-") || catalog().families.iter().any(brings);
        let origin = if is_nvidias { Origin::Wheel } else { Origin::Bundled };
        for (path, size) in record {
            // What a package that is not NVIDIA's puts elsewhere is no reason to call that place its own.
            if !is_nvidias && path.starts_with("..") {
                continue;
            }
            let path = site.join(path);
            let (Some(directory), Some(file)) = (path.parent(), path.file_name().and_then(|f| f.to_str()))
            else {
                continue;
            };
            let place = places.entry(directory.to_owned()).or_insert_with(|| Place::new(directory, origin));
            place.origin = place.origin.min(origin);
            let package = format!("{name} {version}");
            // The version of torch says nothing about the cuDNN that it bundles, nor that of cuFFTMp about a cuFFT.
            let is_its =
                |(family, _): (&Family, _)| family.is_wheel(&name) || !family.has_wheel() && is_nvidias;
            let version = version.parse().ok().filter(|_| catalog().family_of(file).is_some_and(is_its));
            place.packaged.insert(file.to_owned(), Packaged { package, version, size });
        }
    }
    places.into_values().collect()
}

/// The libraries that a `RECORD` lists, with their sizes.
type Libraries = Vec<(String, Option<u64>)>;

/// What each `RECORD` lists; nothing where there is none. One that nobody has read before is read.
fn records(look: &mut Look<'_>, files: &[PathBuf]) -> Vec<Libraries> {
    let (host, known) = (look.host, &*look.known);
    let read = parallel::map(files, |file| {
        let stat = host.stat(file).ok()?;
        match known.records.get(&stat) {
            Some(libraries) => Some((libraries, None)),
            None => Some((libraries_in(&host.read(file).ok()?), Some(stat))),
        }
    });
    let mut keep = |(libraries, new): (Libraries, Option<Stat>)| {
        if let Some(stat) = new.filter(|stat| look.known.is_settled(stat)) {
            look.known.records.insert(&stat, &libraries);
        }
        libraries
    };
    read.into_iter().map(|record| record.map(&mut keep).unwrap_or_default()).collect()
}

fn libraries_in(record: &[u8]) -> Libraries {
    let is_library = |path: &str| path.rsplit('/').next().is_some_and(super::survey::is_of_interest);
    metadata::record(record, &is_library)
}

/// The directories where such libraries stand by convention, recorded or not.
fn laid_out(look: &mut Look<'_>, site: &Path, entries: &[Entry]) -> Vec<Place> {
    let nvidia = site.join("nvidia");
    let parts = look.children(&nvidia);
    let mut places: Vec<Place> =
        parts.iter().map(|part| Place::new(nvidia.join(part).join("lib"), Origin::Wheel)).collect();
    for entry in entries.iter().filter(|entry| entry.kind == Kind::Directory) {
        if let Some(name) = entry.name.to_str().filter(|name| name.ends_with(".libs")) {
            places.push(Place::new(site.join(name), Origin::Bundled));
        }
    }
    places
}

/// `nvidia_cudnn_cu12-9.1.0.70.dist-info` is `nvidia-cudnn-cu12` in version 9.1.0.70.
fn distribution(directory: &str) -> Option<(String, &str)> {
    let (name, version) = directory.strip_suffix(".dist-info")?.split_once('-')?;
    Some((metadata::normalised(name), version))
}
