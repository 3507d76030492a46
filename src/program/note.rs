//! What a person should know about how a program was read. Values; their sentences stand in `report/`.

use std::path::PathBuf;

use serde::Serialize;

use crate::text;

/// What a person should know about how this program was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "note", rename_all = "kebab-case")]
pub enum Note {
    /// No dynamic loader runs, so nothing can be pinned.
    Static {
        /// A library of NVIDIA's that it names all the same.
        names: Option<String>,
    },
    /// The kernel makes the loader ignore the environment.
    SecureExecution {
        why: &'static str,
        /// A library of NVIDIA's that it names.
        names: Option<String>,
    },
    /// Not a 64-bit program of a kind that NVIDIA's libraries exist for.
    ForeignMachine,
    /// Another C library, for which NVIDIA builds nothing.
    ForeignLoader {
        #[serde(serialize_with = "text::path")]
        loader: PathBuf,
        names: Option<String>,
    },
    /// It puts directories of its own before `LD_LIBRARY_PATH`.
    Packed {
        #[serde(flatten)]
        by: Packer,
    },
    /// A script for an interpreter that is not looked into.
    ScriptNotRead {
        #[serde(serialize_with = "text::path")]
        interpreter: PathBuf,
    },
    /// A program that starts another one, which is not to be known from its command line.
    StartsAnother,
    /// A program that starts another one on another machine, or under another root.
    Elsewhere,
    /// A program that starts another one in an environment that is not there yet, or not to be known.
    EnvironmentNotKnown { wrapper: String },
    /// A program that starts another one, and keeps from it what would be set.
    LosesEnvironment {
        wrapper: String,
        #[serde(flatten)]
        loss: EnvironmentLoss,
    },
    /// A Python script or module that could not be read.
    SourceNotRead {
        #[serde(serialize_with = "text::path")]
        file: PathBuf,
        why: String,
    },
    /// A shim of pyenv for a version that is not there.
    ShimNotResolved,
    /// A shim of mise.
    ShimOfMise,
    /// A framework that is imported and stands in no directory that is known to be searched.
    NotWhereItIsSought { module: String, by: String },
    /// It begins like a program and is none that can be read: cut short, perhaps.
    Malformed { why: String },
    /// A program that can be run but not read.
    NotReadable,
    /// Python whose site-packages were not found.
    NoSitePackages,
    /// A variable is set that changes what a framework asks for or where it looks.
    Moved { package: String, variable: String, does: String },
    /// A framework that is imported and built without CUDA: no library makes it use a GPU.
    CpuOnly {
        package: String,
        /// What tells so.
        #[serde(serialize_with = "text::path")]
        file: PathBuf,
    },
}

impl Note {
    /// Whether another program will start that is not looked into.
    pub fn hides_a_program(&self) -> bool {
        matches!(
            self,
            Note::ScriptNotRead { .. }
                | Note::StartsAnother
                | Note::ShimOfMise
                | Note::EnvironmentNotKnown { .. }
                | Note::LosesEnvironment { .. }
                | Note::Packed { by: Packer::AppImage }
        )
    }

    /// What must be said although nobody asked: the program starts, and cudarun can do nothing for it.
    pub fn must_be_said(&self) -> bool {
        match self {
            Note::Elsewhere | Note::NotWhereItIsSought { .. } | Note::ShimNotResolved | Note::NotReadable => {
                true
            }
            // What asks for nothing loses nothing.
            Note::SecureExecution { names, .. }
            | Note::Static { names }
            | Note::ForeignLoader { names, .. } => names.is_some(),
            Note::Packed { by: Packer::PyInstaller { libraries } } => !libraries.is_empty(),
            _ => false,
        }
    }
}

/// How a wrapper keeps from its program what cudarun sets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "why", rename_all = "kebab-case")]
pub enum EnvironmentLoss {
    /// The program runs with other rights, and the loader's variables are taken out.
    Rights,
    Clears,
    Sets {
        variable: &'static str,
    },
    Unsets {
        variable: &'static str,
    },
    /// A file of the environment that is activated says what a variable is.
    Script {
        #[serde(serialize_with = "text::path")]
        file: PathBuf,
    },
}

/// What packs a program together with its libraries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "by", rename_all = "lowercase")]
pub enum Packer {
    PyInstaller {
        /// Those of NVIDIA's that it carries.
        libraries: Vec<String>,
    },
    AppImage,
}
