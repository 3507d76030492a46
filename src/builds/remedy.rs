//! The next step where no toolkit fits, found by the rules that toolkits are chosen by. Pure.

use std::collections::BTreeSet;

use super::choose::{Machine, order, unfit};
use super::model::{BuildWish, RejectedToolkit, Remedy, ToolkitReason};
use crate::catalog::{knowledge, toolkits};
use crate::inventory::Toolkit;
use crate::version::{ComputeCapability, CudaVersion, Version};

/// Returns the step that is enough for a toolkit that is here, or else one that leads to another toolkit.
pub(super) fn remedy(
    rejected: &[RejectedToolkit],
    wish: &BuildWish,
    machine: &Machine<'_>,
) -> Remedy {
    let mut broken = None;
    if let Some(nearest) = rejected
        .iter()
        .max_by_key(|one| (nearness(&one.reason), one.toolkit.release))
    {
        let cuda = nearest.toolkit.cuda();
        match (&nearest.reason, cuda) {
            (ToolkitReason::Open { .. }, _) => {
                let Toolkit { open, root, .. } = nearest.toolkit.clone();
                return Remedy::Close { open, root };
            }
            (ToolkitReason::GccTooNew { newest, .. }, _) => return Remedy::Gcc(*newest),
            (ToolkitReason::HeaderMissing { header, .. }, Some(cuda)) => {
                return Remedy::Header {
                    header: header.clone(),
                    cuda,
                };
            }
            (ToolkitReason::Broken { .. }, _) => broken = cuda.or(nearest.toolkit.headers),
            _ => {}
        }
    }
    let of_wheels = toolkits().iter().map(|row| CudaVersion::of(row.version));
    let known: BTreeSet<CudaVersion> = knowledge().cuda_releases().chain(of_wheels).collect();
    let no_release = Remedy::NoRelease(*known.last().expect("the tables have releases"));
    let fits = |cuda: CudaVersion, wish: &BuildWish, gpus: &[ComputeCapability]| {
        let releases = [
            cuda.version(),
            Version::new(&[cuda.major, cuda.minor, u32::MAX]),
        ];
        releases
            .into_iter()
            .any(|release| unfit(release, wish, gpus).is_none())
    };
    // A release of this minor is here, and its last number is not in the range.
    let is_refused = |cuda: CudaVersion| {
        let is_it = |one: &&RejectedToolkit| one.toolkit.cuda() == Some(cuda);
        rejected
            .iter()
            .filter(is_it)
            .any(|one| matches!(one.reason, ToolkitReason::NotInRange { .. }))
    };
    let best = |wish: &BuildWish| {
        let is_beyond =
            |cuda| wish.framework.is_none() && machine.cuda.is_some_and(|driver| cuda > driver);
        let rank = |cuda: &CudaVersion| {
            (
                Some(*cuda) != broken,
                is_beyond(*cuda),
                order(*cuda, wish, machine),
            )
        };
        let candidates = known.iter().copied();
        candidates
            .filter(|cuda| fits(*cuda, wish, machine.gpus) && !is_refused(*cuda))
            .min_by_key(rank)
    };
    let of_ranges = BuildWish {
        ranges: wish.ranges.clone(),
        ..BuildWish::default()
    };
    let of_framework = BuildWish {
        framework: wish.framework.clone(),
        ..BuildWish::default()
    };
    if !known.iter().any(|cuda| fits(*cuda, &of_ranges, &[])) {
        return no_release;
    }
    let step = best(wish).map(Remedy::Install);
    let step = step.or_else(|| best(&of_ranges).map(|cuda| Remedy::OtherBuild(cuda.major)));
    step.or_else(|| best(&of_framework).map(Remedy::Demand))
        .unwrap_or(no_release)
}

/// The larger, the nearer the toolkit is to one that fits; 0 if no other step than another toolkit helps.
fn nearness(reason: &ToolkitReason) -> u32 {
    match reason {
        ToolkitReason::Open { .. } => 4,
        ToolkitReason::GccTooNew { .. } => 3,
        ToolkitReason::HeaderMissing { .. } => 2,
        ToolkitReason::Broken { .. } => 1,
        _ => 0,
    }
}
