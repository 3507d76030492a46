//! `cudarun list`: every copy that is installed.

use std::ffi::OsStr;

use super::{Exit, machine, own_views, print, style};
use crate::cli::{Common, List};
use crate::error::Error;
use crate::formats::elf;
use crate::host::Host;
use crate::inventory::{self, Scope};
use crate::report;
use crate::target::{self, Command};

pub fn list(host: Host, common: &Common, options: &List) -> Result<Exit, Error> {
    let host = machine(host, common)?;
    let mut scope = Scope { machine: elf::X86_64, views: own_views(&host), ..Scope::default() };
    let python = options.python.clone().unwrap_or_else(|| OsStr::new("python3").to_owned());
    match target::read(&host, &Command { program: python, arguments: Vec::new() }, &[]) {
        Ok(target) => {
            scope.machine = target.machine;
            scope.site_packages = target.site_packages;
        }
        Err(error) if options.python.is_some() => return Err(error),
        // A machine without Python has no wheels.
        Err(_) => {}
    }
    scope.code = options.json || common.verbose > 0;
    let inventory = inventory::scan(&host, &scope);
    let style = style(&host, common.color, host.stdout_is_terminal());
    print(&if options.json {
        report::json::inventory(&inventory, &options.families)
    } else {
        report::listed(&inventory, &options.families, common.verbose, style)
    })?;
    let is_wanted = |family: &String| options.families.is_empty() || options.families.contains(family);
    let found = inventory.copies.iter().any(|copy| is_wanted(&copy.family));
    Ok(if found { Exit::Yes } else { Exit::No })
}
