//! Why a release cannot be picked on a machine, by itself.

use super::model::{AdvisedMachine, ReleaseObstacle};
use super::table::ReleaseCandidate;
use crate::catalog::{architecture, knowledge};
use crate::version::{ComputeCapability, CudaVersion, Version};

impl ReleaseCandidate {
    /// The first reason why it does not work on this machine, whatever else is picked.
    pub(super) fn obstacle(&self, target: &AdvisedMachine) -> Option<ReleaseObstacle> {
        if self.is_installed {
            return None;
        }
        if !self.machines.contains(&target.machine) {
            return Some(ReleaseObstacle::Machine(target.machine.clone()));
        }
        if let Some(gpu) = self.not_for_jetson(target) {
            return Some(ReleaseObstacle::NotForJetson(gpu));
        }
        if target
            .python
            .is_some_and(|python| !self.python.allows(&python))
        {
            return Some(ReleaseObstacle::Python(self.python.clone()));
        }
        if self.is_cpu_only {
            return Some(ReleaseObstacle::WithoutCuda(target.machine.clone()));
        }
        self.too_new(target)
            .or_else(|| target.gpus.iter().find_map(|gpu| self.no_code(*gpu)))
    }

    /// The GPU of a Jetson, if the release has libraries for Arm servers.
    fn not_for_jetson(&self, target: &AdvisedMachine) -> Option<ComputeCapability> {
        if self.cuda.as_ref().is_none_or(Vec::is_empty) {
            return None;
        }
        let mut gpus = target.gpus.iter().copied();
        gpus.find(|gpu| architecture(*gpu).is_some_and(|row| row.l4t))
    }

    fn too_new(&self, target: &AdvisedMachine) -> Option<ReleaseObstacle> {
        let driver = target.driver?;
        let cuda = *self.cuda.as_ref()?.iter().min()?;
        let needs = driver_for(cuda.major())?;
        (driver < needs).then_some(ReleaseObstacle::Driver { cuda, needs })
    }

    fn no_code(&self, gpu: ComputeCapability) -> Option<ReleaseObstacle> {
        if let Some(has) = self.gpus
            && !has.allows(&gpu.version())
        {
            return Some(ReleaseObstacle::Gpu {
                gpu,
                has: has.clone(),
            });
        }
        let cuda = *self.cuda.as_ref()?.iter().min()?;
        let last = architecture(gpu)?.cuda.get(1).map(CudaVersion::version)?;
        (last.major() < cuda.major()).then_some(ReleaseObstacle::DroppedGpu { gpu, cuda, last })
    }
}

impl ReleaseObstacle {
    /// True if it is not about the release by itself.
    pub(super) fn is_beside(&self) -> bool {
        matches!(
            self,
            ReleaseObstacle::Conflict { .. }
                | ReleaseObstacle::NeededOtherwise { .. }
                | ReleaseObstacle::AskedOtherwise { .. }
                | ReleaseObstacle::OtherCuda { .. }
                | ReleaseObstacle::Together
        )
    }
}

/// The oldest driver that runs a CUDA major.
pub(super) fn driver_for(major: u32) -> Option<Version> {
    knowledge().driver_floor(major, None)
}
