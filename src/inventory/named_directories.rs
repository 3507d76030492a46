//! Directories that the user names with `--also DIR`, and the administrator in `/etc/cudarun/config.toml`.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::installation::Origin;
use super::location::{ScanContext, SearchLocation, named};
use super::warning::ReadFault;
use super::{conda, python, toolkit, wheel};
use crate::host::judge_file;

const CONFIG: &str = "/etc/cudarun/config.toml";

pub(super) fn places(look: &mut ScanContext<'_>) -> Vec<SearchLocation> {
    let mut roots = configured(look);
    roots.extend(
        look.scope
            .also
            .iter()
            .map(|directory| look.host.absolute(directory)),
    );
    let mut places = Vec::new();
    for root in roots {
        if !look.host.is_directory(&root) {
            look.warn(root, ReadFault::NoDirectory);
            continue;
        }
        places.extend(below(look, &root));
    }
    named(places)
}

/// The places below a directory of any kind: libraries, a toolkit, an environment of Python or conda, or the target of
/// `pip install --target`.
fn below(look: &mut ScanContext<'_>, root: &Path) -> Vec<SearchLocation> {
    let names = look.children(root);
    let has = |name: &str| names.iter().any(|child| child == name);
    let mut places = vec![SearchLocation::new(root, Origin::Loose)];
    if ["lib", "lib64", "targets", "extras", "nvvm"]
        .into_iter()
        .any(has)
    {
        places.extend(toolkit::places_in(look, root));
    }
    if has("conda-meta") {
        places.extend(conda::environment(look, root));
    }
    let mut sites = if has("lib") || has("lib64") {
        python::site_packages(look, root)
    } else {
        Vec::new()
    };
    if has("nvidia")
        || names
            .iter()
            .any(|name| name.ends_with(".dist-info") || name.ends_with(".libs"))
    {
        sites.push(root.to_owned());
    }
    for site in sites {
        places.extend(wheel::in_site_packages(look, &site));
    }
    places
}

/// `[search] roots = ["/srv/cuda"]`
fn configured(look: &mut ScanContext<'_>) -> Vec<PathBuf> {
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
    look.watch(path);
    // The settings refuse a file that another user could change, unless they are told to read none.
    let is_closed = judge_file(look.host, path).is_ok();
    let Some(text) = look.host.read_text(path).ok().filter(|_| is_closed) else {
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
            look.warn(
                path,
                ReadFault::BadRecord {
                    what: error.message().to_owned(),
                },
            );
            Vec::new()
        }
    }
}
