//! The decision: what is installed and what is asked for become one compatible set, or the reasons why
//! there is none. Pure: no files, no environment, no clock. The same inputs give the same answer.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;

use serde::Serialize;

use crate::inventory::{Copy, Inventory, Origin};
use crate::range::Range;
use crate::target::{Asker, Before, Pin, Pip, Requirement, Target};
use crate::text;
use crate::version::{DriverVersion, Version};

mod constraints;
mod derived;
mod explain;
mod hints;
mod planned;
mod preference;
mod search;
mod slots;

use slots::Asked;

/// What the caller wants beyond what the program needs.
#[derive(Debug, Default)]
pub struct Policy {
    /// Directories whose children are views of our own: never an input.
    pub views: Vec<PathBuf>,
    /// Families for which search paths that come before `LD_LIBRARY_PATH` do not count, since a stronger mode will
    /// answer before them.
    pub released: BTreeSet<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The target asks for nothing that is here, or for nothing at all.
    Nothing {
        absent: Vec<Absent>,
        unpinned: Vec<Unpinned>,
    },
    Plan(Plan),
    Conflict(Conflict),
}

/// One compatible set and how the program will be made to take it.
#[derive(Debug, Serialize)]
pub struct Plan {
    pub picks: Vec<Pick>,
    /// Copies that were not picked, with the reason.
    pub rejected: Vec<Rejection>,
    pub absent: Vec<Absent>,
    /// What may be asked for and is left to the loader as it is.
    pub unpinned: Vec<Unpinned>,
    /// Names that the view stops from falling through to another copy.
    pub tombstones: Vec<String>,
    pub library_path: Vec<Kept>,
    pub preload: Vec<KeptPreload>,
    /// Whether the driver's libraries stand in the view, since the environment would give others or none.
    pub driver_in_view: bool,
}

#[derive(Clone, Debug, Serialize)]
pub struct Pick {
    pub copy: Copy,
    pub asked_by: Vec<Asker>,
    pub decided_by: Criterion,
}

