//! Typed access to `profiles/`, which is embedded: library families, driver floors, GPUs, frameworks.
//! Must not read the machine.

use std::path::Path;
use std::sync::OnceLock;

use serde::Deserialize;

use crate::formats::names;
use crate::version::{CudaVersion, DriverVersion, Version};

const LIBRARIES: &str = include_str!("../../profiles/libraries.toml");
const DRIVERS: &str = include_str!("../../profiles/drivers.toml");
const KNOWN_BAD: &str = include_str!("../../profiles/known-bad.toml");
const PYTHON: &str = include_str!("../../profiles/python.toml");

mod family;
mod framework;
mod gpus;
mod packages;
mod wrappers;

pub use family::{Evidence, Family, Group, Header};
pub use framework::{Check, CodeRecord, Framework, Record, Rule, Sign, Variable};
pub use gpus::{Architecture, architectures, gpu};
pub use packages::packages_of;
pub use wrappers::{Finder, Handing, Meaning, Runs, Takes, Wrapper, may_be_wrapper, wrappers};

#[derive(Debug)]
pub struct Catalog {
    pub families: Vec<Family>,
    pub frameworks: Vec<Framework>,
    pub python: PythonFacts,
    floors: Vec<(u32, DriverVersion)>,
    branches: Vec<(u32, CudaVersion)>,
    known_bad: Vec<KnownBad>,
}

/// What an interpreter brings. The fields are explained in `profiles/python.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PythonFacts {
    builtin: Vec<String>,
    runners: Vec<String>,
    tools: Vec<String>,
    #[serde(rename = "source")]
    _source: String,
    #[serde(rename = "date")]
    _date: String,
}

#[derive(Debug, Deserialize)]
struct KnownBad {
    family: String,
    version: String,
    why: String,
    #[serde(rename = "source")]
    _source: String,
    #[serde(rename = "date")]
    _date: String,
}

/// The catalog that is built in.
pub fn catalog() -> &'static Catalog {
    static CATALOG: OnceLock<Catalog> = OnceLock::new();
    CATALOG.get_or_init(|| Catalog::parse().expect("profiles/ is checked by the tests"))
}

impl Catalog {
    fn parse() -> Result<Catalog, toml::de::Error> {
        #[derive(Deserialize)]
        struct Libraries {
            family: Vec<Family>,
        }
        #[derive(Deserialize)]
        struct Drivers {
            floor: Vec<Floor>,
            branch: Vec<Branch>,
        }
        #[derive(Deserialize)]
        struct Floor {
            cuda: u32,
            driver: String,
        }
        #[derive(Deserialize)]
        struct Branch {
            driver: u32,
            cuda: String,
        }
        #[derive(Deserialize)]
        struct Releases {
            release: Vec<KnownBad>,
        }
        let drivers: Drivers = toml::from_str(DRIVERS)?;
        let floor = |row: &Floor| Some((row.cuda, row.driver.parse().ok()?));
        let branch = |row: &Branch| Some((row.driver, row.cuda.parse().ok()?));
        Ok(Catalog {
            families: toml::from_str::<Libraries>(LIBRARIES)?.family,
            frameworks: framework::PROFILES
                .iter()
                .map(|text| toml::from_str(text))
                .collect::<Result<_, _>>()?,
            python: toml::from_str(PYTHON)?,
            floors: drivers.floor.iter().filter_map(floor).collect(),
            branches: drivers.branch.iter().filter_map(branch).collect(),
            known_bad: toml::from_str::<Releases>(KNOWN_BAD)?.release,
        })
    }

    pub fn family(&self, name: &str) -> Option<&Family> {
        self.families.iter().find(|family| family.name == name)
    }

