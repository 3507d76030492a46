//! The output of `trace`: a file, or standard error.

use std::path::PathBuf;

use crate::error::Error;
use crate::report;
use crate::storage::Delivery;

pub(super) struct Outlet {
    /// Absolute; `None` for standard error.
    pub path: Option<PathBuf>,
    pub file: Option<Delivery>,
}

impl Outlet {
    /// Opens the file before the start: the report of a program that runs for hours must not be lost.
    pub(super) fn open(&mut self) -> Result<(), Error> {
        if let (Some(path), None) = (&self.path, &self.file) {
            let opened = Delivery::open(path);
            self.file = Some(opened.map_err(|error| Error::Report {
                path: path.clone(),
                error,
            })?);
        }
        Ok(())
    }

    pub(super) fn deliver(&mut self, text: &str) -> Result<(), Error> {
        self.open()?;
        let (Some(path), Some(file)) = (&self.path, self.file.take()) else {
            report::say(text);
            return Ok(());
        };
        file.write(text.as_bytes()).map_err(|error| Error::Report {
            path: path.clone(),
            error,
        })
    }
}
