//! Library families: their files, and the packages that provide them.

use std::collections::BTreeMap;

use super::rows::{Family, FamilyShim};
use crate::formats::names::{first_number, matches_pattern};
use crate::version::Version;

impl Family {
    /// True for the libraries of the driver, which belong to the kernel's module and not to a program.
    pub fn is_driver(&self) -> bool {
        self.name == "driver"
    }

    pub fn has_member(&self, stem: &str) -> bool {
        self.members
            .iter()
            .any(|pattern| matches_pattern(pattern, stem))
    }

    /// True if it may define a symbol of this name.
    pub fn may_export(&self, symbol: &str) -> bool {
        self.symbols
            .iter()
            .any(|beginning| symbol.starts_with(beginning.as_str()))
    }

    /// The part of its SONAMEs after `.so.` for a CUDA major.
    pub fn suffix(&self, cuda_major: u32) -> Option<&str> {
        self.suffix
            .get(&cuda_major.to_string())
            .or_else(|| self.suffix.get("any"))
            .map(String::as_str)
    }

    /// The CUDA major whose SONAMEs have this suffix, if there is only one.
    pub fn cuda_of_suffix(&self, suffix: &str) -> Option<u32> {
        let mut majors = self
            .suffix
            .iter()
            .filter(|(_, given)| first_number(given) == first_number(suffix));
        let only = majors.next()?.0.parse().ok();
        if majors.next().is_some() { None } else { only }
    }

    /// The stems of a complete installation of this SONAME major: the main one if the profile lists none.
    pub fn required(&self, soname_major: u32) -> Vec<&str> {
        if self.required.is_empty() {
            return vec![&self.main];
        }
        by_major(&self.required, soname_major)
            .iter()
            .map(String::as_str)
            .collect()
    }

    /// The stem of each opening file of this SONAME major with each stem that it opens at run time.
    pub fn dlopens(&self, soname_major: u32) -> impl Iterator<Item = (&str, &str)> {
        let opens = self
            .dlopens
            .get(&soname_major.to_string())
            .or_else(|| self.dlopens.get("any"));
        let pairs = opens
            .into_iter()
            .flatten()
            .flat_map(|(by, stems)| stems.iter().map(move |stem| (by, stem)));
        pairs.map(|(by, stem)| (by.as_str(), stem.as_str()))
    }

    /// True for a file that works over the complete rest of other versions of its SONAME major. Such a file does not decide
    /// the version of an installation.
    pub fn is_shim(&self, stem: &str, soname_major: Option<u32>) -> bool {
        self.shim(soname_major)
            .is_some_and(|shim| shim.stem == stem)
    }

    /// True if a shim of one version works over the complete rest of another; an unknown version counts as the worst.
    pub fn shim_works_over(
        &self,
        soname_major: Option<u32>,
        shim: Option<Version>,
        rest: Option<Version>,
    ) -> bool {
        let Some(FamilyShim { since, .. }) = self.shim(soname_major) else {
            return false;
        };
        shim.is_some_and(|shim| shim < *since) || rest.is_some_and(|rest| rest >= *since)
    }

    /// True if it opens members of its own, and may get those of any version: a copy that auditwheel has renamed does so too.
    /// Members with the minor in their SONAME are of the opener's own version, or not there.
    pub fn opens_members_of_any_version(&self) -> bool {
        self.dlopens_own_members && self.minor_in_soname.is_empty()
    }

    fn shim(&self, soname_major: Option<u32>) -> Option<&FamilyShim> {
        self.shim.get(&soname_major?.to_string())
    }

    /// The names without a version that files of this SONAME major open at run time.
    pub fn dlopens_unversioned(&self, soname_major: u32) -> &[String] {
        by_major(&self.dlopens_unversioned, soname_major)
    }

    /// The distribution on the Python package index that provides it.
    pub fn wheel(&self, cuda_major: u32) -> Option<String> {
        let base = self.wheel.as_ref()?;
        let plain = cuda_major >= 13 && !self.wheel_always_suffixed;
        Some(if plain {
            base.clone()
        } else {
            format!("{base}-cu{cuda_major}")
        })
    }

    /// The Debian package in NVIDIA's repository that provides it.
    pub fn apt(&self, cuda_major: u32, soname_major: u32) -> Option<String> {
        let template = self
            .apt
            .as_ref()
            .filter(|_| soname_major >= self.apt_from)?;
        let template = template.replace("{cuda}", &cuda_major.to_string());
        Some(template.replace("{soname}", &soname_major.to_string()))
    }

    /// True if a distribution on the Python package index provides it.
    pub fn has_wheel(&self) -> bool {
        self.wheel.is_some()
    }

    /// True if a distribution of this (normalised) name provides it.
    pub fn is_wheel(&self, distribution: &str) -> bool {
        let rest = self
            .wheel
            .as_ref()
            .and_then(|base| distribution.strip_prefix(base.as_str()));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("-cu"))
    }
}

fn by_major(table: &BTreeMap<String, Vec<String>>, major: u32) -> &[String] {
    table
        .get(&major.to_string())
        .or_else(|| table.get("any"))
        .map_or(&[], Vec::as_slice)
}
