//! `cudarun completions SHELL`: what `completions/` holds, for those who have the binary alone.

use super::{Exit, print};
use crate::cli::{Completions, Shell};
use crate::error::Error;

pub fn completions(options: &Completions) -> Result<Exit, Error> {
    print(match options.shell {
        Shell::Bash => include_str!("../../completions/cudarun.bash"),
        Shell::Zsh => include_str!("../../completions/_cudarun"),
        Shell::Fish => include_str!("../../completions/cudarun.fish"),
    })?;
    Ok(Exit::Yes)
}
