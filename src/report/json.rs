//! JSON for programs: one object, `"schema": 2`, guest paths. Documented in `docs/json.md`.

use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};

use super::doctor;
use super::explain::Explanation;
use super::extensions;
use super::fleet::FleetReport;
use super::hints;
use super::notes;
use super::pin::{self, given_fault};
use super::trace;
use super::trace::is_of_interest;
use super::words;
use crate::environment::Diff;
use crate::error::{Error, Form};
use crate::fetch::StoredWheel;
use crate::fleet::DoctorPage;
use crate::inventory::Inventory;
use crate::pin::Decision;
use crate::predict::observe::ObservedProcess;
use crate::predict::supply::given;
use crate::predict::{Predicted, Prediction};
use crate::settings::trust::Allowed;
use crate::solve::{Conflict, MissingWheel, Outcome, Plan, Rejection, Summary};
use crate::text::{InWords, is_hostile, show};
use crate::verify::{ProofCause, Verdict};

/// Raised when a key goes or changes its meaning.
const SCHEMA: u32 = 2;

/// `list`
pub fn inventory(mut inventory: Inventory, families: &[String]) -> String {
    if !families.is_empty() {
        inventory
            .installations
            .retain(|installation| families.contains(&installation.family));
    }
    finish(inventory)
}

/// `explain`
pub fn explanation(explanation: &Explanation<'_>) -> String {
    let Explanation {
        program,
        inventory,
        decision,
        build,
        compilers,
        before,
        diff,
        view,
        settings,
        remarks,
        words: _,
        can_fetch: _,
    } = explanation;
    let pinned = decision.pinned.as_ref();
    let mut object = json!({
        "program": program,
        "driver": inventory.driver,
        "gpus": inventory.gpus,
        "warnings": inventory.warnings,
        "notes": program.notes.iter().map(|note| notes::note(note, program)).chain(remarks.iter().cloned()).collect::<Vec<_>>(),
        "settings": settings.iter().collect::<Vec<_>>(),
        "environment": changes(diff),
        "view": view.map(show),
        "mode": pinned.map(|pinned| pinned.mode),
        "passed_over": decision.passed_over,
        "before": nvidias(before),
        "after": pinned.map(|pinned| nvidias(&pinned.after)),
        "faults": faults(before, inventory),
        "extensions": extensions::unfit(inventory, program),
    });
    let (decided, details) = match &decision.outcome {
        Outcome::Nothing { absent, unpinned } => (
            "nothing",
            json!({ "absent": absent, "families": [], "unpinned": unpinned }),
        ),
        Outcome::Plan(plan) => (
            if decision.leaks() { "leak" } else { "plan" },
            self::plan(plan),
        ),
        Outcome::Conflict(conflict) => ("conflict", self::conflict(conflict)),
    };
    object["decision"] = decided.into();
    if let Some(build) = build {
        object["build"] = value(build);
    }
    if !compilers.supplied.is_empty() || !compilers.lacking.is_empty() {
        object["compilers"] = value(compilers);
    }
    merge(&mut object, details);
    merge(&mut object, instead(decision));
    finish(object)
}

/// `fetch`
pub fn to_fetch(wheels: &[MissingWheel], place: &Path) -> String {
    finish(json!({ "wheels": wheels, "into": place.to_string_lossy() }))
}

/// `fetch list`; `fetch prune` with those that it removes
pub fn stored<'e>(entries: impl IntoIterator<Item = &'e StoredWheel>, store: &Path) -> String {
    let entries: Vec<&StoredWheel> = entries.into_iter().collect();
    finish(json!({ "store": store.to_string_lossy(), "wheels": entries }))
}

/// `export`
pub fn environment(diff: &Diff) -> String {
    finish(json!({ "environment": changes(diff) }))
}

