//! Pin modes and levels of a proof, in the words of the command line and of settings.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// The way in which cudarun makes the loader take a plan. These comments are the help texts of `--pin-mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Add nothing
    #[default]
    #[value(alias = "clean")]
    None,
    /// A module in LD_AUDIT leads the loader to the picked libraries, in this process only: needs glibc 2.35 or newer
    Audit,
    /// A directory of links to the picked libraries, first in LD_LIBRARY_PATH, and LD_PRELOAD for those that the program's
    /// own search paths would find elsewhere
    #[value(alias = "preload")]
    View,
}

/// A row of the table of modes.
pub struct ModeTraits {
    pub has_view: bool,
    /// It wins against search paths of the program's own.
    pub forces: bool,
    /// The audit module answers for every name in the view. Otherwise the view is first in `LD_LIBRARY_PATH`.
    pub uses_module: bool,
    /// A program that changes `LD_LIBRARY_PATH` may undo it.
    pub depends_on_library_path: bool,
    pub words: &'static str,
}

impl Mode {
    /// All modes, the least intrusive first. They are tried in this order; where a program sets `LD_LIBRARY_PATH`, those that
    /// do not depend on it come before the others.
    pub fn all() -> &'static [Mode] {
        Mode::value_variants()
    }

    /// The table of modes. `PinQuestion::attempt` in `pin/` has the function of each.
    pub fn traits(self) -> ModeTraits {
        match self {
            Mode::None => ModeTraits {
                has_view: false,
                forces: false,
                uses_module: false,
                depends_on_library_path: true,
                words: "nothing is added to the environment",
            },
            Mode::Audit => ModeTraits {
                has_view: true,
                forces: true,
                uses_module: true,
                depends_on_library_path: false,
                words: "a module in LD_AUDIT redirects every pinned name, in this process only",
            },
            Mode::View => ModeTraits {
                has_view: true,
                forces: true,
                uses_module: false,
                depends_on_library_path: true,
                words: "a directory of links, first in LD_LIBRARY_PATH",
            },
        }
    }
}

/// How much a proof covers.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Every picked file loads, and no other file is loaded: needs no GPU
    Load,
    /// The driver, every visible GPU and cuDNN can be initialised
    Handle,
    /// A convolution gives the right result on every visible GPU
    #[default]
    Conv,
    /// The other picked libraries compute or make a handle, too
    Deep,
}
