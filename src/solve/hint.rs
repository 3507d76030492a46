//! What a person can do, as a value.

use std::path::PathBuf;

use serde::Serialize;

use crate::program::{Asker, Pip};
use crate::text;
use crate::version::Version;

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
    /// An installation that another user can change: a person who trusts it can name it.
    Trust {
        #[serde(serialize_with = "text::paths")]
        directories: Vec<PathBuf>,
    },
    UpdateDriver {
        floor: Version,
    },
    InstallDriver,
    /// What a person has said does not go with the rest: of which families, and where.
    ChangeWish {
        families: Vec<String>,
        by: Asker,
    },
    /// A framework has no code for the GPU; these builds of it have.
    OtherBuild {
        pip: Pip,
        requirement: String,
    },
    /// Of several GPUs these are what is asked for.
    ChooseGpus {
        uuids: Vec<String>,
    },
}

/// A library that would fit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Wanted {
    pub family: String,
    /// Its own major version, where that is what the SONAME says.
    pub major: Option<u32>,
    pub cuda: Option<u32>,
    /// The oldest version that would do, where that is known.
    pub at_least: Option<Version>,
}