/// `verify`
pub fn verdict(verdict: &Verdict, given_up: &[ProofCause], is_known: bool) -> String {
    let mut object = value(verdict);
    object["known"] = is_known.into();
    if !given_up.is_empty() {
        object["given_up"] = value(&given_up);
    }
    finish(object)
}

/// `doctor`
pub fn examination(page: &DoctorPage) -> String {
    let mut object = value(page);
    object["next"] = doctor::next(&page.programs, false).into();
    finish(object)
}

/// `fleet`
pub fn fleet(fleet: &FleetReport) -> String {
    finish(fleet.json())
}

/// The reason why `export`, `verify` or `trace` starts nothing.
pub fn refusal(decision: &Decision) -> String {
    let mut object = json!({ "decision": "leak", "passed_over": decision.passed_over });
    if let Outcome::Conflict(conflict) = &decision.outcome {
        object["decision"] = "conflict".into();
        merge(&mut object, self::conflict(conflict));
    }
    merge(&mut object, instead(decision));
    finish(object)
}

/// The hint if another mode than that of `--pin-mode` is enough.
fn instead(decision: &Decision) -> Value {
    decision
        .instead
        .map_or(Value::Null, |mode| json!({ "hint": pin::instead(mode) }))
}

/// `trace --predict`
pub fn prediction(prediction: &Prediction) -> String {
    let mut object = value(prediction);
    object["failure"] = prediction.failure.as_ref().map(trace::failure).into();
    finish(object)
}

/// `trace`
pub fn observation(observation: &ObservedProcess, all: bool) -> String {
    let mut object = value(observation);
    for image in object["images"].as_array_mut().into_iter().flatten() {
        if let Some(files) = image["files"].as_array_mut().filter(|_| !all) {
            files.retain(|file| !file["family"].is_null());
        }
    }
    finish(object)
}

/// The files of NVIDIA's, and those that packages bundle under other names.
fn nvidias(prediction: &Prediction) -> Vec<&Predicted> {
    prediction
        .files
        .iter()
        .filter(|file| is_of_interest(file.family.as_ref(), &file.path))
        .collect()
}

/// By family, the faults of the libraries that the program would get without cudarun.
fn faults(before: &Prediction, inventory: &Inventory) -> Value {
    let faults = given(before, inventory)
        .into_iter()
        .filter_map(|(family, given)| {
            Some((
                family.to_owned(),
                given_fault(given.fault(inventory)?).into(),
            ))
        });
    Value::Object(faults.collect())
}

/// `allow --list`
pub fn allowed(allowed: &[Allowed]) -> String {
    let entry = |allowed: &Allowed| json!({ "path": show(&allowed.path), "is_current": allowed.is_current });
    finish(json!({ "allowed": allowed.iter().map(entry).collect::<Vec<_>>() }))
}

/// `init`: the settings, and the file that they were written to.
pub fn written(text: &str, path: Option<&Path>) -> String {
    finish(json!({ "path": path.map(show), "text": text }))
}

/// An error, with its exit code.
pub fn error(error: &Error, form: Form, hint: Option<&str>) -> String {
    finish(
        json!({ "error": { "code": error.code(form), "message": error.to_string(), "hint": hint } }),
    )
}

/// An invalid command line. The message is the text before the first blank line.
pub fn usage_error(text: &str) -> String {
    let wrong = text
        .split("\n\n")
        .next()
        .unwrap_or_default()
        .trim_start_matches("error: ");
    let message = wrong.split_whitespace().collect::<Vec<_>>().join(" ");
    finish(json!({ "error": { "code": 2, "message": message, "hint": null } }))
}

