//! What is decided about a program, as objects.

use serde_json::{Value, json};

use super::inventory::InstallationObject;
use super::object::{each, merge, object, path, value};
use super::program::PredictedObject;
use crate::fetch::StoredWheel;
use crate::pin::{NotEnough, Why};
use crate::report::{hints, words};
use crate::solve::{Conflict, MissingWheel, Pick, Plan, Rejection, Summary, Unmet, Unpinned};
use crate::text::InWords;

object!(PlanObject(plan: Plan) {
    "families": each(&plan.picks, |pick| family(pick, plan)),
    "absent": plan.absent,
    "unpinned": each(&plan.unpinned, UnpinnedObject),
    "cautions": each(&plan.cautions, InWords::from),
    "tombstones": plan.tombstones,
    "removed": removed(plan),
    "driver_in_view": plan.driver_in_view,
});

fn family(pick: &Pick, plan: &Plan) -> Value {
    let picked = &pick.installation;
    let why = pick.decided_by.words().0;
    let mut candidates = vec![candidate(&Summary::of(picked), true, why)];
    for rejection in &plan.rejected {
        if rejection.installation.family == picked.family {
            candidates.push(rejected(rejection));
        }
    }
    json!({
        "family": picked.family,
        "picked": InstallationObject(picked),
        "asked_by": pick.asked_by,
        "decided_by": pick.decided_by,
        "candidates": candidates,
    })
}

fn removed(plan: &Plan) -> Vec<Value> {
    let removals = words::removals(plan).into_iter();
    removals
        .map(|(element, why)| json!({ "element": element, "why": why }))
        .collect()
}

object!(UnpinnedObject(unpinned: Unpinned) {
    "family": unpinned.family,
    "names": unpinned.names,
    "why": unpinned.why.to_string(),
});

object!(ConflictObject(conflict: Conflict) {
    "unmet": each(&conflict.unmet, UnmetObject),
    "broken": conflict.broken,
    "contradictions": conflict.contradictions,
    "to_fetch": each(&conflict.to_fetch, WheelObject),
    "hint": conflict.hint.as_ref().map(hints::hint),
});

object!(UnmetObject(unmet: Unmet) {
    "family": unmet.family,
    "requirements": unmet.requirements,
    "loader_takes": unmet.forced,
    "candidates": each(&unmet.candidates, rejected),
});

fn rejected(rejection: &Rejection) -> Value {
    let why = rejection.reason.to_string();
    let mut object = candidate(&rejection.installation, false, &why);
    object["reason"] = value(&rejection.reason);
    object
}

fn candidate(installation: &Summary, picked: bool, why: &str) -> Value {
    let mut object = value(installation);
    object["picked"] = picked.into();
    object["why"] = why.into();
    object
}

object!(WheelObject(wheel: MissingWheel) {
    "distribution": wheel.distribution,
    "version": wheel.version,
    "file": wheel.file,
    "size": wheel.size,
    "sha256": wheel.sha256,
    "names": wheel.names,
    "asked_by": wheel.asked_by,
});

object!(StoredWheelObject(wheel: StoredWheel) {
    "directory": path(&wheel.directory),
    "distribution": wheel.about.distribution,
    "version": wheel.about.version,
    "sha256": wheel.about.sha256,
    "fetched": wheel.about.fetched,
    "bytes": wheel.size,
    "last_use": wheel.last_use,
});

/// A mode that is not enough.
pub(super) fn passed_over(passed: &NotEnough) -> Value {
    let (why, details) = match &passed.why {
        Why::Leaks { files } => ("leaks", json!({ "files": each(files, PredictedObject) })),
        Why::ShadowedByRpath { families } => ("shadowed-by-rpath", json!({ "families": families })),
        Why::Unseen { families } => ("unseen", json!({ "families": families })),
        Why::Reachable { family, directory } => (
            "reachable",
            json!({ "family": family, "directory": path(directory) }),
        ),
        Why::Relative { element } => ("relative", json!({ "element": path(element) })),
        Why::NotFound { names } => ("not-found", json!({ "names": names })),
        Why::SearchIsLimited => ("search-is-limited", Value::Null),
        Why::NotFollowed => ("not-followed", Value::Null),
        Why::RewritesLibraryPath => ("rewrites-library-path", Value::Null),
        Why::OpensNamespaces => ("opens-namespaces", Value::Null),
        Why::Undone { variable } => ("undone", json!({ "variable": variable })),
        Why::OldLoader { glibc } => ("old-loader", json!({ "glibc": glibc })),
        Why::NotStarted { .. } => ("not-started", Value::Null),
        Why::NoModule => ("no-module", Value::Null),
        Why::NoTable => ("no-table", Value::Null),
    };
    let mut object = json!({ "mode": passed.mode, "why": why });
    merge(&mut object, details);
    object
}
