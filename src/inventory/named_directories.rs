//! Directories that the user names with `--also DIR`, and the administrator in `/etc/cudarun/config.toml`.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::installation::Origin;
use super::location::{ScanContext, SearchLocation, named};
use super::warning::ReadFault;
use super::{conda, python, toolkit, wheel};
use crate::host::judge_file;

const CONFIG: &str = "/etc/cudarun/config.toml";

pub(super) fn locations(scan: &mut ScanContext<'_>) -> Vec<SearchLocation> {
    let mut roots = configured(scan);
    for directory in &scan.scope.also {
        roots.push(scan.host.absolute(directory));
    }
    let mut locations = Vec::new();
    for root in roots {
        if !scan.host.is_directory(&root) {
            scan.warn(root, ReadFault::NoDirectory);
            continue;
        }
        locations.extend(below(scan, &root));
    }
    named(locations)
}

/// The locations below a directory of any kind: libraries, a toolkit, an environment of Python or conda, or the target of
/// `pip install --target`.
fn below(scan: &mut ScanContext<'_>, root: &Path) -> Vec<SearchLocation> {
    let names = scan.children(root);
    let has = |name: &str| names.iter().any(|child| child == name);
    let mut locations = vec![SearchLocation::new(root, Origin::Loose)];
    let is_toolkit = ["lib", "lib64", "targets", "extras", "nvvm"]
        .into_iter()
        .any(has);
    if is_toolkit {
        locations.extend(toolkit::locations_in(scan, root));
    }
    if has("conda-meta") {
        locations.extend(conda::environment(scan, root));
    }
    let mut sites = Vec::new();
    if has("lib") || has("lib64") {
        sites = python::site_packages(scan, root);
    }
    let is_site = has("nvidia")
        || names
            .iter()
            .any(|name| name.ends_with(".dist-info") || name.ends_with(".libs"));
    if is_site {
        sites.push(root.to_owned());
    }
    for site in sites {
        locations.extend(wheel::in_site_packages(scan, &site));
    }
    locations
}

/// `[search] roots = ["/srv/cuda"]`
fn configured(scan: &mut ScanContext<'_>) -> Vec<PathBuf> {
    #[derive(Default, Deserialize)]
    struct ExtraConfig {
        #[serde(default)]
        search: ExtraSearch,
    }
    #[derive(Default, Deserialize)]
    struct ExtraSearch {
        #[serde(default)]
        roots: Vec<PathBuf>,
    }
    let path = Path::new(CONFIG);
    scan.watch(path);
    // The settings refuse a file that another user could change, unless they are told to read none.
    let is_closed = judge_file(scan.host, path).is_ok();
    let Some(text) = scan.host.read_text(path).ok().filter(|_| is_closed) else {
        return Vec::new();
    };
    match toml::from_str::<ExtraConfig>(&text) {
        Ok(config) => config
            .search
            .roots
            .into_iter()
            .filter(|root| root.is_absolute())
            .collect(),
        Err(error) => {
            scan.warn(
                path,
                ReadFault::BadRecord {
                    what: error.message().to_owned(),
                },
            );
            Vec::new()
        }
    }
}
