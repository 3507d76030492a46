//! `fleet` on pairs of machines and environments. Each difference has its control: a side and itself.

use std::fs;

use serde_json::{Value, json};

use super::{APP, Nodes, node, with_cudnn};
use crate::pin::children::{ENVIRONMENTS, SHOW};
use crate::support::machine::Machine;
use crate::support::parts::program;
use crate::support::{Run, skipped};

/// The descriptions of `tests/machines`, by their names.
fn described(names: &[&str]) -> Nodes {
    let nodes = Nodes::new(&[]);
    for name in names {
        nodes.save(&Machine::load(name), name, &[]);
    }
    nodes
}

/// The page of two machines, in their directory.
fn page(nodes: &Nodes, a: &str, b: &str) -> String {
    let (page, status) = Run::new(["fleet", &format!("{a}.json"), &format!("{b}.json")])
        .env("COLUMNS", "200")
        .in_directory(nodes.path(""))
        .any_stdout()
        .output();
    assert!(status <= 1, "{page}");
    page
}

fn file(nodes: &Nodes, name: &str) -> String {
    nodes.path(&format!("{name}.json")).display().to_string()
}

fn json_of(sides: [&str; 2], words: &[&str]) -> Value {
    let run = Run::new([&["fleet", "--json"], words, &sides].concat());
    let (json, status) = run.any_stdout().any_stderr().output();
    assert!(status <= 1, "{json}");
    serde_json::from_str(&json).unwrap()
}

/// The values of each fact in which the second side differs from the first, by its name.
fn differences(fleet: &Value) -> Value {
    let second = fleet["groups"][1]["differences"].as_array();
    let each = second.into_iter().flatten().map(|fact| {
        (
            fact["name"].as_str().unwrap().to_owned(),
            fact["values"].clone(),
        )
    });
    each.collect()
}

#[test]
fn two_machines_differ_in_driver_and_libraries() {
    let nodes = described(&["old-driver", "ubuntu-apt"]);
    let page = page(&nodes, "old-driver", "ubuntu-apt");
    let wanted = "
differences
  ubuntu-apt  driver 550.54.15, where old-driver has 535.261.03
  ubuntu-apt  CUDA runtime 12.4.127 (toolkit), where old-driver has ? (toolkit)
  ubuntu-apt  cuBLAS 12.4.5.8 (toolkit), where old-driver has none
  ubuntu-apt  cuDNN 9.1.0.70 (debian), where old-driver has none
";
    assert!(page.contains(wanted), "{page}");
}

#[test]
fn a_machine_does_not_differ_from_itself() {
    let path = format!(
        "{}/tests/machines/ubuntu-apt.toml",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = fs::read_to_string(path).unwrap();
    let nodes = Nodes::new(&[("one", text.clone()), ("same", text.clone())]);
    let fleet = json_of([&file(&nodes, "one"), &file(&nodes, "same")], &[]);
    assert_eq!(differences(&fleet), json!({}));
    assert_eq!(fleet["groups"][0]["hosts"], "one,same");
    // The control: another driver.
    nodes.put("other", &text.replace("550.54.15", "550.90.07"));
    let fleet = json_of([&file(&nodes, "same"), &file(&nodes, "other")], &[]);
    assert_eq!(
        differences(&fleet),
        json!({ "driver": ["550.54.15", "550.90.07"] })
    );
}

#[test]
fn every_pair_has_a_page_of_at_most_24_lines() {
    let names = [
        "nothing",
        "debian",
        "h200-container",
        "rhel",
        "wsl",
        "hostile",
        "toolkits",
    ];
    let nodes = described(&names);
    for a in names {
        for b in names.into_iter().filter(|b| *b != a) {
            let page = page(&nodes, a, b);
            assert!(page.contains("\ndifferences\n"), "{page}");
            assert!(page.lines().count() <= 24, "{page}");
        }
    }
}

#[test]
fn a_program_that_one_machine_lacks_is_named() {
    let text = node("580.95.05", "", &with_cudnn("9.19.0")).replace(APP, "other");
    let other = program("other", &["libcudnn.so.9", "libc.so.6"], "");
    let nodes = Nodes::new(&[("a", text.clone()), ("b", text + &other)]);
    let [a, b] = ["a", "b"].map(|name| file(&nodes, name));
    let fleet = json_of([&a, &b], &[]);
    let group = |at: usize| &fleet["groups"][at]["programs"][0];
    assert_eq!(group(0)["why_not"], "the program is not there");
    assert_eq!(group(1)["works"], true);
    // Descriptions that were written for another program.
    let fleet = json_of([&a, &b], &["--program", "/no/such"]);
    let why = &fleet["groups"][0]["programs"][0]["why_not"];
    assert_eq!(why, "its description was not written for this program");
}

#[test]
fn a_refusal_on_one_machine_is_a_difference() {
    let nodes = ["470.57.02", "580.95.05"].map(|driver| node(driver, "", &with_cudnn("9.19.0")));
    let [old, new] = nodes;
    let nodes = Nodes::new(&[("new", new), ("old", old)]);
    let [old, new] = ["old", "new"].map(|name| file(&nodes, name));
    let fleet = json_of([&old, &new], &[]);
    assert_eq!(
        differences(&fleet)["driver"],
        json!(["470.57.02", "580.95.05"])
    );
    assert_eq!(
        (&fleet["good"], &fleet["bad"]),
        (&json!("new"), &json!("old"))
    );
    let why = &fleet["groups"][1]["programs"][0]["why_not"];
    assert!(why.as_str().unwrap().contains("fits `app`"), "{why}");
}

#[test]
fn the_libraries_that_decide_most_are_told_first() {
    let nodes = described(&["nothing", "torch"]);
    let fleet = json_of([&file(&nodes, "nothing"), &file(&nodes, "torch")], &[]);
    let facts = fleet["groups"][1]["differences"].as_array().unwrap();
    let place = |name: &str| facts.iter().position(|fact| fact["name"] == name).unwrap();
    assert!(place("CUDA runtime") < place("cuDNN"), "{facts:?}");
    assert!(place("cuDNN") < place("NVTX"), "{facts:?}");
}

#[test]
fn two_environments_give_a_program_different_libraries() {
    let Some(e) = &*ENVIRONMENTS else {
        return skipped("there is no Python here");
    };
    let [a, b] = [&e.a, &e.b].map(|python| {
        let prefix = python.ancestors().nth(2).unwrap();
        prefix.to_str().unwrap().to_owned()
    });
    let command = format!("python -c '{}'", SHOW[1]);
    let words = ["--program", &command];
    let fleet = json_of([&a, &b], &words);
    assert_eq!(
        differences(&fleet)["cuDNN"],
        json!(["9.10.2.7 (wheel)", "9.1.0.7 (wheel)"])
    );
    let uses = |group: usize| fleet["groups"][group]["programs"][0]["uses"].clone();
    assert_eq!(uses(0), json!(["cuDNN 9.1.0.7"]));
    assert_eq!(uses(1), json!(["cuDNN 9.10.2.7"]));
}

#[test]
fn a_saved_description_of_this_machine_does_not_differ_from_it() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("saved.json");
    let file = file.to_str().unwrap();
    let (_, saved) = Run::new(["doctor", "--save", file])
        .any_stderr()
        .any_stdout()
        .output();
    assert!(saved <= 1);
    let against_here = |hidden: &[&str]| {
        let run = Run::new(["fleet", "--json", file, "here"]);
        let run = hidden
            .iter()
            .fold(run, |run, gpus| run.env("CUDA_VISIBLE_DEVICES", *gpus));
        let (json, status) = run.any_stdout().any_stderr().output();
        assert!(status <= 1, "{json}");
        differences(&serde_json::from_str(&json).unwrap())
    };
    assert_eq!(against_here(&[]), json!({}));
    // The control: a variable.
    let changed = against_here(&["7"]);
    assert_eq!(changed["CUDA_VISIBLE_DEVICES"], json!(["7", null]));
}

