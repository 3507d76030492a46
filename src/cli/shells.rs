//! Options of the verbs for shells.

use std::ffi::OsString;

use clap::{Args, ValueEnum};

#[derive(Args, Debug)]
pub struct Hook {
    /// The shell that evaluates it in its start-up file
    #[arg(value_name = "SHELL", required_unless_present = "check")]
    pub shell: Option<Shell>,
    /// In a project, whatever the shell starts gets its own libraries, without typing `cudarun`
    #[arg(long)]
    pub follow: bool,
    /// Called by the hook itself, with the answer that it got before
    #[arg(long, hide = true, value_name = "TOLD", conflicts_with = "shell")]
    pub check: Option<String>,
}

#[derive(Args, Debug)]
pub struct Completions {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
    /// The words of a line, which the script of the shell completes
    #[arg(last = true, hide = true)]
    pub line: Vec<OsString>,
}

/// Shells with a hook and completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}
