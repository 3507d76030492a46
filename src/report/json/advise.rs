//! The releases that work together, as an object.

use serde_json::{Value, json};

use super::object::each;
use crate::advise::AdvisedRelease;
use crate::report::advise::{AdviceReport, Commands, commands, passed_over, relaxed_command};

pub(super) fn advice(report: &AdviceReport<'_>) -> Value {
    let AdviceReport { advice, target, .. } = report;
    let Commands { pip, uv, notes } = commands(report);
    json!({
        "machine": {
            "driver": target.driver,
            "gpus": target.gpus,
            "python": target.python,
            "machine": target.machine,
        },
        "releases": each(&advice.picks, release),
        "passed_over": each(&advice.passed_over, |one| json!({
            "name": one.name,
            "version": one.version,
            "why": passed_over(one, target),
        })),
        "pip": pip,
        "uv": uv,
        "notes": notes,
        "next": relaxed_command(report),
    })
}

fn release(pick: &AdvisedRelease) -> Value {
    let one = &pick.candidate;
    json!({
        "name": one.name,
        "version": one.version.to_string(),
        "extra": one.extra,
        "role": pick.role,
        "cuda": one.cuda,
        "index": one.vendor.map(|build| &build.vendor),
        "backend": one.backend(),
        "source_only": one.source_only,
        "installed": one.is_installed,
    })
}
