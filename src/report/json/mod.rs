//! JSON for programs: one object, `"schema": 2`, guest paths. Documented in `docs/json.md`.
//!
//! A key that is removed, or gets another meaning, changes the number of the schema; a new key does not.

use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};

mod advise;
mod decision;
mod diagnosis;
mod fleet;
pub(super) mod inventory;
mod object;
mod program;
mod running;

use self::decision::{
    ConflictObject, PlanObject, StoredWheelObject, UnpinnedObject, WheelObject, passed_over,
};
use self::inventory::{InventoryObject, gpus};
use self::object::{each, merge, path, value};
use self::program::{
    BuildObject, CompilersObject, PredictedObject, PredictionObject, ProgramObject,
};
use self::running::RunningObject;
use super::advise::AdviceReport;
use super::diagnose::Diagnosis;
use super::doctor;
use super::explain::Explanation;
use super::fleet::FleetReport;
use super::notes;
use super::pin::{self, given_fault};
use super::trace;
use super::words;
use crate::environment::Diff;
use crate::error::{Error, Form};
use crate::fetch::StoredWheel;
use crate::fleet::DoctorPage;
use crate::inventory::Inventory;
use crate::pin::Decision;
use crate::predict::observe::ObservedProcess;
use crate::predict::supply::given;
use crate::predict::{Prediction, is_nvidias};
use crate::running::RunningProcesses;
use crate::settings::trust::Allowed;
use crate::solve::{MissingWheel, Outcome};
use crate::text::{is_hostile, show};
use crate::verify::{ProofCause, Verdict};

/// Raised when a key goes or changes its meaning.
const SCHEMA: u32 = 2;

/// `list`
pub fn inventory(inventory: &Inventory, families: &[String]) -> String {
    finish(InventoryObject::new(inventory, families))
}

/// `list --running`
pub fn running(running: &RunningProcesses) -> String {
    finish(RunningObject(running))
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
    let mut notes = each(&program.notes, |note| notes::note(note, program));
    notes.extend_from_slice(remarks);
    let mut object = json!({
        "program": ProgramObject(program),
        "driver": inventory.driver,
        "gpus": gpus(inventory),
        "warnings": inventory.warnings,
        "notes": notes,
        "settings": settings.iter().collect::<Vec<_>>(),
        "environment": changes(diff),
        "view": view.map(show),
        "mode": pinned.map(|pinned| pinned.mode),
        "passed_over": each(&decision.passed_over, passed_over),
        "before": nvidias(before),
        "after": pinned.map(|pinned| nvidias(&pinned.after)),
        "faults": faults(before, inventory),
        "extensions": inventory.imported_extensions().collect::<Vec<_>>(),
    });
    let (decided, details) = match &decision.outcome {
        Outcome::Nothing { absent, unpinned } => {
            let unpinned = each(unpinned, UnpinnedObject);
            (
                "nothing",
                json!({ "absent": absent, "families": [], "unpinned": unpinned }),
            )
        }
        Outcome::Plan(plan) => (
            if decision.leaks() { "leak" } else { "plan" },
            value(&PlanObject(plan)),
        ),
        Outcome::Conflict(conflict) => ("conflict", value(&ConflictObject(conflict))),
    };
    object["decision"] = decided.into();
    if let Some(build) = build {
        object["build"] = value(&BuildObject(build));
    }
    if !compilers.supplied.is_empty() || !compilers.lacking.is_empty() {
        object["compilers"] = value(&CompilersObject(compilers));
    }
    merge(&mut object, details);
    merge(&mut object, instead(decision));
    finish(object)
}

/// `fetch`
pub fn to_fetch(wheels: &[MissingWheel], place: &Path) -> String {
    finish(json!({ "wheels": each(wheels, WheelObject), "into": path(&place) }))
}

/// `fetch list`; `fetch prune` with those that it removes
pub fn stored<'e>(entries: impl IntoIterator<Item = &'e StoredWheel>, store: &Path) -> String {
    finish(json!({ "store": path(&store), "wheels": each(entries, StoredWheelObject) }))
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
    finish(self::fleet::fleet(fleet))
}

/// `advise`
pub fn advice(report: &AdviceReport<'_>) -> String {
    finish(advise::advice(report))
}

/// `diagnose`
pub fn diagnosis(diagnosis: &Diagnosis<'_>) -> String {
    finish(self::diagnosis::diagnosis(diagnosis))
}

/// The reason why `export`, `verify` or `trace` starts nothing.
pub fn refusal(decision: &Decision) -> String {
    let passed_over = each(&decision.passed_over, passed_over);
    let mut object = json!({ "decision": "leak", "passed_over": passed_over });
    if let Outcome::Conflict(conflict) = &decision.outcome {
        object["decision"] = "conflict".into();
        merge(&mut object, value(&ConflictObject(conflict)));
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
    let mut object = value(&PredictionObject(prediction));
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
fn nvidias(prediction: &Prediction) -> Vec<PredictedObject<'_>> {
    let mut files = Vec::from_iter(&prediction.files);
    files.retain(|file| is_nvidias(file.family.as_ref(), &file.path));
    each(files, PredictedObject)
}

/// By family, the faults of the libraries that the program would get without cudarun.
fn faults(before: &Prediction, inventory: &Inventory) -> Value {
    let mut faults = json!({});
    for (family, supply) in given(before, inventory) {
        if let Some(fault) = supply.fault(inventory) {
            faults[family] = given_fault(fault).into();
        }
    }
    faults
}

/// `allow --list`
pub fn allowed(allowed: &[Allowed]) -> String {
    let allowed = each(
        allowed,
        |one| json!({ "path": show(&one.path), "is_current": one.is_current }),
    );
    finish(json!({ "allowed": allowed }))
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
    let message = words::joined(wrong.split_whitespace(), " ");
    finish(json!({ "error": { "code": 2, "message": message, "hint": null } }))
}

fn changes(diff: &Diff) -> Value {
    let mut changes = json!({});
    for (name, value) in &diff.0 {
        changes[show(name)] = json!(value.as_ref().map(path));
    }
    changes
}

fn finish(answer: impl Serialize) -> String {
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
fn printable(mut text: String) -> String {
    let is_escaped = |character| character != '\n' && is_hostile(character);
    if !text.contains(is_escaped) {
        text.push('\n');
        return text;
    }
    let mut printable = String::with_capacity(text.len() + 1);
    for character in text.chars() {
        // Of the control codes of ASCII, only the line ends of the layout are left.
        if is_escaped(character) {
            printable.push_str(&format!("\\u{:04x}", u32::from(character)));
        } else {
            printable.push(character);
        }
    }
    printable.push('\n');
    printable
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
