//! The first help page, the colours of all, and the message about an argument that cannot be used.

use clap::builder::styling::{AnsiColor, Styles};

/// The colours of help texts.
pub(super) const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default())
    .error(AnsiColor::Red.on_default().bold());

pub(super) fn unusable(argument: &str, verb: &str) -> String {
    format!("the argument '{argument}' cannot be used with '{verb}'")
}

/// The page of `cudarun -h`.
pub(super) const PAGE: &str = "\
{about-with-newline}
{usage-heading} {usage}

Start here:
  doctor       Check whether GPU programs can run here, and how to fix it
  diagnose     Explain an error message: its cause here, and the cure
  explain      Show the requirements of a program, the picks, and the reasons
  list         Show every installation of every NVIDIA library
  advise       Choose releases of packages that work together here
  fleet        Show which machines can run a program, and how they differ
Run:
  run          Start a program (the same as without a verb)
  fetch        Download the libraries that a program lacks
  verify       Prove the set that a program would get, on this machine's GPUs
  trace        Start a program, and report which NVIDIA files it really mapped
Project:
  init         Write a .cudarun.toml with the requirements of a program
  allow        Let a project's .cudarun.toml set variables and directories
  record       Start a program and write what it mapped, for --locked
Shell:
  shell        Open a shell in which the environment of a program is set
  export       Print the environment that a program would get, as shell code
  hook         Print the shell hook, or make kernels and services use cudarun
  completions  Print the completions for a shell

Examples: cudarun python3 x.py; cudarun --build make; cudarun --root x.tar list

Options:
{options}{after-help}";
