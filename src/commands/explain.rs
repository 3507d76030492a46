//! `cudarun explain PROGRAM …`: what it needs, what was picked, and why. Starts nothing, writes nothing.

use super::{Exit, Purpose, command_of, consider_next, machine, print, style, wanted};
use crate::cli::{Common, Explain};
use crate::error::Error;
use crate::host::Host;
use crate::report;

pub fn explain(host: Host, common: &Common, explain: &Explain) -> Result<Exit, Error> {
    let question = &explain.question;
    let host = machine(host, common)?;
    let command = command_of(&question.words);
    let wanted = wanted(&host, common, &question.wishes, Some(&command), Purpose::Answer)?;
    let host = &wanted.host;
    let considered = consider_next(&wanted, common, &command, usize::from(explain.next))?;
    let (diff, places) = considered.change(host, false)?;
    let style = style(host, common.color, host.stdout_is_terminal());
    let before = considered.before(host);
    let explanation = report::Explanation {
        program: &considered.program,
        inventory: &considered.inventory,
        decision: &considered.decision,
        before: &before,
        diff: &diff,
        view: places.view.as_deref(),
        settings: &wanted.settings,
        remarks: &wanted.remarks,
    };
    print(&if question.json {
        report::json::explanation(&explanation)
    } else {
        report::explained(&explanation, common.verbose, style)
    })?;
    Ok(if considered.decision.is_refused() { Exit::No } else { Exit::Yes })
}
