//! Answers as a page: HTML in a file, or Markdown on standard output. After a program that has it, on standard error.

use super::{print, say};
use crate::cli::{Common, Paper};
use crate::error::Error;
use crate::host::Host;
use crate::report::{self, Page};
use crate::storage;

/// Writes the page in the form that was asked for; false if none was.
pub(super) fn deliver(common: &Common, paper: &Paper, page: impl FnOnce() -> Page) -> Result<bool, Error> {
    if paper.markdown {
        print(&report::markdown(&page()))?;
        return Ok(true);
    }
    written(common, paper, page)
}

/// Like [`deliver`], after a program whose standard output is not ours.
pub(super) fn deliver_after(
    common: &Common,
    paper: &Paper,
    page: impl FnOnce() -> Page,
) -> Result<bool, Error> {
    if paper.markdown {
        report::say(&format!("\n{}", report::markdown(&page())));
        return Ok(true);
    }
    written(common, paper, page)
}

fn written(common: &Common, paper: &Paper, page: impl FnOnce() -> Page) -> Result<bool, Error> {
    let Some(file) = &paper.html else { return Ok(false) };
    // The file is this machine's, whichever is looked at.
    let host = Host::here();
    let file = host.absolute(file);
    let written = storage::publish(&host, &file, report::html(&page()).as_bytes());
    written.map_err(|error| Error::Report { path: file.clone(), error })?;
    if !common.quiet {
        say(&report::page_written(&file));
    }
    Ok(true)
}
