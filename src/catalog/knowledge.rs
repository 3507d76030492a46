//! Facts about drivers, cuDNN's releases, builds of frameworks and bad combinations. The heads of
//! `profiles/{drivers,cudnn,builds,known-bad}.toml` explain the fields.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::of_test;
use super::rows::{
    Builds, Combination, Cudnn, Drivers, GpuBuild, KnownBad, ListedDistribution, VendorBuild,
};
use crate::range::Range;
use crate::version::{ComputeCapability, CudaVersion, Version};

#[derive(Debug)]
pub struct Knowledge {
    drivers: Drivers,
    cudnn: Cudnn,
    builds: Builds,
    bad: KnownBad,
}

pub fn knowledge() -> &'static Knowledge {
    static TABLES: LazyLock<Knowledge> = LazyLock::new(|| Knowledge {
        drivers: profile!("drivers"),
        cudnn: profile!("cudnn"),
        builds: of_test("CUDARUN_TEST_BUILDS").unwrap_or_else(|| profile!("builds")),
        bad: profile!("known-bad"),
    });
    &TABLES
}

impl Knowledge {
    /// The oldest driver that runs this CUDA version. From CUDA 11 on, it runs every minor of the major. Before, an
    /// unknown minor counts as the oldest.
    pub fn driver_floor(&self, major: u32, minor: Option<u32>) -> Option<Version> {
        let matching = self.drivers.floor.iter().filter(|floor| {
            floor.cuda.major() == major
                && (floor.cuda.numbers().len() == 1
                    || minor.is_none_or(|minor| floor.cuda.minor() == minor))
        });
        matching.map(|floor| floor.driver).min()
    }

    /// The CUDA version that a driver branch supports completely.
    pub fn cuda_of_driver(&self, driver: Version) -> Option<CudaVersion> {
        self.drivers
            .branch
            .iter()
            .find(|branch| branch.driver == driver.major())
            .map(|branch| branch.cuda)
    }

    /// The CUDA version of the driver in a release of Jetson's system.
    pub fn cuda_of_tegra(&self, release: Version) -> Option<CudaVersion> {
        let rows = self.drivers.tegra.iter();
        rows.filter(|row| release.numbers().starts_with(row.l4t.numbers()))
            .max_by_key(|row| row.l4t.numbers().len())
            .map(|row| row.cuda)
    }

    /// The CUDA version that brought a version of PTX.
    pub fn cuda_of_ptx(&self, version: &str) -> Option<CudaVersion> {
        self.drivers
            .ptx
            .iter()
            .find(|(ptx, _)| ptx == version)
            .map(|(_, cuda)| *cuda)
    }

    /// The CUDA version of each toolkit that came with a driver.
    pub fn cuda_releases(&self) -> impl Iterator<Item = CudaVersion> {
        self.drivers
            .toolkit
            .iter()
            .map(|toolkit| CudaVersion::of(toolkit.cuda))
    }

    /// The oldest driver that came with a toolkit of this CUDA version, and supports it completely.
    pub fn driver_of_cuda(&self, cuda: CudaVersion) -> Option<Version> {
        let toolkits = self.drivers.toolkit.iter();
        let equal = toolkits.filter(|toolkit| toolkit.cuda.agrees_with(&cuda.version()));
        equal.map(|toolkit| toolkit.driver).min()
    }

    /// The versions of cuDNN that have code for a GPU in builds for this CUDA major, oldest first.
    pub fn cudnn_for(&self, gpu: ComputeCapability, cuda: u32) -> Vec<&Range> {
        let gpu = gpu.version();
        let rows = self
            .cudnn
            .support
            .iter()
            .filter(|row| row.cuda.contains(&cuda) && row.gpus.allows(&gpu));
        rows.map(|row| &row.versions).collect()
    }

    /// The newest builds of a framework that have code for a GPU, except the builds of version `without`.
    pub fn build_for(
        &self,
        framework: &str,
        gpu: ComputeCapability,
        without: Option<Version>,
    ) -> Option<&GpuBuild> {
        let gpu = gpu.version();
        self.builds.build.iter().rfind(|build| {
            build.framework.as_deref() == Some(framework)
                && without.is_none_or(|version| !build.versions.allows(&version))
                && build.gpus.allows(&gpu)
        })
    }

