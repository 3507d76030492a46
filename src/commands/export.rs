//! `cudarun export PROGRAM …`: the environment that the program would get, for a shell to take.

use super::{Exit, Purpose, command_of, consider, machine, print, say_notes, style, wanted};
use crate::cli::{Common, Export};
use crate::error::Error;
use crate::host::Host;
use crate::report;

pub fn export(host: Host, common: &Common, export: &Export) -> Result<Exit, Error> {
    let question = &export.question;
    let host = machine(host, common)?;
    let command = command_of(&question.words);
    let wanted = wanted(&host, common, &question.wishes, Some(&command), Purpose::Start)?;
    let host = &wanted.host;
    let considered = consider(&wanted, common, &command)?;
    if considered.refuse(question.json, style(host, common.color, host.stderr_is_terminal()))? {
        return Ok(Exit::No);
    }
    if !question.json && !common.quiet {
        say_notes(&considered);
    }
    // Under --root the view is only named: nothing is written into another machine.
    let (diff, _) = considered.change(host, !host.is_rerooted())?;
    let shell = || diff.0.iter().map(report::shell_change).collect::<String>();
    print(&if question.json { report::json::environment(&diff) } else { shell() })?;
    Ok(Exit::Yes)
}
