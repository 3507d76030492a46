//! `cudarun explain PROGRAM …`: what it needs, what was picked, and why. Starts nothing, writes nothing.

use super::{Exit, command_of, consider, machine, print, style};
use crate::cli::{Common, Question};
use crate::error::Error;
use crate::host::Host;
use crate::report;
use crate::solve::Outcome;
use crate::text::show;

pub fn explain(host: Host, common: &Common, question: &Question) -> Result<Exit, Error> {
    let host = machine(host, common)?;
    let command = command_of(&question.words);
    let considered = consider(&host, common, &command, &question.uses)?;
    let (diff, view) = considered.change(&host, &command, false)?;
    let (target, inventory, outcome) = (&considered.target, &considered.inventory, &considered.outcome);
    let style = style(&host, common.color, host.stdout_is_terminal());
    print(&if question.json {
        let view = view.map(|view| show(&view));
        report::json::explanation(target, inventory, outcome, &diff, view.as_deref())
    } else {
        report::explained(target, inventory, outcome, &diff, common.verbose, style)
    })?;
    Ok(if matches!(outcome, Outcome::Conflict(_)) { Exit::No } else { Exit::Yes })
}
