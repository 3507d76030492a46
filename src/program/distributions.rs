//! The distributions that are installed in a Python environment, with their metadata.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::formats::metadata::{self, Requires};
use crate::host::Host;
use crate::inventory;

/// The distributions in the program's site-packages, by normalised name.
pub(super) struct Installed<'h> {
    host: &'h Host,
    pub distributions: BTreeMap<String, Distribution>,
    /// The distribution that brings each top-level module, by site and module; read when it is first needed.
    by_module: OnceCell<BTreeMap<(PathBuf, String), String>>,
}

pub(super) struct Distribution {
    pub site: PathBuf,
    /// The `.dist-info` directory.
    pub directory: PathBuf,
    pub version: String,
}

impl<'h> Installed<'h> {
    pub(super) fn list(host: &'h Host, sites: &[PathBuf]) -> Installed<'h> {
        let mut distributions = BTreeMap::new();
        for site in sites {
            for found in inventory::distributions(host, site) {
                distributions
                    .entry(found.name)
                    .or_insert_with(|| Distribution {
                        site: site.clone(),
                        directory: found.directory,
                        version: found.version,
                    });
            }
        }
        Installed {
            host,
            distributions,
            by_module: OnceCell::new(),
        }
    }

    /// The distribution that brings a top-level module, in any site.
    pub(super) fn of_module(&self, module: &str) -> Option<&str> {
        let normalised = metadata::normalised(module);
        if let Some((name, _)) = self.distributions.get_key_value(&normalised) {
            return Some(name);
        }
        self.by_module()
            .iter()
            .find(|((_, top), _)| top == module)
            .map(|(_, distribution)| distribution.as_str())
    }

    /// True if a distribution has installed this top-level module in this directory.
    pub(super) fn brings(&self, site: &Path, module: &str) -> bool {
        let mut distributions = self.distributions.values();
        if !distributions.any(|distribution| distribution.site == site) {
            return false;
        }
        let own = self.distributions.get(&metadata::normalised(module));
        own.is_some_and(|distribution| distribution.site == site)
            || self
                .by_module()
                .contains_key(&(site.to_owned(), module.to_owned()))
    }

    /// The requirements of a distribution; `None` where its metadata cannot be read.
    pub(super) fn requirements(&self, name: &str) -> Option<Vec<Requires>> {
        let distribution = self.distributions.get(name)?;
        let text = self
            .host
            .read_text(&distribution.directory.join("METADATA"))
            .ok()?;
        Some(metadata::requirements(&text))
    }

    /// A distribution and all that it depends on without extras.
    pub(super) fn closure(&self, name: &str) -> BTreeSet<String> {
        let mut seen = BTreeSet::from([name.to_owned()]);
        let mut pending = vec![name.to_owned()];
        while let Some(next) = pending.pop() {
            let requires = self.requirements(&next).unwrap_or_default();
            for required in requires.into_iter().filter(|required| !required.optional) {
                if self.distributions.contains_key(&required.name)
                    && seen.insert(required.name.clone())
                {
                    pending.push(required.name);
                }
            }
        }
        seen
    }

    /// The top-level modules that a distribution is known to bring.
    pub(super) fn modules_of(&self, name: &str) -> BTreeSet<String> {
        let Some(distribution) = self.distributions.get(name) else {
            return BTreeSet::new();
        };
        let usual = name.replace('-', "_");
        if self.host.is_directory(&distribution.site.join(&usual)) {
            return BTreeSet::from([usual]);
        }
        self.top_level(distribution)
    }

    fn by_module(&self) -> &BTreeMap<(PathBuf, String), String> {
        self.by_module.get_or_init(|| {
            let mut modules = BTreeMap::new();
            for (name, distribution) in &self.distributions {
                for top in self.top_level(distribution) {
                    modules
                        .entry((distribution.site.clone(), top))
                        .or_insert_with(|| name.clone());
                }
            }
            modules
        })
    }

    /// Reads `top_level.txt`, which older tools write, or else the list of files.
    fn top_level(&self, distribution: &Distribution) -> BTreeSet<String> {
        if let Ok(text) = self
            .host
            .read_text(&distribution.directory.join("top_level.txt"))
        {
            return text
                .lines()
                .map(str::trim)
                .filter(|line| !line.is_empty())
                .map(str::to_owned)
                .collect();
        }
        let record = self
            .host
            .read_text(&distribution.directory.join("RECORD"))
            .unwrap_or_default();
        metadata::top_level(&record)
    }
}
