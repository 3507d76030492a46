//! What is known of drivers, of cuDNN's releases and of what goes wrong together. The fields are explained in
//! `profiles/{drivers,cudnn,builds,known-bad}.toml`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::rows::{BadRelease, Build, Builds, Combination, Cudnn, DriverOfCuda, Drivers, KnownBad, Support};
use crate::range::Range;
use crate::version::{ComputeCapability, CudaVersion, DriverVersion, Version};

/// All of it.
#[derive(Debug)]
pub struct Knowledge {
    drivers: Drivers,
    cudnn: Cudnn,
    builds: Builds,
    bad: KnownBad,
}

/// The tables that are built in.
pub fn knowledge() -> &'static Knowledge {
    static TABLES: LazyLock<Knowledge> = LazyLock::new(|| Knowledge {
        drivers: profile!("drivers"),
        cudnn: profile!("cudnn"),
        builds: profile!("builds"),
        bad: profile!("known-bad"),
    });
    &TABLES
}

impl Knowledge {
    /// The oldest driver that runs this CUDA: any minor of its major, from CUDA 11 on. Of an older major whose minor
    /// is not known, what its oldest minor needs.
    pub fn driver_floor(&self, major: u32, minor: Option<u32>) -> Option<DriverVersion> {
        let of_major = self.drivers.floor.iter().filter(|floor| floor.cuda.major() == major);
        let is_it = |floor: &&DriverOfCuda| {
            floor.cuda.numbers().len() == 1 || minor.is_none_or(|minor| floor.cuda.minor() == minor)
        };
        of_major.filter(is_it).map(|floor| floor.driver).min()
    }

    /// The CUDA version that a driver branch brings in full.
    pub fn cuda_of_driver(&self, driver: &DriverVersion) -> Option<CudaVersion> {
        self.drivers.branch.iter().find(|branch| branch.driver == driver.branch()).map(|branch| branch.cuda)
    }

    /// The oldest driver that came with a toolkit of this CUDA version: all of it works from there on.
    pub fn driver_of_cuda(&self, cuda: CudaVersion) -> Option<DriverVersion> {
        let is_it = |toolkit: &&DriverOfCuda| {
            (toolkit.cuda.major(), toolkit.cuda.minor()) == (cuda.major, cuda.minor)
        };
        self.drivers.toolkit.iter().filter(is_it).map(|toolkit| toolkit.driver).min()
    }

    /// The versions of cuDNN that have code for a GPU in builds for this CUDA, oldest first.
    pub fn cudnn_for(&self, gpu: ComputeCapability, cuda: u32) -> Vec<&Range> {
        let gpu = gpu.version();
        let serves = |row: &&Support| row.cuda.contains(&cuda) && row.gpus.allows(&gpu);
        self.cudnn.support.iter().filter(serves).map(|row| &row.versions).collect()
    }

    /// The newest builds of a framework that have code for a GPU, and are others than the one that has none.
    pub fn build_for(
        &self,
        framework: &str,
        gpu: ComputeCapability,
        without: Option<Version>,
    ) -> Option<&Build> {
        let gpu = gpu.version();
        let is_other = |build: &&Build| without.is_none_or(|version| !build.versions.allows(&version));
        let of_framework = self.builds.build.iter().filter(|build| build.framework == framework);
        of_framework.filter(is_other).rfind(|build| build.gpus.allows(&gpu))
    }

    /// The releases of a family that are never picked.
    pub fn bad_releases(&self, family: &str) -> impl Iterator<Item = Version> {
        self.bad.release.iter().filter(move |row| row.family == family).map(|row| row.version)
    }

    /// Why this release is never picked.
    pub fn bad_release(&self, family: &str, version: &Version) -> Option<&str> {
        let is_it = |row: &&BadRelease| row.family == family && row.version.agrees_with(version);
        self.bad.release.iter().find(is_it).map(|row| row.why.as_str())
    }

    /// Whether there is a combination with this family in it.
    pub fn may_be_bad(&self, family: &str) -> bool {
        self.bad.combination.iter().any(|row| row.of.contains_key(family))
    }

    /// The bad combinations in which these versions of families take part, all of whose parts are there.
    pub fn bad_combinations<'k>(
        &'k self,
        versions: &BTreeMap<&str, Version>,
        gpus: &[ComputeCapability],
    ) -> impl Iterator<Item = &'k Combination> {
        self.bad.combination.iter().filter(move |row| row.is_met(versions, gpus))
    }
}

impl Combination {
    pub fn families(&self) -> impl Iterator<Item = &str> {
        self.of.keys().map(String::as_str)
    }

