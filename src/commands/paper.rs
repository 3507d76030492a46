//! Answers as a page: HTML in a file, or Markdown on standard output. After a program that has it, on standard error.

use super::{print, say};
use crate::cli::{Common, Paper};
use crate::error::Error;
use crate::host::Host;
use crate::report::{self, Page};
use crate::storage;

/// Writes the page in the form that was asked for; false if none was.
pub(super) fn deliver(
    common: &Common,
    paper: &Paper,
    page: impl FnOnce() -> Page,
) -> Result<bool, Error> {
    written(common, paper, page, &print)
}

/// Like [`deliver`], after a program whose standard output is not ours.
pub(super) fn deliver_after(
    common: &Common,
    paper: &Paper,
    page: impl FnOnce() -> Page,
) -> Result<bool, Error> {
    written(common, paper, page, &|text| {
        report::say(&format!("\n{text}"));
        Ok(())
    })
}

fn written(
    common: &Common,
    paper: &Paper,
    page: impl FnOnce() -> Page,
    print: &dyn Fn(&str) -> Result<(), Error>,
) -> Result<bool, Error> {
    match &paper.html {
        _ if paper.markdown => print(&report::markdown(&page()))?,
        None => return Ok(false),
        Some(file) if file.as_os_str() == "-" => print(&report::html(&page()))?,
        Some(file) => {
            // The file is this machine's, whichever is looked at.
            let host = Host::here();
            let file = host.absolute(file);
            let text = report::html(&page());
            let written = storage::publish_again(&host, &file, report::PAGE_BEGIN, text.as_bytes());
            written.map_err(|error| Error::unwritten(&file, error))?;
            if !common.quiet {
                say(&report::page_written(&file));
            }
        }
    }
    Ok(true)
}
