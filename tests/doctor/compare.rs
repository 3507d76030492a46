//! `doctor --compare` on pairs of machines and environments. Each difference has its control: a side and itself.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::pin::children::{ENVIRONMENTS, SHOW};
use crate::support::{Run, skipped};

fn machine(name: &str) -> String {
    format!("{}/tests/machines/{name}.toml", env!("CARGO_MANIFEST_DIR"))
}

fn compare(a: &str, b: &str, words: &[&str]) -> Run {
    let sides = format!("{a},{b}");
    Run::new([&["doctor", "--compare", &sides], words].concat())
}

/// The page, in the directory of the machines.
fn page(a: &str, b: &str, words: &[&str], status: i32) -> String {
    let run = compare(&format!("{a}.toml"), &format!("{b}.toml"), words);
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines");
    run.in_directory(directory)
        .any_stdout()
        .status(status)
        .check()
}

/// The values of each fact by its name.
fn facts(a: &str, b: &str, words: &[&str], status: i32) -> Value {
    let compared = compare(a, b, &[&["--json"], words].concat())
        .status(status)
        .json();
    let same = match status {
        0 => json!(true),
        1 => json!(false),
        _ => Value::Null,
    };
    assert_eq!(compared["same"], same);
    let facts = compared["facts"].as_array().unwrap().iter();
    facts
        .map(|fact| {
            (
                fact["name"].as_str().unwrap().to_owned(),
                fact["values"].clone(),
            )
        })
        .collect()
}

#[test]
fn two_machines_differ_in_driver_and_libraries() {
    let wanted = "\
old-driver.toml and ubuntu-apt.toml differ: driver, CUDA runtime, cuBLAS and cuDNN

                old-driver.toml  ubuntu-apt.toml
  driver        535.261.03       550.54.15
  CUDA runtime  ? (toolkit)      12.4.127 (toolkit)
  cuBLAS        none             12.4.5.8 (toolkit)
  cuDNN         none             9.1.0.70 (debian)

next: cudarun --machine old-driver.toml doctor
";
    assert_eq!(page("old-driver", "ubuntu-apt", &[], 1), wanted);
}

#[test]
fn a_machine_does_not_differ_from_itself() {
    for name in [
        "old-driver",
        "h200-container",
        "hostile",
        "nothing",
        "wsl",
        "conda",
    ] {
        let wanted = format!("{name}.toml and {name}.toml do not differ for GPU programs\n");
        let page = page(name, name, &[], 0);
        assert!(page.starts_with(&wanted), "{page}");
        assert!(page.lines().count() <= 24, "{page}");
    }
}

#[test]
fn every_pair_has_a_page_of_at_most_24_lines_that_ends_with_a_command() {
    let names = [
        "nothing",
        "debian",
        "h200-container",
        "rhel",
        "wsl",
        "hostile",
        "toolkits",
    ];
    for a in names {
        for b in names.into_iter().filter(|b| *b != a) {
            let page = page(a, b, &[], 1);
            let lines: Vec<&str> = page.lines().collect();
            assert!(
                lines[0].starts_with(&format!("{a}.toml and {b}.toml differ: ")),
                "{page}"
            );
            assert!(lines.len() <= 24, "{page}");
            assert!(
                lines
                    .last()
                    .unwrap()
                    .starts_with(&format!("next: cudarun --machine {a}.toml ")),
                "{page}"
            );
        }
    }
}

#[test]
fn a_program_that_one_machine_lacks_is_named() {
    let page = page("h200-container", "debian", &[], 1);
    assert!(
        page.contains("\npython3 -c 'import torch'\n  h200-container.toml  driver 580.159.04, "),
        "{page}"
    );
    assert!(
        page.contains("\n  debian.toml          does not hold this program\n"),
        "{page}"
    );
    // A command and a script that no side has: nothing else differs, so the answer is not known.
    let (a, b) = (machine("python"), machine("python"));
    for words in [&["/no/such"][..], &["python3", "missing.py"]] {
        let facts = facts(&a, &b, words, 2);
        assert_eq!(facts[words.join(" ")], json!([null, null]));
    }
    // The control: both have it.
    let facts = facts(&a, &b, &["python3", "-c", "pass"], 0);
    assert_eq!(
        facts["python3 -c pass"],
        json!(["nothing to pick", "nothing to pick"])
    );
}

