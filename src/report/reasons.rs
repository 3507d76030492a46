//! The reason why an installation was picked or rejected, in words.

use super::words::{self, named};
use crate::catalog::{display_name, title};
use crate::inventory::Inventory;
use crate::solve::{Criterion, Reason, Unpinned};
use crate::text::{list, show, shown};

pub(super) fn reason(reason: &Reason) -> String {
    match reason {
        Reason::OtherName { has: Some(has), .. } => format!("is {}", show(has)),
        Reason::OtherName { asked, has: None } => format!("has no {}", show(asked)),
        Reason::TooOld { needed, by } => {
            format!(
                "older than {}, for which {} was compiled",
                needed.truncated(2),
                title(by)
            )
        }
        Reason::OtherMajor { needed, by } => {
            format!("{} was compiled for {}", title(by), needed.truncated(2))
        }
        Reason::NotThatVersion { needed, by } => {
            format!(
                "{} contains a part of {needed} and needs the rest of that version",
                title(by)
            )
        }
        Reason::NotThePinned { pin, by } => format!("{} pins {}", show(by), named(pin)),
        Reason::OutOfRange { range, by } => format!("{} allows {range}", show(by)),
        Reason::OtherBuild { file, by } => {
            format!("{} recorded another build of {}", show(by), show(file))
        }
        Reason::VersionUnknown { by } => {
            format!(
                "its version is unknown, and {} needs a certain version",
                title(by)
            )
        }
        Reason::LacksSymbols {
            count: 1,
            first,
            by,
        } => {
            format!("lacks `{}`, which {} imports", show(first), title(by))
        }
        Reason::LacksSymbols { count, first, by } => {
            format!(
                "lacks {count} symbols that {} imports, for example `{}`",
                title(by),
                show(first)
            )
        }
        Reason::Incomplete { missing } => format!("incomplete: {} missing", shown(missing)),
        Reason::Mixed { file, version } => format!("mixed: {} is {version}", show(file)),
        Reason::Truncated { file } => format!("damaged: {} is cut short", show(file)),
        Reason::Writable { open } => words::open(open),
        Reason::OtherCuda { has, needed, by } => {
            format!("is for CUDA {has}, but {} is for CUDA {needed}", title(by))
        }
        Reason::DriverTooOld {
            cuda,
            floor,
            driver,
        } => {
            format!("CUDA {cuda} needs driver {floor} or newer, but this machine has {driver}")
        }
        Reason::CudaOutOfRange { has, range, by } => {
            format!("is for CUDA {has}, but {} allows {range}", show(by))
        }
        Reason::NoCode { gpu, has } => match has.as_slice() {
            [] => format!("has no code for compute capability {gpu}"),
            [only] => format!("has no code for compute capability {gpu}, only for {only}"),
            [first, .., last] => {
                format!("has no code for compute capability {gpu}, only for {first} to {last}")
            }
        },
        Reason::PtxTooNew { gpu, needed, has } => format!(
            "has only PTX of CUDA {needed} for compute capability {gpu}, but the driver compiles only up to {has}"
        ),
        Reason::Stub => "a stub for linking: fails at run time".to_owned(),
        Reason::NotTheKernelsDriver { kernel } => format!("the kernel runs driver {kernel}"),
        Reason::CompatNotNewer { kernel } => format!("not newer than the kernel's driver {kernel}"),
        Reason::CompatOtherBranch { kernel, branches } => {
            let branches: Vec<String> = branches.iter().map(u32::to_string).collect();
            format!(
                "supports kernel drivers {}, but this machine has {kernel}",
                list(&branches)
            )
        }
        Reason::KnownBad { why } => format!("known to be bad: {why}"),
        Reason::FailedProof => "failed its proof on this machine".to_owned(),
        Reason::NeedsGlibc { needed, has } => {
            format!("needs glibc {needed}, but this machine has {has}")
        }
        Reason::LoaderTakesAnother { by, .. } => {
            format!(
                "shadowed by RPATH: {} searches elsewhere before LD_LIBRARY_PATH",
                title(by)
            )
        }
        Reason::Renamed => "renamed by its package: no other program finds it".to_owned(),
        Reason::Clash { with, why } => {
            format!("does not fit {}: {}", title(with), self::reason(why))
        }
        Reason::NeedsAbsent { name } => {
            format!("is linked against {}, for which nothing fits", show(name))
        }
        Reason::DeadEnd => "with it, no installation of another library fits".to_owned(),
        Reason::PassedOver => "belongs to a better set".to_owned(),
        Reason::LessPreferred { criterion } => format!("fits, but {}", words_for(*criterion).1),
    }
}

/// The reason why the picked installation was picked.
pub(super) fn decided_by(criterion: Criterion) -> &'static str {
    words_for(criterion).0
}

/// The words for the picked installation, and for one that fits but was not picked.
fn words_for(criterion: Criterion) -> (&'static str, &'static str) {
    match criterion {
        Criterion::Pinned => ("it is pinned", "another is pinned"),
        Criterion::OnlyOne => ("the only one that fits", "the loader takes another"),
        Criterion::Installed => ("it is installed", "is not installed"),
        Criterion::Private => ("no other user can change it", "another user can change it"),
        Criterion::KernelsOwn => (
            "it belongs to the kernel's driver",
            "does not belong to the kernel's driver",
        ),
        Criterion::LoaderTakesIt => ("the loader already takes it", "the loader takes another"),
        Criterion::NamedVersion => (
            "the program opens it by its version",
            "is not opened by its version",
        ),
        Criterion::CameWithTarget => ("it came with the program", "did not come with the program"),
        Criterion::Preferred => ("a preferred version", "another version is preferred"),
        Criterion::PreferredOrigin => ("its origin is preferred", "another origin is preferred"),
        Criterion::Sound => (
            "no known problem with the others",
            "has a known problem with the others",
        ),
        Criterion::MachineCode => (
            "it has machine code for the GPU",
            "has only PTX for the GPU",
        ),
        Criterion::Neighbours => (
            "in the directory of the others",
            "not in the directory of the others",
        ),
        Criterion::Recorded => (
            "the version that upstream tested with",
            "is not the version that upstream tested with",
        ),
        Criterion::NearestNewer => (
            "the next version after the one that upstream tested with",
            "is further from the version that upstream tested with",
        ),
        Criterion::Newest => ("the newest that fits", "is older"),
        Criterion::SearchOrder => ("the loader finds it first", "the loader finds it later"),
        Criterion::Path => ("the first by path", "comes later by path"),
    }
}

/// One line about all libraries that the program would use but that are not pinned.
pub fn left(unpinned: &[Unpinned], inventory: &Inventory) -> Option<String> {
    let said: Vec<&Unpinned> = unpinned.iter().filter(|one| one.must_be_said).collect();
    let (first, others) = said.split_first()?;
    let why = if inventory.is_without_gpu() {
        "no GPU is reachable, and "
    } else {
        ""
    };
    let more = if others.is_empty() {
        String::new()
    } else {
        format!("; and {} more", others.len())
    };
    Some(format!("{why}{}{more}", self::unpinned(first)))
}

/// `libcufft.so.11 is not pinned: no cuFFT here fits; the nearest one: is for CUDA 13, but torch is for CUDA 12`
pub(super) fn unpinned(unpinned: &Unpinned) -> String {
    let (family, why) = (display_name(&unpinned.family), reason(&unpinned.why));
    let what = match unpinned.names.as_slice() {
        [] => format!("{family} is"),
        [name] => format!("{} is", show(name)),
        names => format!("{} are", shown(names)),
    };
    format!("{what} not pinned: no {family} here fits; the nearest one: {why}")
}