    /// The distribution of the newest builds of a framework with CUDA.
    pub fn distribution(&self, framework: &str) -> Option<&str> {
        let build = self
            .builds
            .build
            .iter()
            .rfind(|build| build.framework.as_deref() == Some(framework))?;
        Some(&build.distribution)
    }

    /// The distributions whose releases are known.
    pub fn distributions(&self) -> &[ListedDistribution] {
        &self.builds.distribution
    }

    /// The newest release of a distribution that needs exactly this version of another, as a requirement for pip; under the
    /// name of its newer releases if none has the old one.
    pub fn release_for(&self, name: &str, needs: &str, version: &str) -> Option<String> {
        let mut rows = self.builds.distribution.iter();
        let row = rows.find(|row| row.name == name)?;
        let need = format!("{needs}=={version}");
        let mut releases = row.releases.iter();
        let release = releases.find(|release| {
            let mut needs = release.needs.iter().chain(&release.beside);
            needs.any(|one| *one == need)
        });
        match release {
            Some(release) => Some(format!("{name}=={}", release.version)),
            None => self.release_for(row.later.as_ref()?, needs, version),
        }
    }

    /// Distributions besides, of which some of these require the same version.
    pub fn shared_distributions(&self) -> &[String] {
        &self.builds.shared
    }

    /// The builds of these distributions on indexes of vendors.
    pub fn vendor_builds(&self) -> &[VendorBuild] {
        &self.builds.elsewhere
    }

    /// The GPUs that the builds of a distribution on the default index have code for.
    pub fn gpus_of(&self, distribution: &str, version: Version) -> Option<&Range> {
        let rows = &self.builds.build;
        let row = rows
            .iter()
            .rfind(|build| build.distribution == distribution && build.versions.allows(&version))?;
        Some(&row.gpus)
    }

    /// The reason why this release is never picked.
    pub fn bad_release(&self, family: &str, version: &Version) -> Option<&str> {
        let mut rows = self.bad.release.iter();
        let row = rows.find(|row| row.family == family && row.version.agrees_with(version))?;
        Some(&row.why)
    }

    /// True if a bad combination includes this family.
    pub fn may_be_bad(&self, family: &str) -> bool {
        self.bad
            .combination
            .iter()
            .any(|row| row.ranges.contains_key(family))
    }

    /// The bad combinations that these versions and GPUs meet completely.
    pub fn bad_combinations<'k>(
        &'k self,
        versions: &BTreeMap<&str, Version>,
        gpus: &[ComputeCapability],
    ) -> impl Iterator<Item = &'k Combination> {
        self.bad
            .combination
            .iter()
            .filter(move |row| row.is_met(versions, gpus))
    }
}

impl Combination {
    pub fn families(&self) -> impl Iterator<Item = &str> {
        self.ranges.keys().map(String::as_str)
    }

    fn is_met(&self, versions: &BTreeMap<&str, Version>, gpus: &[ComputeCapability]) -> bool {
        let has_gpu = match &self.gpus {
            Some(range) => gpus.iter().any(|gpu| range.allows(&gpu.version())),
            None => true,
        };
        has_gpu
            && (!self.several_gpus || gpus.len() > 1)
            && self.ranges.iter().all(|(family, range)| {
                versions
                    .get(family.as_str())
                    .is_some_and(|version| range.allows(version))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::catalog;

    #[test]
    fn rows_agree_with_each_other() {
        let knowledge = knowledge();
        let named = knowledge
            .bad
            .combination
            .iter()
            .flat_map(Combination::families);
        let named = named.chain(knowledge.bad.release.iter().map(|row| row.family.as_str()));
        named.for_each(|family| assert!(catalog().family(family).is_some(), "{family}"));
        // A driver that came with a toolkit runs it, and brings it in full.
        for toolkit in &knowledge.drivers.toolkit {
            let (major, minor) = (toolkit.cuda.major(), toolkit.cuda.minor());
            let floor = knowledge.driver_floor(major, Some(minor)).unwrap();
            let is_preview = (major, minor) == (11, 0) || (major, minor) == (9, 1);
            assert!(toolkit.driver >= floor || is_preview, "{:?}", toolkit.cuda);
            if let Some(cuda) = knowledge.cuda_of_driver(toolkit.driver) {
                assert!(
                    (cuda.major, cuda.minor) >= (major, minor),
                    "{:?}",
                    toolkit.cuda
                );
            }
        }
    }
}
