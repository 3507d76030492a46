//! The results of a decision.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::hint::Hint;
use super::machine::Broken;
use super::reason::{Criterion, Reason};
use crate::catalog::{WheelFile, title};
use crate::formats::names;
use crate::inventory::{Installation, Member, Origin};
use crate::requirements::{Asker, Before, Demand, ImportCertainty, LibraryRequirement, Want};
use crate::text::{self, list, show, shown};
use crate::version::{ComputeCapability, CudaVersion, Version};

#[derive(Debug)]
pub enum Outcome {
    /// The program asks for nothing that is installed, or for nothing at all.
    Nothing {
        absent: Vec<Absent>,
        unpinned: Vec<Unpinned>,
    },
    /// One compatible set.
    Plan(Plan),
    /// No set is possible.
    Conflict(Conflict),
}

/// One compatible set and how the program will be made to take it.
#[derive(Debug)]
pub struct Plan {
    pub picks: Vec<Pick>,
    /// Installations that were not picked, with the reason.
    pub rejected: Vec<Rejection>,
    pub absent: Vec<Absent>,
    pub unpinned: Vec<Unpinned>,
    pub cautions: Vec<Caution>,
    /// Names that the view stops from falling through to another installation.
    pub tombstones: Vec<String>,
    pub library_path: Vec<PathElement>,
    pub preload: Vec<KeptPreload>,
    /// The view holds the driver's libraries, since the environment would give others or none.
    pub driver_in_view: bool,
}

#[derive(Clone, Debug)]
pub struct Pick {
    pub installation: Installation,
    pub asked_by: Vec<Asker>,
    pub decided_by: Criterion,
    /// It may be older than what packages were compiled with, or is older than they ask for: nothing else can be picked.
    pub is_older: bool,
    /// Versions of shims, other than its own version, by whose names its files are opened.
    pub shims: BTreeSet<Version>,
}

impl Pick {
    /// True if something that the program surely imports asks for it.
    pub fn is_imported(&self) -> bool {
        self.asked_by
            .iter()
            .any(|asker| asker.certainty == ImportCertainty::Imported)
    }

    /// Every name by which the program may ask for a file of this installation.
    pub fn view_names(&self, member: &Member) -> BTreeSet<String> {
        std::iter::once(self.installation.version)
            .chain(self.shims.iter().copied().map(Some))
            .flat_map(|version| member.view_names(version))
            .collect()
    }

    /// True if the pick answers for libraries of its family with this number in their SONAME. Another SONAME is another
    /// library, except in a family that has one installation whatever the number.
    pub fn is_of_soname(&self, number: Option<u32>) -> bool {
        self.installation.soname.is_none() || self.installation.soname == number
    }
}

#[derive(Clone, Debug)]
pub struct Rejection {
    pub installation: Summary,
    pub reason: Reason,
}

/// An installation, as far as a rejection has to name it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    pub family: String,
    pub soname: Option<u32>,
    pub version: Option<Version>,
    pub cuda: Option<u32>,
    pub origin: Origin,
    #[serde(serialize_with = "text::path")]
    pub directory: PathBuf,
}

/// Names that the program asks for and that no installation offers; the program starts all the same.
#[derive(Clone, Debug, Serialize)]
pub struct Absent {
    pub family: String,
    pub names: Vec<String>,
    pub asked_by: Vec<Asker>,
    /// A framework silently goes without the GPU when it is missing.
    pub essential: bool,
}

impl Absent {
    /// True if a package that the program imports asks for it, and not only one that it perhaps imports.
    pub fn is_certain(&self) -> bool {
        self.asked_by
            .iter()
            .any(|asker| asker.certainty == ImportCertainty::Imported)
    }

    /// True if the program's source names it, or if a framework goes without the GPU when it is missing. What a package may
    /// load and works without is no reason to fetch.
    fn is_wanted(&self) -> bool {
        self.essential || self.asked_by.iter().any(|asker| asker.line.is_some())
    }

    /// True if an object that every user of a framework maps is linked against it. What a framework opens is asked for by its
    /// directory.
    pub fn is_linked(&self) -> bool {
        self.essential
            && self.asked_by.iter().any(|asker| {
                let name = asker.file.file_name().and_then(OsStr::to_str);
                name.is_some_and(|name| names::split(name).is_some())
            })
    }
}