#[test]
fn a_refusal_on_one_machine_is_a_difference() {
    let old = fs::read_to_string(machine("old-driver")).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("new-driver.toml");
    let new = old.replace("535.261.03", "580.65.06");
    assert_ne!(old, new);
    fs::write(&file, new).unwrap();
    let facts = facts(
        &machine("old-driver"),
        file.to_str().unwrap(),
        &["for-13"],
        1,
    );
    assert_eq!(facts["driver"], json!(["535.261.03", "580.65.06"]));
    let program = &facts["for-13"];
    assert_eq!(
        program[0],
        "would not be started: no CUDA runtime here fits `for-13`"
    );
    assert!(
        program[1].as_str().unwrap().contains("; mode "),
        "{program}"
    );
}

#[test]
fn the_libraries_that_decide_most_are_told_first() {
    let compared = compare(&machine("nothing"), &machine("torch"), &["--json"])
        .status(1)
        .json();
    let facts = compared["facts"].as_array().unwrap().iter();
    let libraries: Vec<&str> = facts
        .filter(|fact| fact["kind"] == "library")
        .map(|fact| fact["name"].as_str().unwrap())
        .collect();
    let place = |name: &str| libraries.iter().position(|one| *one == name).unwrap();
    assert!(place("cuDNN") < place("NVTX"), "{libraries:?}");
    assert_eq!(place("CUDA runtime"), 0, "{libraries:?}");
}

#[test]
fn two_environments_give_a_program_different_libraries() {
    let Some(e) = &*ENVIRONMENTS else {
        return skipped("there is no Python here");
    };
    let prefix = |python: &Path| {
        python
            .ancestors()
            .nth(2)
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned()
    };
    let (a, b) = (prefix(&e.a), prefix(&e.b));
    let words = ["python", SHOW[0], SHOW[1]];
    let command = format!("python -c '{}'", SHOW[1]);
    let differing = facts(&a, &b, &words, 1);
    assert_eq!(
        differing["cuDNN"],
        json!(["9.1.0.7 (wheel)", "9.10.2.7 (wheel)"])
    );
    assert_eq!(
        differing[&command],
        json!(["cuDNN 9.1.0.7; mode none", "cuDNN 9.10.2.7; mode none"])
    );
    // The control: one environment twice.
    let same = facts(&a, &a, &words, 0);
    assert_eq!(
        same,
        json!({ &command: ["cuDNN 9.1.0.7; mode none", "cuDNN 9.1.0.7; mode none"] })
    );
}

#[test]
fn a_saved_description_of_this_machine_does_not_differ_from_it() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("saved.toml");
    let file = file.to_str().unwrap();
    let (_, saved) = Run::new(["doctor", "--save", file])
        .any_stderr()
        .any_stdout()
        .output();
    assert!(saved <= 1);
    let against_here = Run::new(["doctor", "--compare", file])
        .any_stdout()
        .any_stderr()
        .output();
    assert_eq!(against_here.1, 0, "{}", against_here.0);
    // The control: a variable.
    let changed = Run::new(["doctor", "--compare", file])
        .env("CUDA_VISIBLE_DEVICES", "7")
        .status(1);
    changed
        .any_stderr()
        .stdout_contains(&["CUDA_VISIBLE_DEVICES", "none"])
        .check();
}

#[test]
fn sides_that_cannot_be_compared_are_errors() {
    for (sides, why) in [
        (
            "/no/such.toml",
            "--compare `/no/such.toml` cannot be used: no such file or directory",
        ),
        (
            "/tmp",
            "--compare `/tmp` cannot be used: it is not an environment: bin/python3 is missing",
        ),
        (
            "here,here,here",
            "--compare `here` cannot be used: two sides are compared, and this is the third",
        ),
        (
            "/etc/passwd",
            "--compare `/etc/passwd` cannot be used: line 1: ",
        ),
    ] {
        Run::new(["doctor", "--compare", sides])
            .status(2)
            .stderr_contains(&[why, "\nhint: "])
            .check();
    }
    let with_root = ["--root", "/", "doctor", "--compare", "here"];
    Run::new(with_root)
        .status(2)
        .stderr_contains(&["remove --root"])
        .check();
    for other in [&["--save", "x"][..], &["--html", "x"], &["--markdown"]] {
        let both = [&["doctor"], other, &["--compare", "here"]].concat();
        Run::new(both)
            .status(2)
            .stderr_contains(&["cannot be used with"])
            .check();
    }
}
