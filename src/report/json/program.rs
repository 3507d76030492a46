//! What runs, what it loads, and its toolkit, as objects.

use serde_json::{Value, json};

use super::inventory::ToolkitObject;
use super::object::{each, object, path, value};
use crate::builds::{
    BuildPlan, CompilerLack, CompilerSupply, Compilers, Overridden, RejectedToolkit, ToolkitReason,
};
use crate::predict::{Predicted, Prediction};
use crate::program::{Note, Program};

object!(ProgramObject(program: Program) {
    "path": path(&program.path),
    "steps": program.steps,
    "packages": program.packages,
    "requirements": program.library_requirements().collect::<Vec<_>>(),
    "conditions": program.machine_requirements().collect::<Vec<_>>(),
    "notes": each(&program.notes, note),
    "site_packages": each(&program.site_packages, path),
});

fn note(note: &Note) -> Value {
    match note {
        Note::SourceNotRead { file, why, .. } => {
            json!({ "note": "source-not-read", "file": path(file), "why": why })
        }
        note => value(note),
    }
}

object!(PredictionObject(prediction: Prediction) {
    "files": each(&prediction.files, PredictedObject),
    "missing": prediction.missing,
});

object!(PredictedObject(file: Predicted) {
    "name": file.name,
    "path": path(&file.path),
    "requester": path(&file.requester),
    "when": file.when,
    "family": file.family,
    "is_linked": file.is_linked,
    ..value(&file.rule)
});

object!(BuildObject(build: BuildPlan) {
    "toolkit": ToolkitObject(&build.toolkit),
    "framework": build.framework,
    "passed_over": each(&build.passed_over, ToolkitObject),
    "rejected": each(&build.rejected, RejectedToolkitObject),
    "host_compiler": build.host_compiler,
    "gpus": build.gpus,
    "overridden": each(&build.overridden, |Overridden(name, value, _)| [name, value]),
    "is_isolated": build.is_isolated,
});

object!(RejectedToolkitObject(rejected: RejectedToolkit) {
    "toolkit": ToolkitObject(&rejected.toolkit),
    ..match &rejected.reason {
        ToolkitReason::NotInRange { range, .. } => {
            json!({ "reason": "not-in-range", "range": range })
        }
        reason => value(reason),
    }
});

object!(CompilersObject(compilers: Compilers) {
    "supplied": each(&compilers.supplied, CompilerSupplyObject),
    "lacking": each(&compilers.lacking, CompilerLackObject),
});

object!(CompilerSupplyObject(supply: CompilerSupply) {
    "variable": supply.variable,
    "value": path(&supply.value),
    "toolkit": path(&supply.toolkit),
    "is_withheld": supply.is_withheld,
    ..value(&CompilerLackObject(&supply.lack))
});

object!(CompilerLackObject(lack: CompilerLack) {
    "package": lack.package,
    "part": lack.part,
});
