//! Scripts that shells evaluate, one for each shell. The hook's scripts start a process only after a change of directory within sight of a
//! project, and keep hooks and variables of others.
//!
//! The hook adds itself after the prompt functions of others (`PROMPT_COMMAND`, `precmd_functions`, `fish_prompt`), so
//! that it sees the environment that direnv or mise have made. It starts no process if the directory is unchanged or no
//! project is in sight; cudarun keeps its answer until a file that it read changes. `cudarun shell`: bash and zsh get
//! start-up files of cudarun, from its cache, that read the person's own (`--rcfile`, `BASH_ENV`, `ZDOTDIR`); fish gets
//! `--init-command`.

use crate::cli::Shell;

pub mod subshell;

/// Returns the output of `cudarun hook SHELL`, whose script passes its options to the process that it asks.
pub fn hook(shell: Shell, is_quiet: bool, follows: bool) -> String {
    let script = match shell {
        Shell::Bash => include_str!("hook.bash"),
        Shell::Zsh => include_str!("hook.zsh"),
        Shell::Fish => include_str!("hook.fish"),
    };
    let options = [(is_quiet, " --quiet"), (follows, " --follow")];
    let options = options.map(|(is_set, option)| if is_set { option } else { "" });
    script.replace("hook --check", &format!("hook{} --check", options.concat()))
}
