//! Chooses the toolkit of a build: hard rules with a reason each, then an order. Pure.

use std::cmp::Reverse;
use std::path::PathBuf;

use super::build::{BuildRequirements, HostCompiler, RejectedToolkit, ToolkitReason};
use crate::catalog::{architecture, knowledge, toolkits};
use crate::inventory::{PartKind, Toolkit, ToolkitProblem};
use crate::version::{ComputeCapability, CudaVersion, Version};

/// The machine, as far as it matters for a build.
pub(super) struct BuildMachine<'m> {
    /// The newest CUDA that the driver runs.
    pub cuda: Option<CudaVersion>,
    /// The visible GPUs.
    pub gpus: &'m [ComputeCapability],
    /// The compilers that nvcc could start, the one that it finds itself first; empty if a person has named one.
    pub compilers: &'m [HostCompiler],
    /// The roots of the toolkits that a person names, the first one first.
    pub named: &'m [PathBuf],
    /// Tells if a toolkit has a header, beside its own ones or in the packages of the framework.
    pub has_header: &'m dyn Fn(&Toolkit, &str) -> bool,
}

/// Returns the toolkits that fit, the best first, and the others with the reason of each.
pub(super) fn choose(
    toolkits: &[Toolkit],
    requirements: &BuildRequirements,
    machine: &BuildMachine<'_>,
) -> (Vec<Toolkit>, Vec<RejectedToolkit>) {
    let mut fitting = Vec::new();
    let mut rejected = Vec::new();
    for toolkit in toolkits {
        match obstacle(toolkit, requirements, machine) {
            None => fitting.push(toolkit.clone()),
            Some(reason) => rejected.push(RejectedToolkit {
                toolkit: toolkit.clone(),
                reason,
            }),
        }
    }
    fitting.sort_by_cached_key(|toolkit| {
        let cuda = toolkit.cuda();
        let mut named = machine.named.iter();
        (
            // Those that nobody names come last.
            named
                .position(|root| *root == toolkit.root)
                .unwrap_or(usize::MAX),
            cuda.map(|cuda| order(cuda, requirements, machine)),
            !toolkit.is_named,
            toolkit.problems.len(),
            toolkit.origin,
            toolkit.root.clone(),
        )
    });
    (fitting, rejected)
}

/// True if a release of CUDA makes code for a GPU: it knows the GPU, and has not given it up.
pub(super) fn makes_code(cuda: CudaVersion, gpu: ComputeCapability) -> bool {
    let releases = releases_for(gpu);
    releases.first().is_some_and(|first| *first <= cuda)
        && releases.get(1).is_none_or(|last| cuda <= *last)
}

/// True if a release of CUDA came before the first one that makes code for a GPU.
pub(super) fn is_older(cuda: CudaVersion, gpu: ComputeCapability) -> bool {
    let first = releases_for(gpu).first();
    first.is_some_and(|first| cuda < *first)
}

/// The first release of CUDA that makes code for a GPU and, if it was given up, the last one; empty for an unknown GPU.
fn releases_for(gpu: ComputeCapability) -> &'static [CudaVersion] {
    architecture(gpu)
        .map(|row| row.cuda.as_slice())
        .unwrap_or_default()
}

fn obstacle(
    toolkit: &Toolkit,
    requirements: &BuildRequirements,
    machine: &BuildMachine<'_>,
) -> Option<ToolkitReason> {
    if toolkit.part(PartKind::Nvcc).is_none() {
        return Some(ToolkitReason::NoNvcc);
    }
    let broken = toolkit.problems.iter().find(|problem| match problem {
        ToolkitProblem::NoLinkerNames { .. } => toolkit.libraries.is_none(),
        ToolkitProblem::NoCccl => false,
        _ => true,
    });
    if let Some(problem) = broken {
        return Some(ToolkitReason::Broken {
            problem: problem.clone(),
        });
    }
    let Some(release) = toolkit.release else {
        return Some(ToolkitReason::ReleaseUnknown);
    };
    if let Some(reason) = unfit(release, requirements, machine.gpus) {
        return Some(reason);
    }
    if let Some(framework) = &requirements.framework
        && let Some(header) = framework
            .headers
            .iter()
            .find(|header| !(machine.has_header)(toolkit, header))
    {
        return Some(ToolkitReason::HeaderMissing {
            header: header.clone(),
            framework: framework.name.clone(),
        });
    }
    let found = machine.compilers.first().and_then(|compiler| compiler.gcc);
    if let (Some(newest), Some(found)) = (toolkit.newest_gcc, found)
        && host_compiler(toolkit, machine.compilers).is_none()
    {
        return Some(ToolkitReason::GccTooNew { newest, found });
    }
    // The last rule: if it alone is broken, the hint is to close the toolkit.
    let open = toolkit.open.first().filter(|_| !toolkit.is_named)?;
    Some(ToolkitReason::Open { open: open.clone() })
}

