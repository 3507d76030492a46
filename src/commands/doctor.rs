//! `cudarun doctor`: whether GPU programs can work from here.

use std::io::ErrorKind;
use std::path::Path;

use super::progress::Looking;
use super::{Exit, Purpose, everywhere, look, machine, of_any_program, own_views, print, style, wanted};
use crate::cli::{Common, Doctor, Wishes};
use crate::doctor::{self, Examination, Subject};
use crate::error::Error;
use crate::host::Host;
use crate::inventory::{self, Inventory, Scope};
use crate::machine::save;
use crate::program::{self, Command};
use crate::report;
use crate::settings::{resolve, variables};
use crate::storage;

pub fn doctor(host: Host, common: &Common, options: &Doctor) -> Result<Exit, Error> {
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
    let style = style(&host, common.color, host.stdout_is_terminal());
    if options.json {
        print(&report::json::examination(&examination, &inventory))?;
    } else {
        print(&report::examination(&examination, &inventory, common.verbose, style))?;
    }
    if let Some(file) = &file {
        save(&host, common, file)?;
    }
    Ok(if examination.has_error() { Exit::No } else { Exit::Yes })
}

fn examine(host: &Host, common: &Common) -> Result<(Examination, Inventory), Error> {
    let inventory = inventory(host, common)?;
    let views = own_views(host);
    let subject = Subject {
        host,
        inventory: &inventory,
        views: &views,
        choice: resolve::choice(host, common),
        vocabulary: resolve::vocabulary(),
    };
    let examination = doctor::examine(&subject);
    Ok((examination, inventory))
}

/// What a program from here may come to: no environments of others, and those of the first Python of the PATH.
fn inventory(host: &Host, common: &Common) -> Result<Inventory, Error> {
    // What is wrong with settings hinders nothing here: it is among the findings.
    let wanted = wanted(host, common, &Wishes::default(), None, Purpose::Examine);
    let mut settings = wanted.map(|wanted| wanted.settings).unwrap_or_default();
    settings.add(variables::options(common, &Wishes::default(), &resolve::vocabulary())?);
    let mut scope = of_any_program(host, common, &settings)?;
    let python = Command { program: "python3".into(), arguments: Vec::new() };
    if let Ok(program) = program::environment(host, &python) {
        scope.machine = program.machine;
        scope.site_packages = program.site_packages;
    }
    let _shown = Looking::begin(host, common);
    Ok(look(host, &scope))
}

/// Looks a second time, as under `--root` and at all that `list` would show, and writes down what was seen.
fn save(host: &Host, common: &Common, file: &Path) -> Result<(), Error> {
    let unwritten = |error| Error::Report { path: file.to_owned(), error };
    let host = host.recording().map_err(unwritten)?;
    let (examination, _) = examine(&host, common)?;
    let everywhere = everywhere(&host, common, Purpose::Examine, None).unwrap_or_default();
    inventory::scan(&host, &Scope { code: true, ..everywhere }, &mut inventory::ScanCache::default());
    let saved = save::describe(&host, &examination);
    storage::publish_new_whole(&host, file, saved.text.as_bytes()).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Error::Exists { path: file.to_owned() },
        _ => unwritten(error),
    })?;
    if !common.quiet {
        report::say(&format!("cudarun: {}\n", report::saved(file, saved.files, &saved.lost)));
    }
    Ok(())
}
