//! `cudarun doctor`: whether GPU programs can work from here.

use super::{Exit, Purpose, asked, look, machine, own_views, print, style, wanted, wishes};
use crate::cli::{Common, Doctor, Wishes};
use crate::config::said;
use crate::doctor::{self, Subject};
use crate::error::Error;
use crate::formats::elf;
use crate::host::Host;
use crate::inventory::{self, Inventory, Scope};
use crate::report;
use crate::target::{self, Command};

pub fn doctor(host: Host, common: &Common, options: &Doctor) -> Result<Exit, Error> {
    let host = machine(host, common)?;
    let inventory = inventory(&host, common)?;
    let views = own_views(&host);
    let subject = Subject {
        host: &host,
        inventory: &inventory,
        views: &views,
        choice: wishes::choice(&host, common),
        vocabulary: wishes::vocabulary(),
    };
    let examination = doctor::examine(&subject);
    let style = style(&host, common.color, host.stdout_is_terminal());
    if options.json {
        print(&report::json::examination(&examination, &inventory))?;
    } else {
        print(&report::examination(&examination, &inventory, common.verbose, style))?;
    }
    Ok(if examination.has_error() { Exit::No } else { Exit::Yes })
}

/// What a program from here may come to: no environments of others, and those of the first Python of the PATH.
fn inventory(host: &Host, common: &Common) -> Result<Inventory, Error> {
    let machine = inventory::machine(host).unwrap_or(elf::X86_64);
    // What is wrong with settings hinders nothing here: it is among the findings.
    let wanted = wanted(host, common, &Wishes::default(), None, Purpose::Examine);
    let mut settings = wanted.map(|wanted| wanted.settings).unwrap_or_default();
    settings.add(said::options(common, &Wishes::default(), &wishes::vocabulary())?);
    let mut scope = Scope { machine, views: own_views(host), ..asked(host, common, &settings)? };
    let python = Command { program: "python3".into(), arguments: Vec::new() };
    if let Ok(target) = target::environment(host, &python) {
        scope.machine = target.machine;
        scope.site_packages = target.site_packages;
    }
    Ok(look(host, &scope))
}
