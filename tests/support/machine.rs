//! Machines as text: `tests/machines/*.toml` says which files there are, and `cudarun::machine` makes them.

use std::fs;
use std::ops::{Deref, DerefMut};
use std::path::Path;

/// One that is as it should be, or the test is wrong.
pub struct Machine(cudarun::machine::Machine);

impl Machine {
    /// The machine that `tests/machines/NAME.toml` describes.
    pub fn load(name: &str) -> Machine {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/machines/{name}.toml"));
        let text =
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Machine::describe(&text)
    }

    pub fn describe(text: &str) -> Machine {
        Machine(cudarun::machine::Machine::make(text).unwrap_or_else(|fault| panic!("{}", fault.0)))
    }
}

impl Deref for Machine {
    type Target = cudarun::machine::Machine;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Machine {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}