#[test]
fn sides_that_cannot_be_compared_are_named() {
    for (side, why) in [
        ("/no/such.json", "no such file or directory"),
        ("/etc/passwd", "expected value at line 1"),
    ] {
        Run::new(["fleet", side, "here"])
            .status(2)
            .any_stderr()
            .stdout_contains(&["not read", side, why])
            .check();
    }
    // A directory that is no environment has descriptions, and this one has none.
    let empty = tempfile::tempdir().unwrap();
    Run::new(["fleet", empty.path().to_str().unwrap()])
        .status(2)
        .stdout_contains(&["no description of a machine was read"])
        .check();
    Run::new(["doctor", "--compare", "here"])
        .status(2)
        .stderr_contains(&["unexpected argument '--compare'"])
        .check();
}

#[test]
fn values_differ_behind_what_a_page_shows() {
    let with = |last: &str| {
        let path = format!("LD_LIBRARY_PATH = '/opt/{}/{last}'", "x".repeat(100));
        node("580.95.05", &path, &with_cudnn("9.19.0"))
    };
    let nodes = Nodes::new(&[("a", with("one")), ("b", with("two")), ("c", with("one"))]);
    let json = nodes.fleet(&["--json"]).json();
    let groups = json["groups"].as_array().unwrap();
    let hosts: Vec<_> = groups.iter().map(|group| &group["hosts"]).collect();
    assert_eq!(hosts, ["a,c", "b"]);
    let whole = differences(&json)["LD_LIBRARY_PATH"].to_string();
    assert!(whole.contains("/two") && whole.contains("/one"), "{whole}");
    let page = nodes.fleet(&[]).any_stdout().check();
    assert!(page.contains("x…, where 2 of 3 have"), "{page}");
}

/// Two findings of one code are two facts.
#[test]
fn findings_of_one_code_are_compared_as_a_set() {
    let with = |env: &str| node("580.95.05", env, &with_cudnn("9.19.0"));
    let path = "CUDA_PATH = '/no/path'\n";
    let both = format!("CUDA_HOME = '/no/home'\n{path}");
    let nodes = Nodes::new(&[("a", with(&both)), ("b", with(path)), ("c", with(path))]);
    let json = nodes.fleet(&["--json"]).json();
    let values = &differences(&json)["toolkit-variable"];
    let own = values[0].as_str().unwrap();
    assert!(
        own.contains("CUDA_HOME") && !own.contains("CUDA_PATH"),
        "{values}"
    );
    assert_eq!(values[1], Value::Null);
}

#[test]
fn a_next_step_has_no_home_of_another_name() {
    let text = node("580.95.05", "HOME = '/home/alice'", &[]);
    let refused = "/home/alice/bin/app --config /home/alice/x";
    let text = text
        .replace(&format!("'{APP}'"), &format!("'{refused}'"))
        .replace("/usr/bin/app'", "/home/alice/bin/app'");
    let nodes = Nodes::new(&[("n1", text)]);
    let page = nodes.fleet(&[]).status(1).any_stdout().check();
    let next = "next: ssh n1 cudarun explain ~/bin/app --config ~/x\n";
    assert!(page.ends_with(next), "{page}");
    let other = nodes.fleet(&["--program", "/home/user/other x"]).status(1);
    let page = other.any_stdout().check();
    let next = r#"--for ''"$HOME"'/other x', on n1"#;
    assert!(page.contains(next), "{page}");
}
