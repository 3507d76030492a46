//! The output of `trace`: a file, or standard error.

use std::path::Path;

use crate::error::Error;
use crate::host::Host;
use crate::report;
use crate::storage::Delivery;

pub(super) struct Outlet<'o> {
    host: &'o Host,
    path: Option<&'o Path>,
    file: Option<Delivery>,
}

impl<'o> Outlet<'o> {
    pub(super) fn new(host: &'o Host, path: Option<&'o Path>) -> Outlet<'o> {
        Outlet { host, path, file: None }
    }

    /// Opens the file before the start: the report of a program that runs for hours must not be lost.
    pub(super) fn open(&mut self) -> Result<(), Error> {
        if let (Some(path), None) = (self.path, &self.file) {
            let path = self.host.absolute(path);
            self.file = Some(Delivery::open(&path).map_err(|error| Error::Report { path, error })?);
        }
        Ok(())
    }

    pub(super) fn deliver(&mut self, text: &str) -> Result<(), Error> {
        self.open()?;
        match (self.path, self.file.take()) {
            (Some(path), Some(file)) => {
                let path = self.host.absolute(path);
                file.write(text.as_bytes()).map_err(|error| Error::Report { path, error })
            }
            _ => {
                report::say(text);
                Ok(())
            }
        }
    }
}