    fn is_met(&self, versions: &BTreeMap<&str, Version>, gpus: &[ComputeCapability]) -> bool {
        let is_part = |(family, range): (&String, &Range)| {
            versions.get(family.as_str()).is_some_and(|version| range.allows(version))
        };
        let is_meant =
            |gpu: &ComputeCapability| self.gpus.as_ref().is_none_or(|range| range.allows(&gpu.version()));
        let has_gpu = self.gpus.is_none() || gpus.iter().any(is_meant);
        has_gpu && (!self.several_gpus || gpus.len() > 1) && self.of.iter().all(is_part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::catalog;

    #[test]
    fn rows_agree_with_each_other() {
        let knowledge = knowledge();
        let named = knowledge.bad.combination.iter().flat_map(Combination::families);
        let named = named.chain(knowledge.bad.release.iter().map(|row| row.family.as_str()));
        named.for_each(|family| assert!(catalog().family(family).is_some(), "{family}"));
        // A driver that came with a toolkit runs it, and brings it in full.
        for toolkit in &knowledge.drivers.toolkit {
            let (major, minor) = (toolkit.cuda.major(), toolkit.cuda.minor());
            let floor = knowledge.driver_floor(major, Some(minor)).unwrap();
            let is_preview = (major, minor) == (11, 0) || (major, minor) == (9, 1);
            assert!(toolkit.driver >= floor || is_preview, "{:?}", toolkit.cuda);
            if let Some(cuda) = knowledge.cuda_of_driver(&toolkit.driver) {
                assert!((cuda.major, cuda.minor) >= (major, minor), "{:?}", toolkit.cuda);
            }
        }
    }

    #[test]
    fn drivers_and_cuda() {
        let floor = |major, minor| knowledge().driver_floor(major, minor).map(|driver| driver.to_string());
        assert_eq!(floor(12, Some(4)).as_deref(), Some("525.60.13"));
        assert_eq!(floor(13, None).as_deref(), Some("580.65.06"));
        assert_eq!(floor(10, Some(2)).as_deref(), Some("440.33"), "no minor version compatibility before 11");
        assert_eq!(floor(10, None).as_deref(), Some("410.48"), "the least that it can need");
        assert_eq!(floor(14, None), None);
        let of_cuda =
            |cuda: &str| knowledge().driver_of_cuda(cuda.parse().unwrap()).map(|driver| driver.to_string());
        assert_eq!(of_cuda("12.8").as_deref(), Some("570.86.10"));
        assert_eq!(of_cuda("12.7"), None, "there was no such toolkit");
    }

    #[test]
    fn cudnn_for_old_and_new_gpus() {
        let versions = |gpu: &str, cuda| {
            let found = knowledge().cudnn_for(gpu.parse().unwrap(), cuda);
            found.into_iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(versions("6.1", 12), [">=8.8,<9.0", ">=9.0,<9.7", ">=9.7,<9.11"]);
        assert_eq!(versions("12.0", 12), [">=9.7,<9.11", ">=9.11"]);
        assert_eq!(versions("6.1", 13), [""; 0]);
        let build = |framework: &str, gpu: &str, without: &str| {
            let build = knowledge().build_for(framework, gpu.parse().unwrap(), without.parse().ok());
            build.map(|build| build.versions.to_string())
        };
        assert_eq!(build("onnxruntime", "10.0", "1.31.1").as_deref(), Some(">=1.21,<1.27"), "not the same");
        let torch = |gpu: &str| build("torch", gpu, "");
        assert_eq!(torch("6.1").as_deref(), Some(">=2.1,<2.8"));
        assert_eq!(torch("12.0").as_deref(), Some(">=2.11"));
        assert_eq!(torch("3.5"), None);
    }

    #[test]
    fn combinations_need_all_of_their_parts() {
        let met = |versions: &[(&'static str, &str)], gpus: &[&str]| {
            let versions = versions.iter().map(|(family, text)| (*family, text.parse().unwrap())).collect();
            let gpus: Vec<ComputeCapability> = gpus.iter().map(|gpu| gpu.parse().unwrap()).collect();
            knowledge().bad_combinations(&versions, &gpus).count()
        };
        let (old, new) = (("cudnn", "9.8.0"), ("cudnn", "9.10.2"));
        assert_eq!(met(&[old, ("cublas", "12.9.1")], &["9.0", "9.0"]), 1);
        assert_eq!(met(&[old, ("cublas", "12.9.1")], &["9.0"]), 0, "one GPU");
        assert_eq!(met(&[new, ("cublas", "12.9.1")], &["9.0", "9.0"]), 0);
        assert_eq!(met(&[old], &["9.0", "9.0"]), 0);
        assert_eq!(met(&[("cublas", "13.1.0.3")], &["10.3"]), 1);
        assert_eq!(met(&[("cublas", "13.1.0.3")], &["9.0"]), 0);
    }
}