fn plan(plan: &Plan) -> Value {
    let families: Vec<Value> = plan
        .picks
        .iter()
        .map(|pick| {
            let others = plan
                .rejected
                .iter()
                .filter(|rejection| rejection.installation.family == pick.installation.family);
            let mut candidates = vec![candidate(
                &Summary::of(&pick.installation),
                true,
                pick.decided_by.words().0,
            )];
            candidates.extend(others.map(rejected));
            json!({
                "family": pick.installation.family,
                "picked": pick.installation,
                "asked_by": pick.asked_by,
                "decided_by": pick.decided_by,
                "candidates": candidates,
            })
        })
        .collect();
    let removed: Vec<Value> = words::removals(plan)
        .into_iter()
        .map(|(element, why)| json!({ "element": element, "why": why }))
        .collect();
    json!({
        "families": families,
        "absent": plan.absent,
        "unpinned": plan.unpinned,
        "cautions": plan.cautions.iter().map(InWords::from).collect::<Vec<_>>(),
        "tombstones": plan.tombstones,
        "removed": removed,
        "driver_in_view": plan.driver_in_view,
    })
}

fn conflict(conflict: &Conflict) -> Value {
    let unmet: Vec<Value> = conflict
        .unmet
        .iter()
        .map(|unmet| {
            json!({
                "family": unmet.family,
                "requirements": unmet.requirements,
                "loader_takes": unmet.forced,
                "candidates": unmet.candidates.iter().map(rejected).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({
        "unmet": unmet,
        "broken": conflict.broken,
        "contradictions": conflict.contradictions,
        "to_fetch": conflict.to_fetch,
        "hint": conflict.hint.as_ref().map(hints::hint),
    })
}

fn rejected(rejection: &Rejection) -> Value {
    let mut object = candidate(
        &rejection.installation,
        false,
        &rejection.reason.to_string(),
    );
    object["reason"] = value(&rejection.reason);
    object
}

fn candidate(installation: &Summary, picked: bool, why: &str) -> Value {
    let mut object = value(installation);
    object["picked"] = picked.into();
    object["why"] = why.into();
    object
}

fn changes(diff: &Diff) -> Value {
    let entries = diff.0.iter().map(|(name, value)| {
        let value = value
            .as_ref()
            .map_or(Value::Null, |value| value.to_string_lossy().into());
        (show(name), value)
    });
    Value::Object(entries.collect())
}

fn value(of: &impl Serialize) -> Value {
    serde_json::to_value(of).unwrap_or_else(|error| json!({ "error": error.to_string() }))
}

fn merge(object: &mut Value, more: Value) {
    if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
        object.extend(more);
    }
}

pub(super) fn finish(answer: impl Serialize) -> String {
    let stamped = Stamped {
        answer,
        schema: SCHEMA,
        cudarun: env!("CARGO_PKG_VERSION"),
    };
    match serde_json::to_string_pretty(&stamped) {
        Ok(text) => printable(text),
        Err(error) => finish(json!({ "error": error.to_string() })),
    }
}

#[derive(Serialize)]
struct Stamped<T> {
    #[serde(flatten)]
    answer: T,
    schema: u32,
    cudarun: &'static str,
}

/// Adds a line end, and escapes what JSON allows and a terminal obeys: control codes, and characters that turn or hide text.
fn printable(text: String) -> String {
    // Of the control codes of ASCII, only the line ends of the layout are left.
    let is_code = |c: char| c != '\n' && is_hostile(c);
    let mut text = if text.contains(is_code) {
        let escaped = |c: char| {
            if is_code(c) {
                format!("\\u{:04x}", u32::from(c))
            } else {
                c.to_string()
            }
        };
        text.chars().map(escaped).collect()
    } else {
        text
    };
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_turn_or_hide_text_are_escaped_and_others_are_not() {
        let text = "a\u{9b}b\u{202e}c\u{200f}d\u{200b}e\u{61c}f\u{feff}g";
        let json = finish(json!({ "text": text, "name": "Bücher" }));
        assert!(
            json.contains("a\\u009bb\\u202ec\\u200fd\\u200be\\u061cf\\ufeffg"),
            "{json}"
        );
        assert!(
            json.contains("Bücher") && json.contains(",\n"),
            "the control: {json}"
        );
        let back: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(back["text"], text);
    }
}
