//! `cudarun fleet --lock`: one lock that holds on every node.

use std::fs;

use super::{Nodes, node};
use crate::support::parts::{cudnn, library};

const SYSTEM: &str = super::SYSTEM;

/// A node with these versions of cuDNN, the first of which the loader gives.
fn with(versions: &[&str]) -> String {
    let mut files: Vec<String> =
        ["libcublas", "libcublasLt"].map(|stem| library(SYSTEM, stem, "12", "12.4.5", "")).to_vec();
    let directories = [SYSTEM, "/usr/local/cuda/lib64", "/opt/cuda/lib64"];
    files.extend(versions.iter().zip(directories).map(|(version, directory)| cudnn(directory, version, "")));
    node("580.95.05", "", &files)
}

#[test]
fn a_lock_has_the_version_that_every_node_has() {
    let nodes = Nodes::new(&[
        ("gpu01", with(&["9.19.0", "9.10.2"])),
        ("gpu02", with(&["9.19.0", "9.10.2"])),
        ("gpu03", with(&["9.10.2"])),
    ]);
    // The control: the first two get another one by themselves.
    nodes.fleet(&[]).stdout_contains(&["cuDNN 9.19.0", "cuDNN 9.10.2"]).check();
    let file = nodes.path("serve.lock");
    let text = file.to_str().unwrap();
    nodes.fleet(&["--lock", text]).stdout("").stderr_contains(&["serve.lock"]).check();
    let lock = fs::read_to_string(&file).unwrap();
    assert!(lock.contains("name = \"cudnn\"\nversion = \"9.10.2\"") && !lock.contains("9.19"), "{lock}");
    assert!(!lock.contains("/usr/lib") && !lock.contains("name = \"driver\""), "{lock}");
    // Equal nodes keep their best one.
    let equal = Nodes::new(&[("gpu01", with(&["9.19.0", "9.10.2"])), ("gpu02", with(&["9.19.0"]))]);
    equal.fleet(&["--lock", text, "-q"]).check();
    let lock = fs::read_to_string(&file).unwrap();
    assert!(lock.contains("version = \"9.19.0\""));
    // Another file is not replaced.
    fs::write(&file, "[package]\n").unwrap();
    equal.fleet(&["--lock", text]).status(2).stderr_contains(&["does not overwrite it"]).check();
    assert_eq!(fs::read_to_string(&file).unwrap(), "[package]\n");
}

#[test]
fn without_a_common_version_the_library_is_named_with_its_nodes() {
    let nodes = Nodes::new(&[("gpu01", with(&["9.19.0"])), ("gpu02", with(&["9.10.2"]))]);
    let file = nodes.path("serve.lock");
    let text = file.to_str().unwrap();
    let said = ["no version of cuDNN for `app --serve` is on all machines", "gpu01: 9.19.0", "gpu02: 9.10.2"];
    nodes.fleet(&["--lock", text]).status(1).stderr_contains(&said).check();
    assert!(!file.exists());
    let two = ["--program", "app", "--program", "app --other", "--lock", text];
    nodes
        .fleet(&two)
        .status(2)
        .stderr_contains(&["a lock is of one program, and these are 2", "hint:"])
        .check();
    nodes.put("gpu03.toml", "no description");
    nodes.fleet(&["--lock", text]).status(2).stderr_contains(&["gpu03.toml"]).check();
    nodes.fleet(&["--lock", text, "--json"]).status(2).any_stdout().stderr_contains(&["--lock"]).check();
    assert!(!file.exists(), "no lock for some of the nodes");
}
