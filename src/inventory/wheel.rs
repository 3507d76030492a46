//! Wheels of the target's environment: every directory that an installed NVIDIA distribution records a
//! library in, in both layouts (`nvidia/<part>/lib` and `nvidia/cu13/lib`), and what auditwheel bundled.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{Notes, Origin, Packaged, Place, Scope};
use crate::catalog::{Family, catalog};
use crate::formats::metadata;
use crate::host::{Host, Kind};

pub(super) fn places(host: &Host, scope: &Scope, notes: &mut Notes) -> Vec<Place> {
    let mut places = Vec::new();
    for site in &scope.site_packages {
        notes.watched.insert(site.clone());
        places.extend(recorded(host, site));
        places.extend(laid_out(host, site, notes));
    }
    places
}

/// What the distributions' own records say; one directory may be filled by many of them.
fn recorded(host: &Host, site: &Path) -> Vec<Place> {
    let mut places: BTreeMap<PathBuf, Place> = BTreeMap::new();
    for entry in host.list(site).unwrap_or_default() {
        let Some((name, version)) = entry.name.to_str().and_then(distribution) else { continue };
        let brings = |family: &Family| family.is_wheel(&name);
        if !name.starts_with("nvidia-") && !catalog().families.iter().any(brings) {
            continue;
        }
        let Ok(record) = host.read_text(&site.join(&entry.name).join("RECORD")) else { continue };
        for (path, size) in metadata::record(&record) {
            let path = site.join(path);
            let (Some(directory), Some(file)) = (path.parent(), path.file_name().and_then(|f| f.to_str()))
            else {
                continue;
            };
            if catalog().family_of(file).is_none() {
                continue;
            }
            let place =
                places.entry(directory.to_owned()).or_insert_with(|| Place::new(directory, Origin::Wheel));
            let packaged =
                Packaged { package: format!("{name} {version}"), version: version.parse().ok(), size };
            place.packaged.insert(file.to_owned(), packaged);
        }
    }
    places.into_values().collect()
}

/// The directories where such libraries stand by convention, recorded or not.
fn laid_out(host: &Host, site: &Path, notes: &mut Notes) -> Vec<Place> {
    let mut places = Vec::new();
    let nvidia = site.join("nvidia");
    notes.watched.insert(nvidia.clone());
    for entry in host.list(&nvidia).unwrap_or_default() {
        places.push(Place::new(nvidia.join(entry.name).join("lib"), Origin::Wheel));
    }
    for entry in host.list(site).unwrap_or_default() {
        let Some(name) = entry.name.to_str() else { continue };
        if entry.kind == Kind::Directory && name.ends_with(".libs") {
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