/// Names that the program may ask for and that are left to the loader: installations offer them, and none fits the
/// other picks.
#[derive(Clone, Debug)]
pub struct Unpinned {
    pub family: String,
    pub names: Vec<String>,
    /// The reason against the installation that comes nearest.
    pub why: Reason,
    /// Search paths that come before `LD_LIBRARY_PATH` prevent a pick.
    pub is_shadowed_by_rpath: bool,
    /// A package that the program imports asks for it, and the program does not hide the GPUs.
    pub must_be_said: bool,
}

/// An element of `LD_LIBRARY_PATH`; it stays unless `removed` gives a reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathElement {
    pub text: OsString,
    pub removed: Option<Removal>,
}

/// An element of `LD_PRELOAD`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptPreload {
    pub text: OsString,
    /// The family of which it is a foreign installation, when it is removed.
    pub removed: Option<String>,
}

/// Why an inherited element is removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Removal {
    #[error("an empty element means the current directory")]
    Empty,
    #[error("an earlier view of cudarun")]
    OwnView,
    #[error("contains stubs, which fail at run time")]
    Stubs,
    #[error("its libcuda is {}", other_driver(*.version, *.kernel))]
    OtherDriver {
        version: Option<Version>,
        kernel: Version,
    },
}

/// A known trouble of a set that is sound.
#[derive(Clone, Debug, PartialEq, Serialize, thiserror::Error)]
#[serde(tag = "caution", rename_all = "kebab-case")]
pub enum Caution {
    #[error("{} has no code for compute capability {gpu}: its own kernels fail on that GPU", title(.of))]
    NoCode { of: String, gpu: ComputeCapability },
    #[error("{} has no machine code for compute capability {gpu}: the driver compiles its PTX, so the first start is slow", title(.of))]
    OnlyPtx { of: String, gpu: ComputeCapability },
    #[error("{} has only PTX for compute capability {gpu}; the driver cannot compile PTX that is newer than CUDA {driver}", title(.of))]
    OnlyPtxAndOlderDriver {
        of: String,
        gpu: ComputeCapability,
        driver: CudaVersion,
    },
    /// Since which CUDA, and up to which, an NVRTC compiles for this GPU.
    #[error("{} cannot compile for compute capability {gpu}, but NVRTC of CUDA {}", title(.of), other_compiler(.cuda, .by.as_deref()))]
    CannotCompile {
        of: String,
        gpu: ComputeCapability,
        cuda: Vec<CudaVersion>,
        /// The framework that brought it, so that only another build of the framework helps.
        by: Option<String>,
    },
    #[error("known problem of {}: {}; {} is known to work", list(.of.iter().map(|of| title(of))), show(.effect), show(.remedy))]
    Combination {
        of: Vec<String>,
        effect: String,
        remedy: String,
    },
    #[error("no GPU is reachable, and {} is pinned although it is older than {}, for which {} was compiled: files of two \
             versions would fail", title(.of), .needed.truncated(2), title(.by))]
    Older {
        of: String,
        needed: Version,
        by: String,
    },
    /// It is older than a package's metadata allows, as pip's pins of another package made it.
    #[error("{} is older than {}, which {} asks for: parts of that may fail", title(.of), .needed.truncated(2), title(.by))]
    BelowDeclared {
        of: String,
        needed: Version,
        by: String,
    },
    /// A package looks these functions up when it calls them.
    #[error("{} {lack}: such a call ends the program", title(.of))]
    LacksCalled { of: String, lack: Reason },
    #[error("{} has no code for the GPU of this machine: {}", title(.by), shown(.gpus))]
    Unserved { by: String, gpus: Vec<String> },
    #[error("{} has no code for {} (compute capability {capability})", title(.by), show(.gpu))]
    LeavesOut {
        gpu: String,
        capability: ComputeCapability,
        by: String,
    },
}

fn other_driver(version: Option<Version>, kernel: Version) -> String {
    match version {
        Some(version) => format!("{version}, but the kernel runs driver {kernel}"),
        None => format!("not from the kernel driver {kernel}"),
    }
}

