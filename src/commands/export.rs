//! `cudarun export PROGRAM …`: the environment that the program would get, for a shell to take.

use super::{Exit, command_of, consider, machine, print, style};
use crate::cli::{Common, Question};
use crate::error::Error;
use crate::host::Host;
use crate::report;
use crate::solve::Outcome;

pub fn export(host: Host, common: &Common, question: &Question) -> Result<Exit, Error> {
    let host = machine(host, common)?;
    let command = command_of(&question.words);
    let considered = consider(&host, common, &command, &question.uses)?;
    if let Outcome::Conflict(conflict) = &considered.outcome {
        if question.json {
            print(&report::json::refusal(conflict))?;
        } else {
            report::say(&report::conflict(
                conflict,
                &considered.target,
                style(&host, common.color, host.stderr_is_terminal()),
            ));
        }
        return Ok(Exit::No);
    }
    // Under --root the view is only named: nothing is written into another machine.
    let (diff, _) = considered.change(&host, &command, !host.is_rerooted())?;
    let shell = || diff.0.iter().map(report::shell_change).collect::<String>();
    print(&if question.json { report::json::environment(&diff) } else { shell() })?;
    Ok(Exit::Yes)
}
