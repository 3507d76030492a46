//! Texts that were pasted: of a colleague, a cluster, a container. What is here says nothing about them.

use cudarun::catalog::errors;
use serde_json::Value;

use super::answers::{Posted, all_posted};
use crate::fleet::Nodes;
use crate::support::Run;
use crate::support::machine::Machine;

const MACHINES: [&str; 4] = ["nothing", "h200-container", "torch", "old-driver"];

/// Thirty of the posted messages, from all over the table.
fn texts() -> Vec<Posted> {
    let all = all_posted();
    let step = all.len() / 30;
    all.into_iter().step_by(step).take(30).collect()
}

fn diagnosed(machine: &Machine, text: &str, program: &[&str]) -> Value {
    let mut words = vec!["diagnose", "--json", "--text", text];
    words.extend(program);
    Run::on(machine, &words).any_stderr().json()
}

/// True if the message alone says that it is this cause.
fn is_certain_alone(cause: &Value) -> bool {
    let row = errors()
        .iter()
        .find(|row| cause["said"]["message"] == row.id.as_str())
        .unwrap();
    let mut causes = row.cause.iter();
    causes.any(|one| {
        one.stated && !one.unsure && serde_json::to_value(one.cause).unwrap() == cause["cause"]
    })
}

fn of<'v>(diagnosed: &'v Value, fault: &str) -> &'v Value {
    let mut causes = diagnosed["causes"].as_array().unwrap().iter();
    // A machine without a GPU has no driver either, and says the former.
    causes
        .find(|cause| cause["cause"] == fault || cause["cause"] == "no-gpu")
        .unwrap_or_else(|| panic!("no {fault}: {diagnosed:#}"))
}

#[test]
fn this_machine_confirms_no_cause_of_a_text_from_another_one() {
    for name in MACHINES {
        let machine = Machine::load(name);
        for posted in texts() {
            let text = format!(
                "  File \"/cluster/env/lib/python3.11/site-packages/job/main.py\", line 3, in run\n{}",
                posted.text
            );
            let found = diagnosed(&machine, &text, &[]);
            assert_eq!(found["elsewhere"], true, "{name}: {text}");
            for cause in found["causes"].as_array().unwrap() {
                assert_ne!(cause["certainty"], "is-not", "{name}: {text}: {cause:#}");
                assert!(
                    cause["certainty"] != "is" || is_certain_alone(cause),
                    "{name}: {text}: {cause:#}"
                );
            }
            of(&found, &posted.cause);
        }
    }
}

#[test]
fn a_text_without_a_sign_keeps_its_cause_on_every_machine() {
    let mut kept = 0;
    for name in MACHINES {
        let machine = Machine::load(name);
        for posted in texts() {
            let found = diagnosed(&machine, &posted.text, &[]);
            let cause = of(&found, &posted.cause);
            assert_ne!(cause["certainty"], "is-not", "{name}: {cause:#}");
            kept += u32::from(cause["not_here"] == true);
        }
    }
    assert!(kept > 10, "{kept} of them are not here");
}

/// A description holds what `doctor` found: it confirms, and rules nothing out.
#[test]
fn a_saved_node_loses_no_cause() {
    let mut confirmed = 0;
    for name in MACHINES {
        let path = format!("{}/tests/machines/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        let nodes = Nodes::new(&[(name, std::fs::read_to_string(path).unwrap())]);
        let file = nodes.path(&format!("{name}.json")).display().to_string();
        for posted in texts() {
            let words = [
                "--node",
                &file,
                "diagnose",
                "--json",
                "--text",
                &posted.text,
            ];
            let found = Run::new(words).any_stderr().json();
            for cause in found["causes"].as_array().unwrap() {
                assert_ne!(cause["certainty"], "is-not", "{name}: {cause:#}");
                let is_found = cause["evidence"] != Value::Array(Vec::new());
                assert!(
                    cause["certainty"] != "is" || is_found || is_certain_alone(cause),
                    "{name}: {cause:#}"
                );
                confirmed += u32::from(cause["certainty"] == "is" && is_found);
            }
            of(&found, &posted.cause);
        }
    }
    assert!(confirmed > 0, "the control: some are confirmed");
}

/// The control: who names the program means this machine, which then rules a cause out.
#[test]
fn a_named_program_lets_this_machine_rule_causes_out() {
    let machine = Machine::load("torch");
    let program = ["python3", "/home/user/project/train.py"];
    let ruled_out = texts()
        .iter()
        .filter(|posted| {
            let found = diagnosed(&machine, &posted.text, &program);
            of(&found, &posted.cause)["certainty"] == "is-not"
        })
        .count();
    assert!(ruled_out > 3, "{ruled_out}");
}
