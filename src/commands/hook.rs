//! `cudarun hook SHELL`: what a shell evaluates, and what that asks on entering a project.

use super::Exit;
use crate::cli::{Common, Hook};
use crate::error::Error;
use crate::host::Host;

pub fn hook(_host: &Host, _common: &Common, _options: &Hook) -> Result<Exit, Error> {
    Ok(Exit::Unknown)
}
