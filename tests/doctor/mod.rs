//! Findings of `doctor`, the descriptions that it saves, and their differences.

use std::fs;

use serde_json::Value;

use crate::support::Run;
use crate::support::machine::Machine;

mod findings;
mod platform;
mod save;

/// All but what a description cannot keep.
fn comparable(mut value: Value) -> Value {
    match &mut value {
        Value::Object(object) => {
            for key in [
                "size", "device", "inode", "uid", "gid", "cache", "programs", "next",
            ] {
                object.remove(key);
            }
            object
                .values_mut()
                .for_each(|value| *value = comparable(value.take()));
        }
        Value::Array(values) => values
            .iter_mut()
            .for_each(|value| *value = comparable(value.take())),
        _ => {}
    }
    value
}

/// Saves the machine, and compares what `doctor` says of it there with what it says of its description. What a description
/// cannot keep: the cache, owners, and the programs, which it has only with `--for`.
#[track_caller]
fn same_when_saved(machine: &Machine, variables: &[(&str, &str)], doctor: &Value) {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("saved.toml");
    let file = file.to_str().unwrap();
    let mut run = Run::on(machine, &["-q", "doctor", "--save", file])
        .any_stdout()
        .any_stderr()
        .in_directory("/");
    for (name, value) in variables {
        run = run.env(name, value);
    }
    let (page, _) = run.output();
    let (again, _) = Run::new(["--machine", file, "doctor", "--json"])
        .any_stderr()
        .output();
    let again: Value = serde_json::from_str(&again).unwrap_or_else(|why| panic!("{why}: {page}"));
    let findings = |value: &Value| {
        let all = comparable(value.clone())["findings"].take();
        let mut all: Vec<Value> = all
            .as_array()
            .unwrap_or_else(|| panic!("{value:#}"))
            .clone();
        all.retain(|finding| finding["section"] != "cache");
        all
    };
    assert_eq!(
        findings(doctor),
        findings(&again),
        "{}",
        fs::read_to_string(file).unwrap()
    );
}
