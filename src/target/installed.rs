//! Which distributions are installed in a Python environment, and what their metadata says of each other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::formats::metadata::{self, Metadata};
use crate::host::Host;

/// What is installed in the target's site-packages, by normalised name.
pub(super) struct Installed {
    pub distributions: BTreeMap<String, Distribution>,
}

pub(super) struct Distribution {
    pub site: PathBuf,
    /// The `.dist-info` directory.
    pub directory: PathBuf,
    pub version: String,
}

impl Installed {
    pub(super) fn list(host: &Host, sites: &[PathBuf]) -> Installed {
        let mut distributions = BTreeMap::new();
        for site in sites {
            for entry in host.list(site).unwrap_or_default() {
                let Some(name) = entry.name.to_str().and_then(|name| name.strip_suffix(".dist-info")) else {
                    continue;
                };
                let Some((name, version)) = name.split_once('-') else { continue };
                distributions.entry(metadata::normalised(name)).or_insert_with(|| Distribution {
                    site: site.clone(),
                    directory: site.join(&entry.name),
                    version: version.to_owned(),
                });
            }
        }
        Installed { distributions }
    }

    pub(super) fn metadata(&self, host: &Host, name: &str) -> Option<Metadata> {
        let distribution = self.distributions.get(name)?;
        host.read_text(&distribution.directory.join("METADATA")).ok().map(|text| metadata::metadata(&text))
    }

    /// Every distribution that this one brings along without being asked for an extra.
    pub(super) fn closure(&self, host: &Host, name: &str) -> BTreeSet<String> {
        let mut seen = BTreeSet::from([name.to_owned()]);
        let mut pending = vec![name.to_owned()];
        while let Some(next) = pending.pop() {
            let requires = self.metadata(host, &next).map(|metadata| metadata.requires).unwrap_or_default();
            for required in requires.into_iter().filter(|required| !required.optional) {
                if self.distributions.contains_key(&required.name) && seen.insert(required.name.clone()) {
                    pending.push(required.name);
                }
            }
        }
        seen
    }
}
