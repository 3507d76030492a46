//! `cudarun doctor`: whether GPU programs can work from here.

use super::Exit;
use crate::cli::{Common, Doctor};
use crate::error::Error;
use crate::host::Host;

pub fn doctor(_host: Host, _common: &Common, _options: &Doctor) -> Result<Exit, Error> {
    Ok(Exit::Unknown)
}
