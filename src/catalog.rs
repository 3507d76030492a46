//! Typed access to `profiles/`, which is embedded: library families, driver floors, GPUs, frameworks.
//! Must not read the machine.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;

use crate::formats::names;
use crate::version::{ComputeCapability, CudaVersion, DriverVersion, Version};

const LIBRARIES: &str = include_str!("../profiles/libraries.toml");
const DRIVERS: &str = include_str!("../profiles/drivers.toml");
const KNOWN_BAD: &str = include_str!("../profiles/known-bad.toml");
const PYTHON: &str = include_str!("../profiles/python.toml");
const GPUS: &str = include_str!("../profiles/gpus.tsv");
/// A new framework is a file and a line here.
const FRAMEWORKS: &[&str] = &[
    include_str!("../profiles/frameworks/torch.toml"),
    include_str!("../profiles/frameworks/jax.toml"),
    include_str!("../profiles/frameworks/cupy.toml"),
];

#[derive(Debug)]
pub struct Catalog {
    pub families: Vec<Family>,
    pub frameworks: Vec<Framework>,
    pub python: PythonFacts,
    floors: Vec<(u32, DriverVersion)>,
    branches: Vec<(u32, CudaVersion)>,
    known_bad: Vec<KnownBad>,
}

/// A library family: files that must come together. The fields are explained in `profiles/libraries.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Family {
    pub name: String,
    pub members: Vec<String>,
    pub main: String,
    pub group: Group,
    #[serde(default)]
    suffix: BTreeMap<String, String>,
    /// The number in the SONAME is the major version of the library, not of CUDA.
    #[serde(default)]
    pub soname_is_version: bool,
    #[serde(default)]
    required: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    opens: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    opens_bare: BTreeMap<String, Vec<String>>,
    /// It opens members of its own at run time: one without the others is of no use.
    #[serde(default)]
    pub opens_own: bool,
    /// Stems whose SONAME carries the minor of the version: another minor is of no use.
    #[serde(default)]
    pub minor_in_soname: Vec<String>,
    #[serde(default)]
    pub version: Vec<Evidence>,
    #[serde(default)]
    pub cuda: Vec<Evidence>,
    /// The C header that defines its version.
    pub header: Option<Header>,
    #[serde(default)]
    wheel: Option<String>,
    #[serde(default)]
    wheel_always_suffixed: bool,
    #[serde(default)]
    apt: Option<String>,
    /// The first SONAME major whose Debian package is called so.
    #[serde(default)]
    apt_from: u32,
    #[serde(rename = "source")]
    _source: String,
    #[serde(rename = "date")]
    _date: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    pub file: String,
    /// The macros that hold the numbers of the version, in order.
    pub defines: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    Soname,
    Place,
}

/// Where a number stands in a library's own bytes.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "by", rename_all = "lowercase", deny_unknown_fields)]
pub enum Evidence {
    /// A text in the constants: the number right after `after`, or after the `then` that follows it.
    Text {
        file: String,
        after: String,
        #[serde(default)]
        then: Option<String>,
        #[serde(default)]
        separator: Option<char>,
    },
    /// A function that does nothing but return a constant.
    Function {
        file: String,
        name: String,
        #[serde(default = "one")]
        major: u32,
        #[serde(default = "one")]
        minor: u32,
        from: u32,
        to: u32,
    },
    /// An exported object of four bytes: major << 16 | minor << 8 | patch.
    Object { file: String, name: String },
    /// The CUDA major that has this SONAME.
    Suffix,
    /// The number in a DT_NEEDED of this stem.
    Needed { file: String, stem: String },
    /// The version of the CUDA runtime that is linked into it.
    Embedded,
}

fn one() -> u32 {
    1
}

/// A framework. The fields are explained in `profiles/frameworks/torch.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Framework {
    pub name: String,
    pub modules: Vec<String>,
    pub packages: Vec<String>,
    pub distributions: Vec<String>,
    #[serde(default)]
    pub loads_wheels: Option<String>,
    #[serde(default)]
    pub opens: Vec<String>,
    #[serde(default)]
    pub essential: Vec<String>,
    pub cuda: Record,
    #[serde(default)]
    pub floor: BTreeMap<String, Record>,
    #[serde(rename = "source")]
    _source: String,
    #[serde(rename = "date")]
    _date: String,
}

/// How a framework records a version.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "by", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Record {
    /// `name = '12.4'`, with or without a type, in a Python file.
    Assignment { file: String, name: String },
    /// A string in a JSON file.
    Json { file: String, key: String },
    /// The constants that a module hands to Python one after the other, in address order.
    Constants { file: String, position: usize },
    /// A function that stores three numbers: major, minor, patch.
    CompileVersion { file: String, symbol: String },
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
            frameworks: FRAMEWORKS.iter().map(|text| toml::from_str(text)).collect::<Result<_, _>>()?,
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

impl Family {
    pub fn has_member(&self, stem: &str) -> bool {
        self.members.iter().any(|pattern| matches_pattern(pattern, stem))
    }

    /// What follows `.so.` in its SONAMEs for a CUDA major.
    pub fn suffix(&self, cuda_major: u32) -> Option<&str> {
        self.suffix.get(&cuda_major.to_string()).or_else(|| self.suffix.get("any")).map(String::as_str)
    }

