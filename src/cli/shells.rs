//! Options of the verbs for shells, and for other programs that start programs.

use std::ffi::OsString;
use std::sync::LazyLock;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};

use super::help::unusable;

#[derive(Args, Debug)]
pub struct Hook {
    /// The shell that evaluates it in its start-up file; `jupyter` gets a kernel, `systemd` a drop-in of a service
    #[arg(
        value_name = "SHELL|jupyter|systemd",
        required_unless_present = "check"
    )]
    pub place: Option<HookPlace>,
    /// With jupyter, the Python of the kernel [default: python3]; with systemd, the service
    #[arg(value_name = "PYTHON|UNIT")]
    pub what: Option<OsString>,
    /// With a shell: in a project, whatever it starts gets its own libraries, without typing `cudarun`
    #[arg(long)]
    pub follow: bool,
    /// With jupyter: the name of the kernel [default: of the environment]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// With systemd: a service of your own, which `systemctl --user` starts
    #[arg(long)]
    pub user: bool,
    /// With jupyter and systemd: print the file instead of writing it
    #[arg(long)]
    pub print: bool,
    /// With jupyter and systemd: remove what was written; all kernels if none is named
    #[arg(long, conflicts_with = "print")]
    pub uninstall: bool,
    /// Called by the hook itself, with the answer that it got before
    #[arg(long, hide = true, value_name = "TOLD", conflicts_with = "place")]
    pub check: Option<String>,
}

impl Hook {
    /// What is wrong: an argument that cannot be used with this place, or one that is missing.
    pub(super) fn usage_error(&self) -> Option<String> {
        let place = self.place?;
        let is_shell = matches!(place, HookPlace::Shell(_));
        if place == HookPlace::Systemd && self.what.is_none() {
            return Some(
                "the following required arguments were not provided:\n  <UNIT>".to_owned(),
            );
        }
        let given = [
            ("--follow", self.follow, is_shell),
            ("--name", self.name.is_some(), place == HookPlace::Jupyter),
            ("--user", self.user, place == HookPlace::Systemd),
            ("--print", self.print, !is_shell),
            ("--uninstall", self.uninstall, !is_shell),
            ("PYTHON|UNIT", self.what.is_some(), !is_shell),
        ];
        let (idle, ..) = given
            .into_iter()
            .find(|(_, is_given, has_meaning)| *is_given && !has_meaning)?;
        let hook = format!("hook {}", place.to_possible_value()?.get_name());
        let instead = match idle {
            "--uninstall" => {
                format!(": remove the line with `cudarun {hook}` from the shell's start-up file")
            }
            _ => String::new(),
        };
        Some(unusable(idle, &hook) + &instead)
    }
}

/// What a hook is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookPlace {
    Shell(Shell),
    Jupyter,
    Systemd,
}

impl ValueEnum for HookPlace {
    fn value_variants<'a>() -> &'a [HookPlace] {
        static ALL: LazyLock<Vec<HookPlace>> = LazyLock::new(|| {
            let shells = Shell::value_variants().iter().copied();
            let shells = shells.map(HookPlace::Shell);
            shells
                .chain([HookPlace::Jupyter, HookPlace::Systemd])
                .collect()
        });
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            HookPlace::Shell(shell) => shell.to_possible_value(),
            HookPlace::Jupyter => Some(PossibleValue::new("jupyter")),
            HookPlace::Systemd => Some(PossibleValue::new("systemd")),
        }
    }
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
