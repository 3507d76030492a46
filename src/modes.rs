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
