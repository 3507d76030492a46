//! Why an installation was picked or was not, in words.

use super::words::{self, list, shown, title};
use crate::program::Pin;
use crate::solve::{Criterion, Reason};
use crate::text::show;

pub(super) fn reason(reason: &Reason) -> String {
    match reason {
        Reason::OtherName { has: Some(has), .. } => format!("is {}", show(has)),
        Reason::OtherName { asked, has: None } => format!("has no {}", show(asked)),
        Reason::TooOld { needed, by } => {
            format!("older than {} that {} was compiled for", needed.truncated(2), title(by))
        }
        Reason::OtherMajor { needed, by } => {
            format!("{} was compiled for {}", title(by), needed.truncated(2))
        }
        Reason::NotThatVersion { needed, by } => {
            format!("{} brings a part of {needed} and needs the rest of it", title(by))
        }
        Reason::NotThePinned { pin, by } => format!("{} names {}", show(by), named(pin)),
        Reason::OutOfRange { range, by } => format!("{} allows {range}", show(by)),
        Reason::OtherBuild { file, by } => {
            format!("{} has recorded another build of {}", show(by), show(file))
        }
        Reason::VersionUnknown { by } => {
            format!("its version is not known, and {} needs a certain one", title(by))
        }
        Reason::LacksSymbols { count: 1, first, by } => {
            format!("lacks `{}`, which {} imports", show(first), title(by))
        }
        Reason::LacksSymbols { count, first, by } => {
            format!("lacks {count} symbols that {} imports, `{}` among them", title(by), show(first))
        }
        Reason::Incomplete { missing } => format!("incomplete: {} missing", shown(missing)),
        Reason::Mixed { file, version } => format!("mixed: {} is {version}", show(file)),
        Reason::Truncated { file } => format!("damaged: {} is cut short", show(file)),
        Reason::Writable { open } => words::open(open),
        Reason::OtherCuda { has, needed, by } => {
            format!("is for CUDA {has}, and {} is for CUDA {needed}", title(by))
        }
        Reason::DriverTooOld { cuda, floor, driver } => {
            format!("CUDA {cuda} needs driver {floor} or newer, and this is {driver}")
        }
        Reason::CudaOutOfRange { has, range, by } => {
            format!("is for CUDA {has}, and {} allows {range}", show(by))
        }
        Reason::NoCode { gpu, has } if has.is_empty() => {
            format!("has no code for compute capability {gpu}")
        }
        Reason::NoCode { gpu, has } => {
            let ends = [has.first(), has.last()].map(|end| end.map(ToString::to_string).unwrap_or_default());
            format!("has no code for compute capability {gpu}, only for some from {} to {}", ends[0], ends[1])
        }
        Reason::PtxTooNew { gpu, needed, has } => format!(
            "has only PTX of CUDA {needed} for compute capability {gpu}, and the driver compiles up to {has}"
        ),
        Reason::Stub => "a stub to link against: fails at run time".to_owned(),
        Reason::NotTheKernelsDriver { kernel } => format!("the kernel runs driver {kernel}"),
        Reason::CompatNotNewer { kernel } => format!("not newer than the kernel's driver {kernel}"),
        Reason::CompatOtherBranch { kernel, branches } => {
            let branches: Vec<String> = branches.iter().map(u32::to_string).collect();
            format!("says it serves kernel drivers {}, and this is {kernel}", list(&branches))
        }
        Reason::KnownBad { why } => format!("known to be bad: {why}"),
        Reason::FailedProof => "did not stand its proof on this machine".to_owned(),
        Reason::NeedsGlibc { needed, has } => format!("needs glibc {needed}, and this machine has {has}"),
        Reason::LoaderTakesAnother { by, .. } => {
            format!("the loader takes another: {} searches elsewhere before LD_LIBRARY_PATH", title(by))
        }
        Reason::Renamed => "renamed by its package: nothing else finds it".to_owned(),
        Reason::Clash { with, why } => format!("does not go with {}: {}", title(with), self::reason(why)),
        Reason::NeedsAbsent { name } => format!("is linked against {}, for which nothing fits", show(name)),
        Reason::DeadEnd => "with it, nothing fits for another library".to_owned(),
        Reason::PassedOver => "belongs to a set that comes before this one".to_owned(),
        Reason::LessPreferred { criterion } => less_preferred(*criterion).to_owned(),
    }
}

/// Why the picked one was picked.
pub(super) fn decided_by(criterion: Criterion) -> &'static str {
    match criterion {
        Criterion::Pinned => "it is pinned",
        Criterion::OnlyOne => "the only one that fits",
        Criterion::Private => "no other user can change it",
        Criterion::KernelsOwn => "it is the kernel's own",
        Criterion::LoaderTakesIt => "the loader takes it in any case",
        Criterion::CameWithTarget => "it came with the program",
        Criterion::Preferred => "a version that is preferred",
        Criterion::PreferredOrigin => "its origin is preferred",
        Criterion::Sound => "nothing bad is known of it with the others",
        Criterion::MachineCode => "it has machine code for the GPU",
        Criterion::Neighbours => "it stands with the others",
        Criterion::Recorded => "the version that upstream tested with",
        Criterion::NearestNewer => "the next newer than upstream tested with",
        Criterion::Newest => "the newest that fits",
        Criterion::SearchOrder => "the loader comes to it first",
        Criterion::Path => "the first by path",
    }
}

fn less_preferred(criterion: Criterion) -> &'static str {
    match criterion {
        Criterion::Pinned => "fits, but another is pinned",
        Criterion::OnlyOne | Criterion::LoaderTakesIt => "fits, but the loader takes the other in any case",
        Criterion::Private => "fits, but another user can change it",
        Criterion::KernelsOwn => "fits, but is not the kernel's own",
        Criterion::CameWithTarget => "fits, but did not come with the program",
        Criterion::Preferred => "fits, but another version is preferred",
        Criterion::PreferredOrigin => "fits, but another origin is preferred",
        Criterion::Sound => "fits, but is known to be bad with the others",
        Criterion::MachineCode => "fits, but has only PTX for the GPU",
        Criterion::Neighbours => "fits, but stands apart from the others",
        Criterion::Recorded => "fits, but is not the version that upstream tested with",
        Criterion::NearestNewer => "fits, but is further from what upstream tested with",
        Criterion::Newest => "fits, but is older",
        Criterion::SearchOrder => "fits, but the loader comes to it later",
        Criterion::Path => "fits as well",
    }
}

/// What a person has named.
pub(super) fn named(pin: &Pin) -> String {
    match pin {
        Pin::Version(version) => version.to_string(),
        Pin::Directory(directory) => format!("the one in {}", show(directory)),
    }
}
