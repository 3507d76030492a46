//! `cudarun verify PROGRAM …`: proves the set that the program would get, and starts nothing else.

use super::{Exit, command_of, consider, print, style};
use crate::cli::{Common, Question};
use crate::error::Error;
use crate::host::Host;
use crate::report;
use crate::solve::Outcome;
use crate::verify::{self, Skip, Verdict};

pub fn verify(host: &Host, common: &Common, question: &Question) -> Result<Exit, Error> {
    if common.root.is_some() {
        return Err(Error::NothingRunsUnderRoot { verb: "verify" });
    }
    let command = command_of(&question.command);
    let considered = consider(host, &command, &question.uses)?;
    let style = style(host, common.color, host.stdout_is_terminal());
    let verdict = match &considered.outcome {
        Outcome::Conflict(conflict) => {
            if question.json {
                print(&report::json::refusal(conflict))?;
            } else {
                report::say(&report::conflict(conflict, style));
            }
            return Ok(Exit::No);
        }
        Outcome::Nothing { .. } => Verdict::Skipped { why: Skip::NothingToTry },
        Outcome::Plan(plan) => match considered.nothing_to_prove_on() {
            Some(skipped) => skipped,
            None => {
                let (diff, _) = considered.change(host, &command, true)?;
                verify::run(host, plan, &host.env.with(&diff), verify::TIME_LIMIT)?
            }
        },
    };
    if question.json {
        print(&report::json::verdict(&verdict))?;
    } else if matches!(verdict, Verdict::Failed { .. }) {
        report::say(&report::verdict(&verdict, style));
    } else {
        print(&report::verdict(&verdict, style))?;
    }
    Ok(if matches!(verdict, Verdict::Failed { .. }) { Exit::No } else { Exit::Yes })
}
