//! Findings of `doctor`, the descriptions that it saves, and their differences.

use serde_json::Value;

use crate::support::Run;
use crate::support::machine::Machine;

mod findings;
mod platform;
mod save;

/// Saves what `doctor` finds on the machine, and compares what it printed there with what it prints of the description: the page
/// and the JSON. Of very many findings some are only counted.
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
    assert_eq!(status, same, "{page}");
    let count = |page: &Value| -> u64 {
        let findings = page["findings"].as_array().unwrap().iter();
        findings
            .map(|one| 1 + one["more"].as_u64().unwrap_or(0))
            .sum()
    };
    assert_eq!(count(doctor), count(&again));
    if again.to_string().contains("\"more") {
        return;
    }
    assert_eq!(*doctor, again);
    let (again, _) = described(&[]);
    let there = [("ssh saved cudarun", "cudarun"), ("on saved: ", "")];
    let again = there
        .iter()
        .fold(again, |page, (own, usual)| page.replace(own, usual));
    assert_eq!(page, again);
}
