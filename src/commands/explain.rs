//! `cudarun explain PROGRAM …`: what the program needs, what was picked, and why. Starts nothing, writes nothing.

use super::{Exit, command_of, deliver, machine, print, settings_of};
use crate::cli::{Common, Explain};
use crate::error::Error;
use crate::host::Host;
use crate::pin::Decision;
use crate::pipeline::{self, Request, StartFacts};
use crate::report::{self, Style};
use crate::settings::resolve::Purpose;

pub fn explain(host: Host, common: &Common, explain: &Explain) -> Result<Exit, Error> {
    let host = machine(host, common)?;
    let command = command_of(&explain.question.words);
    let request = Request {
        is_build: explain.question.building.build,
        ..Request::new(
            &host,
            common,
            &explain.question.library_options,
            Some(&command),
            Purpose::Answer,
        )
    };
    let mut settings = settings_of(&request)?;
    let (facts, decision) = request.decision(&mut settings)?;
    tell(&facts, &decision, common, explain)?;
    let is_here = common.elsewhere().is_empty();
    let cannot_start = is_here && facts.program.unread_script().is_some();
    Ok(if decision.is_refused() || cannot_start {
        Exit::No
    } else {
        Exit::Yes
    })
}

fn tell(
    facts: &StartFacts<'_>,
    decision: &Decision,
    common: &Common,
    explain: &Explain,
) -> Result<(), Error> {
    let change = pipeline::change(facts, decision, false)?;
    let remarks: Vec<String> = facts
        .settings
        .remarks
        .iter()
        .map(report::setting_remark)
        .collect();
    let explanation = report::Explanation {
        program: &facts.program,
        inventory: &facts.inventory,
        decision,
        build: facts.build.as_ref().map(|build| &build.plan),
        compilers: &facts.compilers,
        before: &facts.before(),
        diff: &change.diff,
        view: change.paths.view.as_deref(),
        settings: &facts.settings.layers,
        remarks: &remarks,
        words: &explain.question.words,
        can_fetch: facts.can_fetch(&decision.outcome),
    };
    if explain.question.json {
        return print(&report::json::explanation(&explanation));
    }
    let page = |style: Style| report::explained(&explanation, common.verbose, style);
    let pictures = || report::pictures(&explanation);
    let style = Style::stdout(common.color).of(facts.host);
    deliver(style, common, &explain.page_options, page, pictures, print)
}
