//! `cudarun verify [PROGRAM …]`: proves the set that the program would get, and starts nothing else. The report of a proof before a
//! start.

use super::{Exit, command_of, only_here, print, refuse, say_notes, settings_of};
use crate::cli::{Common, Verify, VerifyWhen};
use crate::error::Error;
use crate::host::Host;
use crate::inventory::Inventory;
use crate::pin::Decision;
use crate::pipeline::{self, Change, ProofOptions, Proven, Request, StartFacts};
use crate::report::{self, Style};
use crate::settings::SettingKey;
use crate::settings::resolve::{Purpose, Settings};
use crate::verify::{self, Skip, Verdict};

pub fn prove(host: &Host, common: &Common, verify: &Verify) -> Result<Exit, Error> {
    only_here(common, "verify")?;
    let command = verify.words.first().map(|_| command_of(&verify.words));
    let is_fresh = verify.fresh || verify.seed.is_some();
    let proof = ProofOptions {
        when: is_fresh.then_some(VerifyWhen::Always),
        level: verify.level,
        seed: verify.seed,
        is_asked_for: true,
        is_quiet: common.quiet || verify.json,
    };
    let request = Request {
        proof,
        ..Request::new(
            host,
            common,
            &verify.library_options,
            command.as_ref(),
            Purpose::Question,
        )
    };
    let mut settings = settings_of(&request)?;
    if command.is_none() {
        let progress = request.progress();
        let scope = pipeline::any_program(&settings, common)?;
        let inventory = pipeline::scan(&settings.host, &scope);
        drop(progress);
        let subject = pipeline::given_by_loader(&inventory);
        let proven = prove_unpinned(&settings, &inventory, &subject, &proof)?;
        return tell(common, verify.json, &proven);
    }
    let (facts, mut decision) = request.decision(&mut settings)?;
    if verify.as_is {
        let subject = pipeline::given_to_program(&facts.inventory, &facts.before());
        let proven = prove_unpinned(facts.settings, &facts.inventory, &subject, &proof)?;
        return tell(common, verify.json, &proven);
    }
    if refuse(&facts, &decision, verify.json, common)? {
        return Ok(Exit::No);
    }
    if !proof.is_quiet {
        say_notes(&facts, &decision, facts.follows());
    }
    // What the loader gives of these is not the plan's, and may not even be loaded.
    let mut left = decision.outcome.unpinned().iter();
    if left.any(|one| one.must_be_said) {
        let why = Skip::LeftOut;
        return tell(common, verify.json, &without_plan(Verdict::Skipped { why }));
    }
    let proven = facts.prove(&mut decision, &proof)?;
    tell(common, verify.json, &proven)
}

/// Proves libraries in the environment as it is, with nothing pinned.
fn prove_unpinned(
    settings: &Settings,
    inventory: &Inventory,
    subject: &verify::ProofSubject,
    proof: &ProofOptions,
) -> Result<Proven, Error> {
    let env = &settings.host.env;
    let verdict = pipeline::prove_once(settings, inventory, subject, env, proof)?;
    Ok(without_plan(verdict))
}

fn without_plan(verdict: Verdict) -> Proven {
    Proven {
        change: Change::default(),
        verdict,
        given_up: Vec::new(),
        is_known: false,
    }
}

fn tell(common: &Common, json: bool, proven: &Proven) -> Result<Exit, Error> {
    let verdict = &proven.verdict;
    if json {
        print(&report::json::verdict(
            verdict,
            &proven.given_up,
            proven.is_known,
        ))?;
    } else {
        let is_bad = matches!(verdict, Verdict::Failed { .. });
        let style = if is_bad {
            Style::stderr(common.color)
        } else {
            Style::stdout(common.color)
        };
        let text = report::verdict(verdict, &proven.given_up, proven.is_known, style);
        let text = style.page(&text);
        if is_bad {
            report::say(&text);
        } else {
            print(&text)?;
        }
    }
    Ok(match verdict {
        Verdict::Passed { .. }
        | Verdict::Skipped {
            why: Skip::NothingToTry,
        } => Exit::Yes,
        Verdict::Failed { .. } => Exit::No,
        Verdict::Skipped { .. } | Verdict::Busy { .. } => Exit::Unknown,
    })
}

/// When the set of a start is proved: as the command line says, or else the settings.
pub(super) fn proof_time(facts: &StartFacts<'_>, option: Option<VerifyWhen>) -> VerifyWhen {
    option
        .or(facts.settings.layers.choice(SettingKey::Verify))
        .unwrap_or_default()
}

/// False after reporting a failed proof, which ends the start. Else reports what was found out on the way to a good one.
pub(super) fn say_proof(
    decision: &Decision,
    proven: &Proven,
    when: VerifyWhen,
    common: &Common,
) -> bool {
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
        return false;
    }
    if !common.quiet {
        report::say(&style.page(&report::fallback(given_up, style)));
    }
    let is_news = match verdict {
        Verdict::Busy { .. } => true,
        Verdict::Skipped { why } => when == VerifyWhen::Always && *why != Skip::NothingToTry,
        _ => false,
    };
    let has_plan = decision.outcome.plan().is_some();
    if has_plan && (common.verbose > 0 || is_news && !common.quiet) {
        report::say(&report::proof_line(verdict, *is_known));
    }
    true
}
