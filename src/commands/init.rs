//! `cudarun init [PROGRAM …]`: writes a `.cudarun.toml` with what the program was found to need. Overwrites nothing.

use super::{Exit, command_of, machine, print, refuse, say, settings_of};
use crate::catalog::knowledge;
use crate::cli::{Common, Init};
use crate::error::Error;
use crate::host::Host;
use crate::pipeline::Request;
use crate::report;
use crate::settings::PROJECT;
use crate::settings::resolve::Purpose;
use crate::solve::Outcome;
use crate::storage;
use crate::version::Version;

pub fn init(host: Host, common: &Common, options: &Init) -> Result<Exit, Error> {
    let host = machine(host, common)?;
    if options.words.is_empty() {
        return write(&host, common, options, &report::template(None));
    }
    let command = command_of(&options.words);
    let request = Request::new(
        &host,
        common,
        &options.library_options,
        Some(&command),
        Purpose::Answer,
    );
    let mut settings = settings_of(&request)?;
    let (facts, decision) = request.decision(&mut settings)?;
    if refuse(&facts, &decision, options.json, common)? {
        return Ok(Exit::No);
    }
    let outcome = &decision.outcome;
    let driver = oldest_driver(outcome);
    let found = (&facts.program, &facts.inventory, outcome, driver);
    let text = report::template(Some(found));
    write(&host, common, options, &text)
}

fn write(host: &Host, common: &Common, options: &Init, text: &str) -> Result<Exit, Error> {
    if options.print || !common.elsewhere().is_empty() {
        print(&if options.json {
            report::json::written(text, None)
        } else {
            text.to_owned()
        })?;
        return Ok(Exit::Yes);
    }
    let path = host.absolute(PROJECT.as_ref());
    storage::publish_new(&path, 0o666, text.as_bytes())
        .map_err(|error| Error::unwritten(&path, error))?;
    if options.json {
        print(&report::json::written(text, Some(&path)))?;
    } else if !common.quiet {
        say(&report::written(&path));
    }
    Ok(Exit::Yes)
}

/// The oldest driver that supports what was picked.
fn oldest_driver(outcome: &Outcome) -> Option<Version> {
    let Outcome::Plan(plan) = outcome else {
        return None;
    };
    let cuda = plan
        .picks
        .iter()
        .filter_map(|pick| pick.installation.cuda)
        .max()?;
    knowledge().driver_floor(cuda, None)
}
