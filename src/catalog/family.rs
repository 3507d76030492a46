//! Library families: which files must come together, and what says something about them.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{first_number, matches_pattern};
use crate::version::Version;

/// A library family: files that must come together. The fields are explained in `profiles/libraries.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Family {
    pub name: String,
    /// NVIDIA's spelling.
    pub display: String,
    pub members: Vec<String>,
    pub main: String,
    pub group: Group,
    #[serde(default)]
    suffix: BTreeMap<String, String>,
    /// That it has no code for a GPU is no fault.
    #[serde(default)]
    pub code_is_optional: bool,
    /// The number in the SONAME is the major version of the library, not of CUDA.
    #[serde(default)]
    pub soname_is_version: bool,
    /// Its version is that of the CUDA that it is of, to the minor.
    #[serde(default)]
    pub version_is_cuda: bool,
    #[serde(default)]
    pub(super) required: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    pub(super) opens: BTreeMap<String, Opens>,
    #[serde(default)]
    opens_bare: BTreeMap<String, Vec<String>>,
    /// Made for some GPUs only, and linked by programs that run on others.
    #[serde(default)]
    pub for_some_gpus: bool,
    /// Beginnings of the names that it exports, where these have no versions.
    #[serde(default)]
    symbols: Vec<String>,
    /// It opens members of its own at run time: one without the others is of no use.
    #[serde(default)]
    pub opens_own: bool,
    /// By SONAME major, the file that works over the complete rest of another version of that major.
    #[serde(default)]
    shim: BTreeMap<String, Shim>,
    /// Stems whose SONAME carries the minor of the version: another minor is of no use.
    #[serde(default)]
    pub minor_in_soname: Vec<String>,
    #[serde(default)]
    pub version: Vec<Evidence>,
    #[serde(default)]
    pub cuda: Vec<Evidence>,
    /// Stems of another family's files that are of this one when they are linked against its main file.
    #[serde(default)]
    pub wraps: Vec<String>,
    /// The numbers in its file names are not its version.
    #[serde(default)]
    pub numbered_otherwise: bool,
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

/// The file of a family that opens the others.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shim {
    stem: String,
    /// A shim of this version or newer needs the others to be so, too.
    since: Version,
}

/// By the stem of the file that opens, the stems that it opens.
type Opens = BTreeMap<String, Vec<String>>;

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
    /// A function that does nothing but return the address of three such numbers, each of four bytes.
    Pointer { file: String, name: String },
    /// Three numbers that are handed to `snprintf`, the first of which is `major`.
    Printed { file: String, major: u32 },
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

impl Family {
    pub fn has_member(&self, stem: &str) -> bool {
        self.members.iter().any(|pattern| matches_pattern(pattern, stem))
    }

    /// Whether a symbol that comes from somewhere is one of its own, by its name.
    pub fn may_export(&self, symbol: &str) -> bool {
        self.symbols.iter().any(|beginning| symbol.starts_with(beginning.as_str()))
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

    /// The stems without which an installation of this SONAME major is incomplete: the main one unless said otherwise.
    pub fn required(&self, soname_major: u32) -> Vec<&str> {
        if self.required.is_empty() {
            return vec![&self.main];
        }
        by_major(&self.required, soname_major).iter().map(String::as_str).collect()
    }

    /// The stems that files of this SONAME major open at run time, each with the stem of the file that opens it.
    pub fn opens(&self, soname_major: u32) -> impl Iterator<Item = (&str, &str)> {
        let opens = self.opens.get(&soname_major.to_string()).or_else(|| self.opens.get("any"));
        let pairs =
            opens.into_iter().flatten().flat_map(|(by, stems)| stems.iter().map(move |stem| (by, stem)));
        pairs.map(|(by, stem)| (by.as_str(), stem.as_str()))
    }

    /// True for a file that works over the complete rest of other versions of its SONAME major. Such a file does not decide
    /// the version of an installation.
    pub fn is_shim(&self, stem: &str, soname_major: Option<u32>) -> bool {
        self.shim(soname_major).is_some_and(|shim| shim.stem == stem)
    }

    /// True if a shim of one version works over the complete rest of another; an unknown version counts as the worst.
    pub fn shim_works_over(
        &self,
        soname_major: Option<u32>,
        shim: Option<Version>,
        rest: Option<Version>,
    ) -> bool {
        self.shim(soname_major).is_some_and(|known| {
            let is_old = shim.is_some_and(|shim| shim < known.since);
            is_old || rest.is_some_and(|rest| rest >= known.since)
        })
    }

    fn shim(&self, soname_major: Option<u32>) -> Option<&Shim> {
        self.shim.get(&soname_major?.to_string())
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

    /// Whether there is a distribution of its own on the Python package index.
    pub fn has_wheel(&self) -> bool {
        self.wheel.is_some()
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

fn by_major(table: &BTreeMap<String, Vec<String>>, major: u32) -> &[String] {
    table.get(&major.to_string()).or_else(|| table.get("any")).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use crate::catalog::catalog;

    #[test]
    fn only_the_top_library_of_cudnn_9_is_a_shim() {
        let cudnn = catalog().family("cudnn").unwrap();
        assert!(cudnn.is_shim("libcudnn", Some(9)));
        assert!(!cudnn.is_shim("libcudnn", Some(8)) && !cudnn.is_shim("libcudnn", None));
        assert!(!cudnn.is_shim("libcudnn_graph", Some(9)));
        let works =
            |shim: &str, rest: &str| cudnn.shim_works_over(Some(9), shim.parse().ok(), rest.parse().ok());
        for (shim, rest) in [
            ("9.1.0", "9.0.0"),
            ("9.1.0", "9.16.0"),
            ("9.19.0", "9.14.0"),
            ("9.14.0", "9.19.0"),
            ("?", "9.2.1"),
        ] {
            assert!(works(shim, rest), "{shim} over {rest}");
        }
        for (shim, rest) in [("9.2.1", "9.1.0"), ("9.19.0", "9.1.1"), ("?", "9.1.0"), ("9.19.0", "?")] {
            assert!(!works(shim, rest), "{shim} over {rest}");
        }
        assert!(!cudnn.shim_works_over(Some(8), "8.9.7".parse().ok(), "8.9.7".parse().ok()));
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
    }
}
