//! The hint of a conflict, as a value.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::inventory::Extension;
use crate::program::Pip;
use crate::requirements::Asker;
use crate::version::Version;

/// A remedy that the user can apply.
#[derive(Clone, Debug, PartialEq)]
pub enum Hint {
    /// Requirements in pip's own grammar. With `reinstall`, pip must replace broken wheels of the same version.
    Pip {
        pip: Pip,
        requirements: Vec<String>,
        reinstall: bool,
    },
    /// Wheels that were left behind and that the program loads instead of the right ones.
    PipUninstall {
        pip: Pip,
        packages: BTreeSet<String>,
    },
    /// Packages for `apt`.
    Apt { packages: BTreeSet<String> },
    /// Libraries to install, where no known package manager offers them.
    Install { libraries: Vec<Wanted> },
    /// Libraries to install in a directory, since search paths lead there first.
    Replace {
        libraries: Vec<Wanted>,
        directory: PathBuf,
    },
    /// Files or directories that every user can write to.
    MakePrivate { paths: BTreeSet<PathBuf> },
    /// Installations that another user can change: a user who trusts them can name them.
    Trust { directories: BTreeSet<PathBuf> },
    /// The driver is too old, or there is none.
    UpdateDriver { floor: Version, has_driver: bool },
    /// The driver's libraries are missing.
    InstallDriver,
    /// The user's own settings exclude a solution: those for these families, at this place.
    ChangeRequirement {
        families: BTreeSet<String>,
        by: Asker,
    },
    /// A framework has no code for the GPU; these builds of it have.
    OtherBuild {
        pip: Pip,
        requirement: String,
        by: Asker,
    },
    /// These extension modules do not fit their frameworks: other builds would.
    FittingBuilds {
        pip: Option<Pip>,
        unfit: Vec<Extension>,
    },
    /// These frameworks are built without CUDA.
    BuildsWithCuda { packages: BTreeSet<String> },
    /// Only these of the visible GPUs meet the requirements.
    ChooseGpus { uuids: Vec<String> },
    /// The program starts if it uses no GPU.
    HideGpus,
    /// The first, then the second.
    Both { steps: Box<[Hint; 2]> },
}

/// A library that would fit, to be installed.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    pub family: String,
    /// Its own major version, where the SONAME has that number.
    pub major: Option<u32>,
    pub cuda: Option<u32>,
    /// The oldest version that fits, where that is known.
    pub at_least: Option<Version>,
}
