//! The report of a proof before a start.

use super::Exit;
use crate::cli::{Common, When};
use crate::pin::Decision;
use crate::pipeline::{Proven, Stop};
use crate::report::{self, Style};
use crate::solve::Outcome;
use crate::verify::{Skip, Verdict};

/// Reports a failed proof, which ends the start, or what was found out on the way to a good one.
pub(super) fn say_proof(
    decision: &Decision,
    proven: &Proven,
    when: When,
    common: &Common,
) -> Result<(), Stop> {
    let Proven {
        verdict,
        given_up,
        is_known,
        ..
    } = proven;
    let style = Style::stderr(common.color);
    if let Verdict::Failed { .. } = verdict {
        let report = if common.verbose > 0 {
            report::verdict(verdict, given_up, *is_known, style)
        } else {
            report::failed_start(verdict, given_up, *is_known, style)
        };
        report::say(&style.page(&report));
        return Err(Stop::Exit(Exit::Refused));
    }
    if !common.quiet {
        report::say(&style.page(&report::fallback(given_up, style)));
    }
    let is_news = match verdict {
        Verdict::Busy { .. } => true,
        Verdict::Skipped { why } => when == When::Always && *why != Skip::NothingToTry,
        _ => false,
    };
    let has_plan = matches!(decision.outcome, Outcome::Plan(_));
    if has_plan && (common.verbose > 0 || is_news && !common.quiet) {
        report::say(&report::proof_line(verdict, *is_known));
    }
    Ok(())
}
