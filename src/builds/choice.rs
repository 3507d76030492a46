//! Chooses the toolkit of a build: hard rules with a reason each, then an order. Pure.

use std::cmp::Reverse;
use std::path::PathBuf;

use super::build::{BuildWish, HostCompiler, RejectedToolkit, ToolkitReason};
use crate::catalog::{architectures, knowledge, toolkits};
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
    wish: &BuildWish,
    machine: &BuildMachine<'_>,
) -> (Vec<Toolkit>, Vec<RejectedToolkit>) {
    let mut fitting = Vec::new();
    let mut rejected = Vec::new();
    for toolkit in toolkits {
        match obstacle(toolkit, wish, machine) {
            None => fitting.push(toolkit.clone()),
            Some(reason) => rejected.push(RejectedToolkit {
                toolkit: toolkit.clone(),
                reason,
            }),
        }
    }
    let place = |root: &PathBuf| {
        machine
            .named
            .iter()
            .position(|named| named == root)
            .unwrap_or(usize::MAX)
    };
    fitting.sort_by_cached_key(|toolkit| {
        let order = toolkit.cuda().map(|cuda| order(cuda, wish, machine));
        let Toolkit {
            is_named,
            problems,
            origin,
            root,
            ..
        } = toolkit;
        (
            place(root),
            order,
            !is_named,
            problems.len(),
            *origin,
            root.clone(),
        )
    });
    (fitting, rejected)
}

/// True if a release of CUDA makes code for a GPU: it knows the GPU, and has not given it up.
pub(super) fn makes_code(cuda: CudaVersion, gpu: ComputeCapability) -> bool {
    let known = architectures().iter().find(|known| known.capability == gpu);
    known.is_some_and(|known| {
        known.cuda.first().is_some_and(|first| *first <= cuda)
            && known.cuda.get(1).is_none_or(|last| cuda <= *last)
    })
}

/// True if a release of CUDA came before the first one that makes code for a GPU.
pub(super) fn is_older(cuda: CudaVersion, gpu: ComputeCapability) -> bool {
    let mut known = architectures()
        .iter()
        .filter(|known| known.capability == gpu);
    known.any(|known| known.cuda.first().is_some_and(|first| cuda < *first))
}

fn obstacle(
    toolkit: &Toolkit,
    wish: &BuildWish,
    machine: &BuildMachine<'_>,
) -> Option<ToolkitReason> {
    if toolkit.part(PartKind::Nvcc).is_none() {
        return Some(ToolkitReason::NoNvcc);
    }
    let cannot_build = |problem: &&ToolkitProblem| match problem {
        ToolkitProblem::NoLinkerNames { .. } => toolkit.libraries.is_none(),
        ToolkitProblem::NoCccl => false,
        _ => true,
    };
    if let Some(problem) = toolkit.problems.iter().find(cannot_build) {
        return Some(ToolkitReason::Broken {
            problem: problem.clone(),
        });
    }
    let Some(release) = toolkit.release else {
        return Some(ToolkitReason::ReleaseUnknown);
    };
    if let Some(reason) = unfit(release, wish, machine.gpus) {
        return Some(reason);
    }
    if let Some(framework) = &wish.framework
        && let Some(header) = framework
            .headers
            .iter()
            .find(|header| !(machine.has_header)(toolkit, header))
    {
        return Some(ToolkitReason::HeaderMissing {
            header: header.clone(),
            by: framework.name.clone(),
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

/// Returns the reason why no toolkit of a release fits.
fn unfit(release: Version, wish: &BuildWish, gpus: &[ComputeCapability]) -> Option<ToolkitReason> {
    let cuda = CudaVersion::of(release);
    if let Some((range, by)) = wish
        .ranges
        .iter()
        .find(|(range, _)| !range.allows(&release))
    {
        return Some(ToolkitReason::NotInRange {
            range: range.to_string(),
            by: by.clone(),
        });
    }
    if let Some(framework) = wish
        .framework
        .as_ref()
        .filter(|framework| framework.cuda.major != cuda.major)
    {
        return Some(ToolkitReason::OtherMajor {
            needs: framework.cuda,
            by: framework.name.clone(),
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
fn order(cuda: CudaVersion, wish: &BuildWish, machine: &BuildMachine<'_>) -> impl Ord + use<> {
    // Minor-version compatibility: a driver runs all code of its major.
    let is_run = machine.cuda.is_none_or(|driver| cuda.major <= driver.major);
    let is_run_in_full = machine.cuda.is_none_or(|driver| cuda <= driver);
    let (rank, distance) = match wish.framework.as_ref().map(|framework| framework.cuda) {
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
    wish: &BuildWish,
    machine: &BuildMachine<'_>,
) -> Option<CudaVersion> {
    let fits = |cuda: CudaVersion| {
        let last = Version::new(&[cuda.major, cuda.minor, u32::MAX]);
        let mut releases = [cuda.version(), last].into_iter();
        let is_refused = |one: &RejectedToolkit| {
            one.toolkit.cuda() == Some(cuda)
                && matches!(one.reason, ToolkitReason::NotInRange { .. })
        };
        releases.any(|release| unfit(release, wish, machine.gpus).is_none())
            && !rejected.iter().any(is_refused)
    };
    let is_to_mend = |cuda: CudaVersion| {
        let mut broken = rejected
            .iter()
            .filter(|one| matches!(one.reason, ToolkitReason::Broken { .. }));
        broken.any(|one| one.toolkit.cuda().or(one.toolkit.headers) == Some(cuda))
    };
    let is_beyond = |cuda: CudaVersion| {
        wish.framework.is_none() && machine.cuda.is_some_and(|driver| cuda > driver)
    };
    let of_wheels = toolkits().iter().map(|row| CudaVersion::of(row.version));
    let known = knowledge().cuda_releases().chain(of_wheels);
    known.filter(|cuda| fits(*cuda)).min_by_key(|cuda| {
        (
            !is_to_mend(*cuda),
            is_beyond(*cuda),
            order(*cuda, wish, machine),
        )
    })
}
