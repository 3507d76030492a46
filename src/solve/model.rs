//! What a decision says: picks and rejections, what is missing, what stands against each other.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;

use serde::Serialize;

use super::hint::Hint;
use super::reason::Reason;
use super::{Broken, Caution, Contradiction};
use crate::inventory::{Installation, Member, Origin};
use crate::program::{Asker, Before, Requirement};
use crate::text;
use crate::version::{DriverVersion, Version};

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
    /// Installations that were not picked, with the reason.
    pub rejected: Vec<Rejection>,
    pub absent: Vec<Absent>,
    /// What may be asked for and is left to the loader as it is.
    pub unpinned: Vec<Unpinned>,
    /// What a person should know of it.
    pub cautions: Vec<Caution>,
    /// Names that the view stops from falling through to another installation.
    pub tombstones: Vec<String>,
    pub library_path: Vec<Kept>,
    pub preload: Vec<KeptPreload>,
    /// Whether the driver's libraries stand in the view, since the environment would give others or none.
    pub driver_in_view: bool,
}

#[derive(Clone, Debug, Serialize)]
pub struct Pick {
    pub installation: Installation,
    pub asked_by: Vec<Asker>,
    pub decided_by: Criterion,
    /// Versions of shims, other than its own version, by whose names its files are opened.
    pub shims: BTreeSet<Version>,
}

impl Pick {
    /// Every name that a file of it may be asked for by.
    pub fn view_names(&self, member: &Member) -> BTreeSet<String> {
        let versions = std::iter::once(self.installation.version).chain(self.shims.iter().copied().map(Some));
        versions.flat_map(|version| member.view_names(version)).collect()
    }

    /// Whether it stands for the libraries of its family with this number in their SONAME: another SONAME is another
    /// library, except in a family that has one installation whatever the number.
    pub fn is_of_soname(&self, number: Option<u32>) -> bool {
        self.installation.soname.is_none() || self.installation.soname == number
    }
}

#[derive(Clone, Debug, Serialize)]
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

/// Something that is asked for and that no installation here offers; the program starts all the same.
#[derive(Clone, Debug, Serialize)]
pub struct Absent {
    pub family: String,
    pub names: Vec<String>,
    pub asked_by: Vec<Asker>,
    /// Whether a framework silently goes without the GPU when it is missing.
    pub essential: bool,
}

/// Something that may be asked for, of which installations are here and none goes with the rest.
#[derive(Clone, Debug, Serialize)]
pub struct Unpinned {
    pub family: String,
    pub names: Vec<String>,
    /// What speaks against the installation that comes nearest.
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
    /// The family of which it is a foreign installation, when it is removed.
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
    /// No other user can change it, or it is as safe as the program.
    Private,
    /// It is the driver that the kernel runs, and not one that stands in for it.
    KernelsOwn,
    /// The loader takes it whatever we do.
    LoaderTakesIt,
    /// A person would rather have such a version.
    Preferred,
    /// A person would rather have one of this origin.
    PreferredOrigin,
    /// The target came with it.
    CameWithTarget,
    /// It is not known to be bad with the other picks.
    Sound,
    /// It has machine code where the other has only PTX.
    MachineCode,
    /// It stands where the other picks stand.
    Neighbours,
    /// It is the version that upstream tested with.
    Recorded,
    /// It is the next newer one.
    NearestNewer,
    Newest,
    /// The loader comes to its directory first.
    SearchOrder,
    Path,
}

/// No set is possible.
#[derive(Debug, Default, Serialize)]
pub struct Conflict {
    pub unmet: Vec<Unmet>,
    /// What the machine itself does not have.
    pub broken: Vec<Broken>,
    /// For each of these, the smallest part of what is asked that has no answer.
    pub contradictions: Vec<Contradiction>,
    pub hint: Option<Hint>,
    /// There are sets, but not as many as were to be passed over.
    pub is_exhausted: bool,
}

/// A family for which nothing fits.
#[derive(Clone, Debug, Serialize)]
pub struct Unmet {
    pub family: String,
    pub requirements: Vec<Requirement>,
    pub candidates: Vec<Rejection>,
    /// The installations that are taken whatever we do, and that do not fit or exclude each other.
    pub forced: Vec<ForcedCopy>,
}

#[derive(Clone, Debug, Serialize)]
pub struct ForcedCopy {
    pub installation: Summary,
    pub rules: Vec<Before>,
    /// Those who search there first.
    pub by: Vec<String>,
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
    /// Whether it was ever meant: an installation of another SONAME, a stub or a renamed file was not.
    pub fn is_of_concern(&self) -> bool {
        !matches!(self.reason, Reason::OtherName { .. } | Reason::Renamed | Reason::Stub)
    }

    pub(super) fn is_led_astray(&self) -> bool {
        matches!(self.reason.deepest(), Reason::LoaderTakesAnother { .. })
    }
}
