//! Remarks about how a program was read. Values; `report/` has their sentences.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::TypedReason;
use crate::text;

/// A remark for the user about how the program was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "note", rename_all = "kebab-case")]
pub enum Note {
    /// No dynamic loader runs, so nothing can be pinned.
    Static {
        /// One of NVIDIA's libraries that it names.
        names: Option<String>,
    },
    /// The kernel makes the loader ignore the environment.
    SecureExecution {
        why: &'static str,
        /// One of NVIDIA's libraries that it names.
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
    /// A script for an interpreter whose language is not read.
    ScriptNotRead {
        #[serde(serialize_with = "text::path")]
        interpreter: PathBuf,
    },
    /// A program that starts another one, which its command line does not tell.
    StartsAnother,
    /// Python source that calls other programs, and imports no package that uses a GPU.
    MayStartAnother,
    /// It opens a library in this directory by path in a namespace of its own. glibc does not ask an audit module about
    /// that.
    Namespace {
        #[serde(serialize_with = "text::path")]
        directory: PathBuf,
    },
    /// A program that starts another one on another machine, or under another root.
    Elsewhere,
    /// A program that starts another one in an environment that does not exist yet, or is not known.
    EnvironmentNotKnown { wrapper: String },
    /// A program that starts another one, and keeps the environment of cudarun from it.
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
        is_absent: bool,
    },
    /// A shim of pyenv for a version that is not installed.
    ShimNotResolved,
    /// A shim of mise.
    ShimOfMise,
    /// A framework that is imported, but is in no known directory of the search path.
    NotWhereItIsSought { module: String, by: String },
    /// A damaged executable, perhaps cut short.
    Malformed { why: String },
    /// A program that can be run but not read.
    NotReadable,
    /// Python whose site-packages were not found.
    NoSitePackages,
    /// A variable is set that changes what a framework asks for or where it looks.
    Moved {
        package: String,
        variable: String,
        does: String,
    },
    /// A framework that is imported and built without CUDA: no library makes it use a GPU.
    CpuOnly {
        package: String,
        /// The file that tells so.
        #[serde(serialize_with = "text::path")]
        file: PathBuf,
    },
    /// A framework that is imported and crashes where there is no GPU, if it finds its libraries.
    CrashesWithoutGpu { package: String },
}

impl Note {
    /// True if the program that it hides is found once it starts.
    pub fn is_mended_by_following(&self) -> bool {
        match self {
            Note::ScriptNotRead { .. }
            | Note::StartsAnother
            | Note::ShimOfMise
            | Note::EnvironmentNotKnown { .. }
            | Note::MayStartAnother => true,
            Note::LosesEnvironment { loss, .. } => {
                !matches!(loss, EnvironmentLoss::Rights | EnvironmentLoss::Clears)
            }
            _ => false,
        }
    }

    /// True if another program will start that was not read.
    pub fn hides_a_program(&self) -> bool {
        matches!(
            self,
            Note::ScriptNotRead { .. }
                | Note::StartsAnother
                | Note::ShimOfMise
                | Note::EnvironmentNotKnown { .. }
                | Note::LosesEnvironment { .. }
                | Note::Packed {
                    by: Packer::AppImage
                }
        )
    }

    /// True if the program starts, and cannot use a GPU, whatever cudarun does.
    pub fn keeps_from_gpu(&self) -> bool {
        let is_such = matches!(
            self,
            Note::NotWhereItIsSought { .. } | Note::ForeignLoader { .. }
        );
        is_such && self.must_be_said()
    }

    /// True if the note is printed without `-v`: the program starts, and cudarun can do nothing for it.
    pub fn must_be_said(&self) -> bool {
        match self {
            Note::Elsewhere
            | Note::NotWhereItIsSought { .. }
            | Note::ShimNotResolved
            | Note::NotReadable
            | Note::CrashesWithoutGpu { .. } => true,
            // A program that names no library needs none.
            Note::SecureExecution { names, .. }
            | Note::Static { names }
            | Note::ForeignLoader { names, .. } => names.is_some(),
            Note::Packed {
                by: Packer::PyInstaller { libraries },
            } => !libraries.is_empty(),
            _ => false,
        }
    }
}

/// The way in which a wrapper keeps the environment of cudarun from its program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "why", rename_all = "kebab-case")]
pub enum EnvironmentLoss {
    /// The program runs with other rights, so the loader's variables are dropped.
    Rights,
    /// It runs as another user, who cannot read what cudarun makes.
    User,
    Clears,
    Sets {
        variable: &'static str,
    },
    Unsets {
        variable: &'static str,
    },
}

/// A tool that packs a program together with its libraries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "by", rename_all = "lowercase")]
pub enum Packer {
    PyInstaller {
        /// NVIDIA's libraries in the package.
        libraries: Vec<String>,
    },
    AppImage,
}

/// Nothing can be pinned for a program.
#[derive(Debug)]
pub struct NotPinnable {
    pub note: Note,
    pub program: PathBuf,
}

impl NotPinnable {
    pub fn boxed(note: &Note, program: &Path) -> Box<dyn TypedReason> {
        Box::new(NotPinnable {
            note: note.clone(),
            program: program.to_owned(),
        })
    }
}
