//! `cudarun verify PROGRAM …`: proves the set that the program would get, and starts nothing else.

use super::{Exit, Purpose, command_of, consider, print, say_notes, style, wanted};
use crate::cli::{Common, Question};
use crate::error::Error;
use crate::host::Host;
use crate::report;
use crate::solve::Outcome;
use crate::verify::{Skip, Verdict};

pub fn prove(host: &Host, common: &Common, question: &Question) -> Result<Exit, Error> {
    if common.root.is_some() {
        return Err(Error::NothingRunsUnderRoot { verb: "verify" });
    }
    let command = command_of(&question.words);
    let wanted = wanted(host, common, &question.wishes, Some(&command), Purpose::Start)?;
    let host = &wanted.host;
    let considered = consider(&wanted, common, &command)?;
    let error_style = style(host, common.color, host.stderr_is_terminal());
    let style = style(host, common.color, host.stdout_is_terminal());
    if considered.refuse(question.json, error_style)? {
        return Ok(Exit::No);
    }
    if !question.json && !common.quiet {
        say_notes(&considered);
    }
    let verdict = match &considered.decision.outcome {
        Outcome::Plan(plan) => {
            let (diff, _) = considered.change(host, true)?;
            considered.prove(host, plan, &host.env.with(&diff))?
        }
        _ => Verdict::Skipped { why: Skip::NothingToTry },
    };
    if question.json {
        print(&report::json::verdict(&verdict))?;
    } else if matches!(verdict, Verdict::Failed { .. }) {
        report::say(&report::verdict(&verdict, error_style));
    } else {
        print(&report::verdict(&verdict, style))?;
    }
    Ok(match verdict {
        Verdict::Passed { .. } | Verdict::Skipped { why: Skip::NothingToTry } => Exit::Yes,
        Verdict::Failed { .. } => Exit::No,
        Verdict::Skipped { .. } => Exit::Unknown,
    })
}
