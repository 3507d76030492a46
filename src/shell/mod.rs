//! Scripts that shells evaluate, one for each shell. The hook's scripts start a process only after a change of directory within sight of a
//! project, and keep hooks and variables of others.

use crate::cli::Shell;

pub mod subshell;

/// Returns the output of `cudarun hook SHELL`. A quiet hook passes `--quiet` to the process that it asks.
pub fn hook(shell: Shell, is_quiet: bool) -> String {
    let script = match shell {
        Shell::Bash => include_str!("hook.bash"),
        Shell::Zsh => include_str!("hook.zsh"),
        Shell::Fish => include_str!("hook.fish"),
    };
    script.replace(
        "hook --check",
        if is_quiet {
            "hook --quiet --check"
        } else {
            "hook --check"
        },
    )
}
