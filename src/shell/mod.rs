//! What shells evaluate: one script a shell. They start a process only where the directory has changed and a project is in
//! sight, and change nothing of what others have set.

use crate::cli::Shell;

/// What `cudarun hook SHELL` prints; `options` go to the process that is asked.
pub fn hook(shell: Shell, is_quiet: bool) -> String {
    let script = match shell {
        Shell::Bash => include_str!("hook.bash"),
        Shell::Zsh => include_str!("hook.zsh"),
        Shell::Fish => include_str!("hook.fish"),
    };
    script.replace("hook --check", if is_quiet { "hook --quiet --check" } else { "hook --check" })
}