    /// The CUDA major whose SONAMEs have this suffix, when there is only one.
    pub fn cuda_of_suffix(&self, suffix: &str) -> Option<u32> {
        let mut majors = self.suffix.iter().filter(|(_, given)| first_number(given) == first_number(suffix));
        let only = majors.next()?.0.parse().ok();
        if majors.next().is_some() { None } else { only }
    }

    /// The stems without which a copy of this SONAME major is incomplete: the main one unless said otherwise.
    pub fn required(&self, soname_major: u32) -> Vec<&str> {
        if self.required.is_empty() {
            return vec![&self.main];
        }
        by_major(&self.required, soname_major).iter().map(String::as_str).collect()
    }

    /// The stems that files of this SONAME major open at run time.
    pub fn opens(&self, soname_major: u32) -> &[String] {
        by_major(&self.opens, soname_major)
    }

    /// The names without a version that files of this SONAME major open at run time.
    pub fn opens_bare(&self, soname_major: u32) -> &[String] {
        by_major(&self.opens_bare, soname_major)
    }

    /// The distribution on the Python package index that brings it.
    pub fn wheel(&self, cuda_major: u32) -> Option<String> {
        let base = self.wheel.as_ref()?;
        let plain = cuda_major >= 13 && !self.wheel_always_suffixed;
        Some(if plain { base.clone() } else { format!("{base}-cu{cuda_major}") })
    }

    /// The Debian package of NVIDIA's repository that brings it.
    pub fn apt(&self, cuda_major: u32, soname_major: u32) -> Option<String> {
        let template = self.apt.as_ref().filter(|_| soname_major >= self.apt_from)?;
        Some(
            template
                .replace("{cuda}", &cuda_major.to_string())
                .replace("{soname}", &soname_major.to_string()),
        )
    }

    /// Whether a distribution of this (normalised) name brings it.
    pub fn is_wheel(&self, distribution: &str) -> bool {
        self.wheel.as_ref().is_some_and(|base| {
            distribution
                .strip_prefix(base.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with("-cu"))
        })
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

/// The GPU with a PCI device id: its compute capability, chip and product.
pub fn gpu(device: u16) -> Option<(Option<ComputeCapability>, &'static str, &'static str)> {
    let wanted = format!("{device:04x}\t");
    let row = GPUS.lines().find_map(|line| line.strip_prefix(wanted.as_str()))?;
    let mut fields = row.split('\t');
    let capability = fields.next()?.parse().ok();
    Some((capability, fields.next()?, fields.next()?))
}

/// The first number of a SONAME's suffix: what tells `libnvrtc.so.11.2` from `libnvrtc.so.12`.
pub fn first_number(suffix: &str) -> Option<u32> {
    suffix.split('.').next()?.parse().ok()
}

fn by_major(table: &BTreeMap<String, Vec<String>>, major: u32) -> &[String] {
    table.get(&major.to_string()).or_else(|| table.get("any")).map_or(&[], Vec::as_slice)
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
            for stem in family.opens.values().flatten() {
                assert!(catalog.families.iter().any(|other| other.has_member(stem)), "{stem}");
            }
        }
        for framework in &catalog.frameworks {
            let opened = framework.opens.iter().chain(&framework.essential);
            assert!(opened.clone().all(|stem| catalog.families.iter().any(|f| f.has_member(stem))));
            assert!(framework.essential.iter().all(|stem| framework.opens.contains(stem)));
            assert!(framework.floor.keys().all(|family| catalog.family(family).is_some()));
        }
        assert_eq!(catalog.floors.len(), 3);
        assert_eq!(catalog.branches.len(), DRIVERS.lines().filter(|line| *line == "[[branch]]").count());
        let rows = GPUS.lines().filter(|line| !line.starts_with('#'));
        for row in rows {
            let device = u16::from_str_radix(&row[..4], 16).unwrap();
            assert!(gpu(device).is_some(), "{row}");
        }
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

    #[test]
    fn sonames_and_wheels_by_cuda_major() {
        let family = |name| catalog().family(name).unwrap();
        assert_eq!(family("cufft").suffix(13), Some("12"));
        assert_eq!(family("cufft").cuda_of_suffix("12"), Some(13));
        assert_eq!(family("cusolver").cuda_of_suffix("11"), None, "CUDA 11 and 12");
        assert_eq!(family("nvrtc").cuda_of_suffix("11.2"), Some(11));
        assert_eq!(family("nccl").suffix(12), Some("2"));
        assert_eq!(family("cublas").wheel(12).unwrap(), "nvidia-cublas-cu12");
        assert_eq!(family("cublas").wheel(13).unwrap(), "nvidia-cublas");
        assert_eq!(family("cudnn").wheel(13).unwrap(), "nvidia-cudnn-cu13");
        assert!(
            family("cublas").is_wheel("nvidia-cublas") && !family("cublas").is_wheel("nvidia-cublasmp-cu12")
        );
        assert_eq!(family("cudnn").apt(12, 9).unwrap(), "libcudnn9-cuda-12");
        assert_eq!(gpu(0x2335).unwrap().0, "9.0".parse().ok());
    }
}
