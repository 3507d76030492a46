//! Packages of Spack, by its own database.

use std::path::{Path, PathBuf};

use super::location::{ScanContext, SearchLocation};
use super::model::Origin;
use super::warning::ReadFault;
use super::{compat, parts, toolkit};
use crate::formats::spack::{self, Install};

const ROOTS: [&str; 2] = ["/opt/spack", "/spack"];
/// Below the root of a checkout, or the tree of installations itself.
const INDEXES: [&str; 2] = ["opt/spack/.spack-db/index.json", ".spack-db/index.json"];
/// Packages of several families.
const TOOLKITS: [&str; 3] = ["cuda", "nvhpc", "tensorrt"];

pub(super) fn places(look: &mut ScanContext<'_>) -> Vec<SearchLocation> {
    let named = look.named("SPACK_ROOT");
    let in_home = look.host.home().map(|home| home.join("spack"));
    let roots = named
        .into_iter()
        .chain(in_home)
        .chain(ROOTS.iter().map(PathBuf::from));
    let indexes: Vec<PathBuf> = roots
        .flat_map(|root| INDEXES.map(|index| root.join(index)))
        .collect();
    look.watched.extend(indexes.iter().cloned());
    let mut places = Vec::new();
    for index in look.real(indexes) {
        for install in installs(look, &index) {
            places.extend(places_of(look, &install));
        }
    }
    places
}

fn installs(look: &mut ScanContext<'_>, index: &Path) -> Vec<Install> {
    let bytes = match look.host.read(index) {
        Ok(bytes) => bytes,
        Err(error) => {
            look.warn(index, ReadFault::unreadable(&error));
            return Vec::new();
        }
    };
    let is_wanted = |name: &str| TOOLKITS.contains(&name) || parts::family(name).is_some();
    spack::installs(&bytes, &is_wanted).unwrap_or_else(|error| {
        look.warn(index, ReadFault::bad_json(&error));
        Vec::new()
    })
}

fn places_of(look: &mut ScanContext<'_>, install: &Install) -> Vec<SearchLocation> {
    let Install {
        name,
        version,
        prefix,
    } = install;
    // `cudnn 9.2.0.82-12` is 9.2.0.82 for CUDA 12.
    let library = version.split('-').next().unwrap_or_default();
    let says = parts::says(format!("{name}@{version}"), name, library);
    let prefix = Path::new(prefix);
    // An external package is a toolkit, which the source of toolkits knows as well.
    let mut places = toolkit::places_in(look, prefix);
    for place in &mut places {
        if place.origin == Origin::Toolkit {
            let own = parts::place(look, place.directory.clone(), Origin::Store, &says);
            place.origin = Origin::Store;
            for (file, said) in own.packaged {
                place.packaged.entry(file).or_insert(said);
            }
        }
    }
    places.extend(compat::places_in(prefix));
    places
}
