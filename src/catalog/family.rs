//! Library families: the files that must come together, and the names of packages that bring them.

use std::collections::BTreeMap;

use super::rows::{Family, Shim};
use super::soname::{first_number, matches_pattern};
use crate::version::Version;

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
    pub fn dlopens(&self, soname_major: u32) -> impl Iterator<Item = (&str, &str)> {
        let opens = self.dlopens.get(&soname_major.to_string()).or_else(|| self.dlopens.get("any"));
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
    pub fn dlopens_unversioned(&self, soname_major: u32) -> &[String] {
        by_major(&self.dlopens_unversioned, soname_major)
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