fn other_compiler(cuda: &[CudaVersion], by: Option<&str>) -> String {
    let range = match cuda {
        [since, last] => format!("{since} to {last}"),
        _ => format!("{} or newer", list(cuda)),
    };
    match by.and_then(|by| by.split(' ').next()) {
        Some(by) => format!(
            "{range} can: install a build of {} for such a CUDA version",
            title(by)
        ),
        None => format!("{range} can: use that NVRTC"),
    }
}

impl Caution {
    /// True if every start reports it: results may be wrong, or the GPU of no use.
    pub fn must_be_said(&self) -> bool {
        matches!(
            self,
            Caution::Combination { .. }
                | Caution::Unserved { .. }
                | Caution::Older { .. }
                | Caution::BelowDeclared { .. }
                | Caution::LacksCalled { .. }
        )
    }
}

/// No set is possible.
#[derive(Debug, Default)]
pub struct Conflict {
    pub unmet: Vec<Unmet>,
    /// Conditions that the machine itself does not meet.
    pub broken: Vec<Broken>,
    /// For each of these, the smallest set of requirements that has no solution.
    pub contradictions: Vec<Contradiction>,
    pub hint: Option<Hint>,
    /// Wheels with which there is a set, for `cudarun fetch`.
    pub to_fetch: Vec<MissingWheel>,
}

/// A wheel to get, and what asks for it.
#[derive(Clone, Debug, PartialEq)]
pub struct MissingWheel {
    /// `nvidia-cudnn-cu12`
    pub distribution: String,
    pub version: Version,
    /// The name of the file.
    pub file: String,
    /// Bytes of the file.
    pub size: u64,
    /// In hexadecimal digits.
    pub sha256: String,
    /// The hash of the wheel into whose directory it is unpacked: for a part of a toolkit, that of nvcc.
    pub entry: String,
    /// The tags of the file name, `manylinux_2_27_x86_64`.
    pub platform: String,
    /// The directory that holds its libraries, relative to site-packages.
    pub directory: String,
    /// The names that are asked for, `libcudnn.so.9`.
    pub names: BTreeSet<String>,
    pub asked_by: Vec<Asker>,
}

impl MissingWheel {
    pub fn new(distribution: &str, directory: &str, file: &WheelFile) -> MissingWheel {
        MissingWheel {
            distribution: distribution.to_owned(),
            version: file.version,
            file: file.file_name(distribution),
            size: file.size,
            sha256: file.sha256.clone(),
            entry: file.sha256.clone(),
            platform: file.platform.clone(),
            directory: directory.to_owned(),
            names: BTreeSet::new(),
            asked_by: Vec::new(),
        }
    }
}

/// A family for which nothing fits.
#[derive(Clone, Debug)]
pub struct Unmet {
    pub family: String,
    pub requirements: Vec<LibraryRequirement>,
    pub candidates: Vec<Rejection>,
    /// The installations that the loader takes whatever we set, and that do not fit or exclude each other.
    pub forced: Vec<ForcedCopy>,
}

/// An installation that search paths force on the program.
#[derive(Clone, Debug, Serialize)]
pub struct ForcedCopy {
    pub installation: Summary,
    pub rules: BTreeSet<Before>,
    /// The requesters whose search paths lead there.
    pub by: BTreeSet<String>,
}

/// Requirements that exclude each other, given what is installed.
#[derive(Clone, Debug, Serialize)]
pub struct Contradiction {
    pub members: Vec<ContradictionSide>,
}

/// One side of a contradiction.
#[derive(Clone, Debug, Serialize)]
pub struct ContradictionSide {
    pub by: Asker,
    /// None where it is about the machine or all libraries.
    pub family: Option<String>,
    pub wants: Vec<Want>,
    pub demand: Option<Demand>,
}

impl Plan {
    pub fn pick_of(&self, family: &str) -> Option<&Pick> {
        self.picks
            .iter()
            .find(|pick| pick.installation.family == family)
    }

    /// The CUDA major that all picks share.
    pub fn cuda(&self) -> Option<u32> {
        let mut majors = self.picks.iter().filter_map(|pick| pick.installation.cuda);
        let first = majors.next()?;
        majors.all(|major| major == first).then_some(first)
    }
}

impl Outcome {
    pub fn plan(&self) -> Option<&Plan> {
        match self {
            Outcome::Plan(plan) => Some(plan),
            _ => None,
        }
    }

