//! `cudarun doctor`: tells if GPU programs can work from here.

use std::io::ErrorKind;
use std::path::Path;

use super::compare::compare;
use super::examined::{examine, programs};
use super::{Exit, machine, print, say};
use crate::cli::{Common, Doctor, Wishes};
use crate::error::Error;
use crate::host::Host;
use crate::inventory::{self, ScanCache, Scope};
use crate::machine::save;
use crate::pipeline::everywhere;
use crate::report::{self, Style};
use crate::settings::resolve::{Purpose, Settings};
use crate::storage;

pub fn doctor(host: Host, common: &Common, options: &Doctor) -> Result<Exit, Error> {
    if !options.compare.is_empty() {
        return compare(&host, common, options);
    }
    // The file is this machine's, whichever is looked at.
    let file = options.save.as_ref().map(|file| host.absolute(file));
    if let Some(file) = file.as_ref().filter(|file| host.lstat(file).is_ok()) {
        return Err(Error::Exists { path: file.clone() });
    }
    if let Some(file) = &file {
        storage::can_publish(&host, file).map_err(|error| Error::Report { path: file.clone(), error })?;
    }
    let host = machine(host, common)?;
    let (examination, inventory) = examine(&host, common)?;
    let programs = programs(&host, common, &options.words)?;
    let style = Style::stdout(common.color).of(&host);
    if options.json {
        print(&report::json::examination(&examination, &inventory, &programs))?;
    } else {
        let page = report::examination(&examination, &inventory, common.verbose, style);
        print(&style.page(&(page + &report::programs(&programs, style))))?;
    }
    if let Some(file) = &file {
        save(&host, common, file)?;
    }
    Ok(if examination.has_error() { Exit::No } else { Exit::Yes })
}

/// Scans a second time, as under `--root` and all that `list` would show, and writes a description of what was read.
fn save(host: &Host, common: &Common, file: &Path) -> Result<(), Error> {
    let unwritten = |error| Error::Report { path: file.to_owned(), error };
    let host = host.recording().map_err(unwritten)?;
    let (examination, _) = examine(&host, common)?;
    let settings = Settings::resolve(&host, common, &Wishes::default(), None, Purpose::Examine)?;
    let everywhere = everywhere(&settings, common, None).unwrap_or_default();
    inventory::scan(&host, &Scope { code: true, ..everywhere }, &mut ScanCache::default());
    let saved = save::describe(&host, &examination);
    storage::publish_new_whole(&host, file, saved.text.as_bytes()).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Error::Exists { path: file.to_owned() },
        _ => unwritten(error),
    })?;
    if !common.quiet {
        say(&report::saved(file, saved.files, &saved.lost));
    }
    Ok(())
}
