//! Findings of `doctor`, the descriptions that it saves, and their differences.

use serde_json::Value;

use crate::support::Run;
use crate::support::machine::Machine;

mod findings;
mod platform;
mod save;

/// Saves what `doctor` finds on the machine, and compares what it printed there with what it prints of the description: the page
/// and the JSON. A description has only the first lines of sentences, without an excerpt of a person's file.
#[track_caller]
fn same_when_saved(machine: &Machine, variables: &[(&str, &str)], doctor: &Value) {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("saved.json");
    let file = file.to_str().unwrap();
    let mut run = Run::on(machine, &["-q", "doctor", "--save", file])
        .env("COLUMNS", "500")
        .any_stdout()
        .any_stderr()
        .in_directory("/");
    for (name, value) in variables {
        run = run.env(name, value);
    }
    let (page, status) = run.output();
    let described = |words: &[&str]| {
        Run::new([&["-q", "--node", file, "doctor"], words].concat())
            .env("COLUMNS", "500")
            .output()
    };
    let (again, same) = described(&["--json"]);
    let again: Value = serde_json::from_str(&again).unwrap_or_else(|why| panic!("{why}: {page}"));
    assert_eq!(first_lines(doctor), again);
    assert_eq!(status, same, "{page}");
    if first_lines(doctor) == *doctor {
        let (again, _) = described(&[]);
        let again = again.replace("ssh saved cudarun", "cudarun");
        assert_eq!(page, again);
    }
}

/// The value with the first line of each text.
fn first_lines(value: &Value) -> Value {
    match value {
        Value::String(text) => text.lines().next().unwrap_or_default().into(),
        Value::Array(all) => all.iter().map(first_lines).collect(),
        Value::Object(all) => {
            let entries = all.iter();
            let entries = entries.map(|(key, value)| (key.clone(), first_lines(value)));
            Value::Object(entries.collect())
        }
        other => other.clone(),
    }
}