    /// What the program may load and would not find.
    pub fn absent(&self) -> &[Absent] {
        match self {
            Outcome::Nothing { absent, .. } => absent,
            Outcome::Plan(plan) => &plan.absent,
            Outcome::Conflict(_) => &[],
        }
    }

    /// Those of the absent libraries that the program is to get if wheels of them fit.
    pub fn wanted(&self) -> impl Iterator<Item = &Absent> {
        self.absent().iter().filter(|absent| absent.is_wanted())
    }

    /// True if a package asks for a newer library than a pick.
    pub fn asks_for_newer(&self) -> bool {
        self.plan().is_some_and(|plan| {
            let mut cautions = plan.cautions.iter();
            cautions.any(|caution| {
                matches!(
                    caution,
                    Caution::BelowDeclared { .. } | Caution::LacksCalled { .. }
                )
            })
        })
    }

    /// True if a picked installation is in this directory.
    pub fn picks_in(&self, directory: &Path) -> bool {
        let Outcome::Plan(plan) = self else {
            return false;
        };
        plan.picks
            .iter()
            .any(|pick| pick.installation.is_in(directory))
    }

    pub fn unpinned(&self) -> &[Unpinned] {
        match self {
            Outcome::Nothing { unpinned, .. } => unpinned,
            Outcome::Plan(plan) => &plan.unpinned,
            Outcome::Conflict(_) => &[],
        }
    }

    /// The families for which search paths that come before `LD_LIBRARY_PATH` prevent a pick.
    pub fn shadowed_by_rpath(&self) -> BTreeSet<String> {
        if let Outcome::Conflict(conflict) = self {
            return conflict
                .unmet
                .iter()
                .filter(|unmet| unmet.is_shadowed_by_rpath())
                .map(|unmet| unmet.family.clone())
                .collect();
        }
        let mut families: BTreeSet<String> = self
            .unpinned()
            .iter()
            .filter(|unpinned| unpinned.is_shadowed_by_rpath)
            .map(|unpinned| unpinned.family.clone())
            .collect();
        if let Outcome::Plan(plan) = self {
            for pick in plan.picks.iter().filter(|pick| pick.is_older) {
                let family = &pick.installation.family;
                if plan
                    .rejected
                    .iter()
                    .any(|one| one.is_shadowed_by_rpath() && one.installation.family == *family)
                {
                    families.insert(family.clone());
                }
            }
        }
        families
    }
}

impl Unmet {
    /// True if search paths that come before `LD_LIBRARY_PATH` prevent a pick.
    pub fn is_shadowed_by_rpath(&self) -> bool {
        !self.forced.is_empty() || self.candidates.iter().any(Rejection::is_shadowed_by_rpath)
    }
}

impl Summary {
    pub fn of(installation: &Installation) -> Summary {
        Summary {
            family: installation.family.clone(),
            soname: installation.soname,
            version: installation.version,
            cuda: installation.cuda,
            origin: installation.origin,
            directory: installation.directory.clone(),
        }
    }
}

impl Rejection {
    pub(super) fn new(installation: &Installation, reason: Reason) -> Rejection {
        Rejection {
            installation: Summary::of(installation),
            reason,
        }
    }

    /// True if the installation could have been meant: one of another SONAME, a stub or a renamed file could not.
    pub fn is_of_concern(&self) -> bool {
        !matches!(
            self.reason,
            Reason::OtherName { .. } | Reason::Renamed | Reason::Stub
        )
    }

    /// True if the program could map the installation although it does not fit. One that the loader cannot map is as good as
    /// absent.
    pub(super) fn is_obstacle(&self) -> bool {
        let is_unloadable = match &self.reason {
            Reason::Clash { why, .. } => matches!(**why, Reason::LacksSymbols { .. }),
            reason => matches!(
                reason,
                Reason::NeedsAbsent { .. } | Reason::Truncated { .. } | Reason::NeedsGlibc { .. }
            ),
        };
        self.is_of_concern() && !is_unloadable
    }

    pub(super) fn is_shadowed_by_rpath(&self) -> bool {
        matches!(self.reason.deepest(), Reason::LoaderTakesAnother { .. })
    }
}
