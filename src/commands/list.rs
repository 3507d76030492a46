//! `cudarun list`: every copy that is installed.

use std::ffi::OsStr;

use super::{Exit, Purpose, asked, family, look, machine, own_views, print, style, wanted};
use crate::cli::{Common, List, Wishes};
use crate::error::Error;
use crate::formats::elf;
use crate::host::Host;
use crate::inventory::{self, Scope};
use crate::report;
use crate::target::{self, Command};

pub fn list(host: Host, common: &Common, options: &List) -> Result<Exit, Error> {
    let host = machine(host, common)?;
    let machine = inventory::machine(&host).unwrap_or(elf::X86_64);
    let wanted = wanted(&host, common, &Wishes::default(), None, Purpose::Answer)?;
    let asked = asked(&host, common, &wanted.settings)?;
    let mut scope = Scope { machine, views: own_views(&host), elsewhere: true, ..asked };
    scope.also.extend(wanted.directories.iter().cloned());
    let python = options.python.clone().unwrap_or_else(|| OsStr::new("python3").to_owned());
    let families: Result<Vec<String>, Error> =
        options.families.iter().map(|word| family(word).map(str::to_owned)).collect();
    let families = families?;
    match target::environment(&host, &Command { program: python, arguments: Vec::new() }) {
        Ok(target) => {
            if options.python.is_some() && target.pip.is_none() {
                return Err(Error::NotPython { program: target.program });
            }
            scope.machine = target.machine;
            scope.site_packages = target.site_packages;
        }
        Err(error) if options.python.is_some() => return Err(error),
        // A machine without Python has no wheels.
        Err(_) => {}
    }
    scope.code = options.json || common.verbose > 0;
    scope.symbol_names = options.symbols;
    let inventory = look(&host, &scope);
    let style = style(&host, common.color, host.stdout_is_terminal());
    let is_wanted = |family: &String| families.is_empty() || families.contains(family);
    let found = inventory.copies.iter().any(|copy| is_wanted(&copy.family));
    if options.json {
        print(&report::json::inventory(inventory, &families))?;
    } else {
        print(&report::listed(&inventory, &families, options.all, common.verbose, style))?;
        // The process ends here, and all of it with it.
        std::mem::forget(inventory);
    }
    Ok(if found { Exit::Yes } else { Exit::No })
}