impl Pick {
    /// Whether it stands for the libraries of its family with this number in their SONAME: another SONAME is another
    /// library, except in a family that has one copy whatever the number.
    pub fn is_of_soname(&self, number: Option<u32>) -> bool {
        self.copy.soname.is_none() || self.copy.soname == number
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct Rejection {
    pub copy: Summary,
    pub reason: Reason,
}

/// A copy, as far as a rejection has to name it.
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

/// Something that is asked for and that no copy here offers; the program starts all the same.
#[derive(Clone, Debug, Serialize)]
pub struct Absent {
    pub family: String,
    pub names: Vec<String>,
    pub asked_by: Vec<Asker>,
    /// Whether a framework silently goes without the GPU when it is missing.
    pub essential: bool,
}

/// Something that may be asked for, of which copies are here and none goes with the rest.
#[derive(Clone, Debug, Serialize)]
pub struct Unpinned {
    pub family: String,
    pub names: Vec<String>,
    /// What speaks against the copy that comes nearest.
    pub why: Reason,
    /// Whether search paths that come before `LD_LIBRARY_PATH` stand in the way.
    #[serde(skip)]
    pub is_led_astray: bool,
}

/// An element of `LD_LIBRARY_PATH`, and whether it stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Kept {
    #[serde(serialize_with = "text::path")]
    pub text: OsString,
    pub removed: Option<Removal>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeptPreload {
    #[serde(serialize_with = "text::path")]
    pub text: OsString,
    /// The family of which it is a foreign copy, when it is removed.
    pub removed: Option<String>,
}

/// Why an inherited element does not stay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "why", rename_all = "kebab-case")]
pub enum Removal {
    /// It means the current directory, whatever that is at the moment.
    Empty,
    /// A view of an earlier cudarun.
    OwnView,
    /// Libraries to link against, which fail at run time.
    Stubs,
    /// A driver library other than the one that fits the kernel's driver.
    OtherDriver { version: Option<Version>, kernel: DriverVersion },
}

/// The order of preference, strongest first. Each is a column of the comparison in `search`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Criterion {
    /// A person has named it.
    Pinned,
    /// Nothing else was possible.
    OnlyOne,
    /// It is the driver that the kernel runs, and not one that stands in for it.
    KernelsOwn,
    /// The loader takes it whatever we do.
    LoaderTakesIt,
    /// The target came with it.
    CameWithTarget,
    /// It stands where the other picks stand.
    Neighbours,
    /// It is the version that upstream tested with.
    Recorded,
    /// It is the next newer one.
    NearestNewer,
    Newest,
    Path,
}

/// Why a copy is not the one.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum Reason {
    /// It has no file of that name: another SONAME.
    OtherName {
        asked: String,
        has: Option<String>,
    },
    TooOld {
        needed: Version,
        by: String,
    },
    OtherMajor {
        needed: Version,
        by: String,
    },
    NotThatVersion {
        needed: Version,
        by: String,
    },
    /// A person has named another.
    NotThePinned {
        pin: Pin,
        by: String,
    },
    /// A person allows other versions.
    OutOfRange {
        range: Range,
        by: String,
    },
    /// A lock has recorded another file of this name.
    OtherBuild {
        file: String,
        by: String,
    },
    VersionUnknown {
        by: String,
    },
    LacksSymbols {
        count: usize,
        first: String,
        by: String,
    },
    Incomplete {
        missing: Vec<String>,
    },
    Mixed {
        file: String,
        version: Version,
    },
    Truncated {
        file: String,
    },
    Writable {
        #[serde(serialize_with = "text::path")]
        path: PathBuf,
    },
    OtherCuda {
        has: u32,
        needed: u32,
        by: String,
    },
    DriverTooOld {
        cuda: u32,
        floor: DriverVersion,
        driver: DriverVersion,
    },
    Stub,
    NotTheKernelsDriver {
        kernel: DriverVersion,
    },
    CompatNotNewer {
        kernel: DriverVersion,
    },
    CompatOtherBranch {
        kernel: DriverVersion,
        branches: Vec<u32>,
    },
    KnownBad {
        why: String,
    },
    NeedsGlibc {
        needed: Version,
        has: Version,
    },
    /// A requester's own search path comes before anything that we can set.
    LoaderTakesAnother {
        #[serde(serialize_with = "text::path")]
        directory: PathBuf,
        by: String,
    },
    /// Renamed by auditwheel: only its own package finds it.
    Renamed,
    Clash {
        with: String,
        why: Box<Reason>,
    },
    NeedsAbsent {
        name: String,
    },
    /// With it, another family could not be filled.
    DeadEnd,
    /// It would do; this criterion decided for another.
    LessPreferred {
        criterion: Criterion,
    },
}

/// No set is possible.
#[derive(Debug, Serialize)]
pub struct Conflict {
    pub unmet: Vec<Unmet>,
    pub hint: Option<Hint>,
}

/// A family for which nothing fits.
#[derive(Clone, Debug, Serialize)]
pub struct Unmet {
    pub family: String,
    pub requirements: Vec<Requirement>,
    pub candidates: Vec<Rejection>,
    /// The copies that are taken whatever we do, and that do not fit or exclude each other.
    pub forced: Vec<ForcedCopy>,
}

#[derive(Clone, Debug, Serialize)]
pub struct ForcedCopy {
    pub copy: Summary,
    pub rules: Vec<Before>,
    /// Those who search there first.
    pub by: Vec<String>,
}

