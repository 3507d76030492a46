//! `cudarun init [PROGRAM …]`: a `.cudarun.toml` that says what was found that a program needs. Writes over nothing.

use super::{Considered, Exit, Purpose, Stages, command_of, consider, machine, print, style, wanted};
use crate::catalog::knowledge;
use crate::cli::{Common, Init};
use crate::error::Error;
use crate::host::Host;
use crate::report;
use crate::settings::PROJECT;
use crate::solve::Outcome;
use crate::storage;
use crate::version::DriverVersion;

pub fn init(host: Host, common: &Common, options: &Init) -> Result<Exit, Error> {
    let host = machine(host, common)?;
    let text = if options.words.is_empty() {
        report::template(None)
    } else {
        let command = command_of(&options.words);
        let wanted = wanted(&host, common, &options.wishes, Some(&command), Purpose::Answer)?;
        let considered = consider(&wanted, common, &command)?;
        if considered.refuse(false, style(&host, common.color, host.stderr_is_terminal()))? {
            return Ok(Exit::No);
        }
        let Considered { decision, stages } = &considered;
        let Stages { program, inventory, .. } = stages;
        report::template(Some((program, inventory, &decision.outcome, floor(&decision.outcome))))
    };
    if options.print || common.elsewhere().is_some() {
        print(&text)?;
        return Ok(Exit::Yes);
    }
    let path = host.absolute(PROJECT.as_ref());
    storage::publish_new(&path, text.as_bytes()).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => Error::Exists { path: path.clone() },
        _ => Error::Report { path: path.clone(), error },
    })?;
    if !common.quiet {
        report::say(&format!("cudarun: {}\n", report::written(&path)));
    }
    Ok(Exit::Yes)
}

/// The oldest driver for what was picked.
fn floor(outcome: &Outcome) -> Option<DriverVersion> {
    let Outcome::Plan(plan) = outcome else { return None };
    let cuda = plan.picks.iter().filter_map(|pick| pick.installation.cuda).max()?;
    knowledge().driver_floor(cuda, None)
}