    /// The family and the stem that a file name or SONAME belongs to: `libcudnn_ops.so.9` is
    /// `cudnn`'s `libcudnn_ops`.
    pub fn family_of<'n>(&self, name: &'n str) -> Option<(&Family, &'n str)> {
        let (stem, _) = names::split(name)?;
        self.family_of_stem(stem).map(|family| (family, stem))
    }

    /// The same of a file, by its name.
    pub fn family_of_file<'p>(&self, file: &'p Path) -> Option<(&Family, &'p str)> {
        self.family_of(file.file_name()?.to_str()?)
    }

    pub fn family_of_stem(&self, stem: &str) -> Option<&Family> {
        self.families.iter().find(|family| family.has_member(stem))
    }

    /// The framework that importing this top-level module is using.
    pub fn framework_of(&self, top_level: &str) -> Option<&Framework> {
        self.frameworks.iter().find(|framework| framework.modules.iter().any(|module| module == top_level))
    }

    /// The oldest driver that runs this CUDA major.
    pub fn driver_floor(&self, cuda_major: u32) -> Option<&DriverVersion> {
        self.floors.iter().find(|(cuda, _)| *cuda == cuda_major).map(|(_, driver)| driver)
    }

    /// The CUDA version that a driver branch brings in full.
    pub fn cuda_of_driver(&self, driver: &DriverVersion) -> Option<CudaVersion> {
        self.branches.iter().find(|(branch, _)| *branch == driver.branch()).map(|(_, cuda)| *cuda)
    }

    /// The releases of a family that are never picked.
    pub fn known_bad_versions(&self, family: &str) -> impl Iterator<Item = Version> {
        let rows = self.known_bad.iter().filter(move |row| row.family == family);
        rows.filter_map(|row| row.version.parse().ok())
    }

    /// Why this release is never picked.
    pub fn known_bad(&self, family: &str, version: &Version) -> Option<&str> {
        let is_it = |row: &&KnownBad| {
            row.family == family && row.version.parse::<Version>().is_ok_and(|bad| bad.agrees_with(version))
        };
        self.known_bad.iter().find(is_it).map(|row| row.why.as_str())
    }
}

impl PythonFacts {
    /// Whether a module that stands nowhere may be compiled into the interpreter.
    pub fn is_builtin(&self, top_level: &str) -> bool {
        top_level.starts_with('_') || self.builtin.iter().any(|name| name == top_level)
    }

    pub fn is_runner(&self, top_level: &str) -> bool {
        self.runners.iter().any(|name| name == top_level)
    }

    pub fn is_tool(&self, top_level: &str) -> bool {
        self.tools.iter().any(|name| name == top_level)
    }
}

/// The first number of a SONAME's suffix: what tells `libnvrtc.so.11.2` from `libnvrtc.so.12`.
pub fn first_number(suffix: &str) -> Option<u32> {
    suffix.split('.').next()?.parse().ok()
}

/// `*` stands for any text; there is at most one.
pub fn matches_pattern(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, end)) => {
            text.len() >= start.len() + end.len() && text.starts_with(start) && text.ends_with(end)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_loads_and_means_something() {
        let catalog = Catalog::parse().unwrap();
        for family in &catalog.families {
            assert!(family.has_member(&family.main), "{}", family.name);
            let named = family.required.values().flatten();
            assert!(named.clone().all(|stem| family.has_member(stem)), "{}", family.name);
            for (by, stems) in family.opens.values().flatten() {
                assert!(family.has_member(by), "{by}");
                for stem in stems {
                    assert!(catalog.families.iter().any(|other| other.has_member(stem)), "{stem}");
                }
            }
        }
        assert_eq!(catalog.floors.len(), 3);
        assert_eq!(catalog.branches.len(), DRIVERS.lines().filter(|line| *line == "[[branch]]").count());
    }

    #[test]
    fn names_lead_to_families() {
        let catalog = catalog();
        let of = |name| catalog.family_of(name).map(|(family, stem)| (family.name.as_str(), stem));
        assert_eq!(of("libcudnn_engines_tensor_ir.so.9"), Some(("cudnn", "libcudnn_engines_tensor_ir")));
        assert_eq!(of("libnvrtc-builtins.so.12.4"), Some(("nvrtc", "libnvrtc-builtins")));
        assert_eq!(of("libnvidia-gpucomp.so.580.95.05"), Some(("driver", "libnvidia-gpucomp")));
        assert_eq!(of("libcublasLt.so"), Some(("cublas", "libcublasLt")));
        assert_eq!(of("libcudadevrt.a"), None);
        assert_eq!(of("libicudata.so.74"), None);
    }
}