/// What a person can do about a conflict.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "hint", rename_all = "kebab-case")]
pub enum Hint {
    /// Requirements in pip's own grammar; what is there already and broken must be told to go.
    Pip {
        pip: Pip,
        requirements: Vec<String>,
        reinstall: bool,
    },
    /// Wheels that were left behind and stand in the way.
    PipUninstall {
        pip: Pip,
        packages: Vec<String>,
    },
    /// Packages of Debian's package manager.
    Apt {
        packages: Vec<String>,
    },
    /// Where no package manager is known to have it.
    Install {
        libraries: Vec<Wanted>,
    },
    /// Where search paths that come before all else lead to what does not fit.
    Replace {
        #[serde(serialize_with = "text::paths")]
        directories: Vec<PathBuf>,
    },
    /// A file or directory that everybody can write to.
    MakePrivate {
        #[serde(serialize_with = "text::paths")]
        paths: Vec<PathBuf>,
    },
    UpdateDriver {
        floor: DriverVersion,
    },
    InstallDriver,
    /// What a person has named does not go with the rest.
    Unpin {
        families: Vec<String>,
    },
}

/// A library that would fit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Wanted {
    pub family: String,
    /// Its own major version, where that is what the SONAME says.
    pub major: Option<u32>,
    pub cuda: Option<u32>,
}

/// Decides.
pub fn solve(inventory: &Inventory, target: &Target, policy: &Policy) -> Outcome {
    let Asked { slots, absent, unpinned } = match slots::of(inventory, target, policy) {
        Ok(asked) => asked,
        Err(unmet) => return Outcome::Conflict(explain::conflict(unmet, inventory, target)),
    };
    if slots.iter().all(|slot| slot.family.name == "driver" && slot.is_implied) {
        let unpinned = unpinned.iter().filter_map(planned::unpinned).collect();
        return Outcome::Nothing { absent: planned::merged(absent), unpinned };
    }
    match search::best(slots, inventory, target, policy) {
        Ok(mut found) => {
            found.absent.extend(absent);
            found.unpinned.extend(unpinned);
            Outcome::Plan(planned::plan(found, inventory, target, policy))
        }
        Err(unmet) => Outcome::Conflict(explain::conflict(unmet, inventory, target)),
    }
}

impl Unmet {
    /// Whether search paths that come before `LD_LIBRARY_PATH` stand in the way.
    pub fn is_led_astray(&self) -> bool {
        !self.forced.is_empty() || self.candidates.iter().any(Rejection::is_led_astray)
    }
}

impl Outcome {
    /// The families for which search paths that come before `LD_LIBRARY_PATH` stand in the way.
    pub fn led_astray(&self) -> BTreeSet<String> {
        let unpinned = |unpinned: &[Unpinned]| -> BTreeSet<String> {
            unpinned.iter().filter(|it| it.is_led_astray).map(|it| it.family.clone()).collect()
        };
        match self {
            Outcome::Nothing { unpinned: left, .. } => unpinned(left),
            Outcome::Plan(plan) => unpinned(&plan.unpinned),
            Outcome::Conflict(conflict) => {
                let led = conflict.unmet.iter().filter(|unmet| unmet.is_led_astray());
                led.map(|unmet| unmet.family.clone()).collect()
            }
        }
    }
}

impl Reason {
    /// Of a clash with another pick, why they clash.
    pub fn deepest(&self) -> &Reason {
        match self {
            Reason::Clash { why, .. } => why.deepest(),
            other => other,
        }
    }
}

impl Summary {
    pub fn of(copy: &Copy) -> Summary {
        Summary {
            family: copy.family.clone(),
            soname: copy.soname,
            version: copy.version,
            cuda: copy.cuda,
            origin: copy.origin,
            directory: copy.directory.clone(),
        }
    }
}

impl Rejection {
    /// Whether it was ever meant: a copy of another SONAME, a stub or a renamed file was not.
    pub fn is_of_concern(&self) -> bool {
        !matches!(self.reason, Reason::OtherName { .. } | Reason::Renamed | Reason::Stub)
    }

    fn is_led_astray(&self) -> bool {
        matches!(self.reason.deepest(), Reason::LoaderTakesAnother { .. })
    }
}