/// The reason why no toolkit of a release fits.
fn unfit(
    release: Version,
    requirements: &BuildRequirements,
    gpus: &[ComputeCapability],
) -> Option<ToolkitReason> {
    let cuda = CudaVersion::of(release);
    for (range, asker) in &requirements.ranges {
        if !range.allows(&release) {
            return Some(ToolkitReason::NotInRange {
                range: range.to_string(),
                asker: asker.clone(),
            });
        }
    }
    if let Some(framework) = &requirements.framework
        && framework.cuda.major != cuda.major
    {
        return Some(ToolkitReason::OtherMajor {
            needs: framework.cuda,
            framework: framework.name.clone(),
        });
    }
    let gpu = *gpus.first()?;
    (!gpus.iter().any(|gpu| makes_code(cuda, *gpu))).then_some(ToolkitReason::NoCode { gpu })
}

/// Returns the first compiler that a toolkit accepts; one that does not tell its version is taken for an old one.
pub(super) fn host_compiler<'c>(
    toolkit: &Toolkit,
    compilers: &'c [HostCompiler],
) -> Option<&'c HostCompiler> {
    let newest = toolkit.newest_gcc.unwrap_or(u32::MAX);
    compilers
        .iter()
        .find(|compiler| compiler.gcc.is_none_or(|gcc| gcc <= newest))
}

/// The smaller, the better. The rank is: the framework's minor, the nearest newer one that the driver runs in full, the nearest
/// older one, the nearest newer one. Without a framework, the newest one of a major that the driver runs is the best.
fn order(
    cuda: CudaVersion,
    requirements: &BuildRequirements,
    machine: &BuildMachine<'_>,
) -> impl Ord + use<> {
    // Minor-version compatibility: a driver runs all code of its major.
    let is_run = machine.cuda.is_none_or(|driver| cuda.major <= driver.major);
    let is_run_in_full = machine.cuda.is_none_or(|driver| cuda <= driver);
    let (rank, distance) = match requirements
        .framework
        .as_ref()
        .map(|framework| framework.cuda)
    {
        Some(wanted) if wanted == cuda => (0, 0),
        Some(wanted) if cuda > wanted => (
            if is_run_in_full { 1 } else { 3 },
            cuda.minor - wanted.minor,
        ),
        Some(wanted) => (2, wanted.minor - cuda.minor),
        None => (u32::from(!is_run), 0),
    };
    (rank, distance, Reverse(cuda))
}

/// Returns the best one of the known CUDA versions that fit. A version of which a toolkit is here that is not in the range does
/// not.
pub(super) fn to_install(
    rejected: &[RejectedToolkit],
    requirements: &BuildRequirements,
    machine: &BuildMachine<'_>,
) -> Option<CudaVersion> {
    let wheels = toolkits().iter().map(|row| CudaVersion::of(row.version));
    let mut known: Vec<CudaVersion> = knowledge().cuda_releases().chain(wheels).collect();
    known.retain(|cuda| {
        let last = Version::new(&[cuda.major, cuda.minor, u32::MAX]);
        let mut releases = [cuda.version(), last].into_iter();
        let mut refused = rejected
            .iter()
            .filter(|one| matches!(one.reason, ToolkitReason::NotInRange { .. }));
        releases.any(|release| unfit(release, requirements, machine.gpus).is_none())
            && !refused.any(|one| one.toolkit.cuda() == Some(*cuda))
    });
    known.into_iter().min_by_key(|cuda| {
        // A broken toolkit is rather mended.
        let mut broken = rejected
            .iter()
            .filter(|one| matches!(one.reason, ToolkitReason::Broken { .. }));
        let is_here = broken.any(|one| one.toolkit.cuda().or(one.toolkit.headers) == Some(*cuda));
        let is_beyond_driver =
            requirements.framework.is_none() && machine.cuda.is_some_and(|driver| *cuda > driver);
        (
            !is_here,
            is_beyond_driver,
            order(*cuda, requirements, machine),
        )
    })
}
