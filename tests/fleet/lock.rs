//! `cudarun fleet --lock`: one lock that holds on every node.

use std::fs;

use super::{APP, Nodes, node, with_cudnn};
use crate::support::parts::{compat, cudnn, library, text};

const SYSTEM: &str = super::SYSTEM;

/// A node with these versions of cuDNN, the first of which the loader gives.
fn with(versions: &[&str]) -> String {
    built(
        &versions
            .iter()
            .map(|version| (*version, ""))
            .collect::<Vec<_>>(),
    )
}

/// Like `with`, each version with a field of its file.
fn built(versions: &[(&str, &str)]) -> String {
    let mut files: Vec<String> = ["libcublas", "libcublasLt"]
        .map(|stem| library(SYSTEM, stem, "12", "12.4.5", ""))
        .to_vec();
    let directories = [SYSTEM, "/usr/local/cuda/lib64", "/opt/cuda/lib64"];
    files.extend(
        versions
            .iter()
            .zip(directories)
            .map(|((version, field), directory)| cudnn(directory, version, field)),
    );
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
    nodes
        .fleet(&[])
        .stdout_contains(&["cuDNN 9.19.0", "cuDNN 9.10.2"])
        .check();
    let file = nodes.path("serve.lock");
    let text = file.to_str().unwrap();
    nodes
        .fleet(&["--lock", text])
        .stdout("")
        .stderr_contains(&[
            "serve.lock",
            "verify it on a node with `ssh gpu01 cudarun explain --locked app --serve`",
        ])
        .check();
    let lock = fs::read_to_string(&file).unwrap();
    assert!(
        lock.contains("name = \"cudnn\"\nversion = \"9.10.2\"") && !lock.contains("9.19"),
        "{lock}"
    );
    assert!(
        !lock.contains("/usr/lib") && !lock.contains("name = \"driver\""),
        "{lock}"
    );
    // Equal nodes keep their best one.
    let equal = Nodes::new(&[
        ("gpu01", with(&["9.19.0", "9.10.2"])),
        ("gpu02", with(&["9.19.0"])),
    ]);
    equal.fleet(&["--lock", text, "-q"]).check();
    let lock = fs::read_to_string(&file).unwrap();
    assert!(lock.contains("version = \"9.19.0\""));
    // Another file is not replaced.
    fs::write(&file, "[package]\n").unwrap();
    equal
        .fleet(&["--lock", text])
        .status(2)
        .stderr_contains(&["does not overwrite it"])
        .check();
    assert_eq!(fs::read_to_string(&file).unwrap(), "[package]\n");
}

#[test]
fn without_a_common_version_the_library_is_named_with_its_nodes() {
    let nodes = Nodes::new(&[("gpu01", with(&["9.19.0"])), ("gpu02", with(&["9.10.2"]))]);
    let file = nodes.path("serve.lock");
    let text = file.to_str().unwrap();
    let said = [
        "no version of cuDNN for `app --serve` is on all machines",
        "gpu01: 9.19.0",
        "gpu02: 9.10.2",
    ];
    nodes
        .fleet(&["--lock", text])
        .status(1)
        .stderr_contains(&said)
        .check();
    assert!(!file.exists());
    let two = [
        "--program",
        "app",
        "--program",
        "app --other",
        "--lock",
        text,
    ];
    nodes
        .fleet(&two)
        .status(2)
        .stderr_contains(&[
            "a lock is for one program; the descriptions name 2",
            "hint:",
        ])
        .check();
    nodes.write("gpu03.json", "no description");
    nodes
        .fleet(&["--lock", text])
        .status(2)
        .stderr_contains(&["gpu03.json"])
        .check();
    nodes
        .fleet(&["--lock", text, "--json"])
        .status(2)
        .any_stdout()
        .stderr_contains(&["--lock"])
        .check();
    assert!(!file.exists(), "no lock for some of the nodes");
}

#[test]
fn a_lock_has_the_build_that_every_node_has() {
    let nodes = Nodes::new(&[
        (
            "gpu01",
            built(&[("9.19.0", "build_id = 'aa'"), ("9.10.2", "build_id = 'cc'")]),
        ),
        (
            "gpu02",
            built(&[("9.19.0", "build_id = 'bb'"), ("9.10.2", "build_id = 'cc'")]),
        ),
    ]);
    let file = nodes.path("x.lock");
    let lock = || nodes.fleet(&["--lock", file.to_str().unwrap(), "-q"]);
    lock().check();
    let text = fs::read_to_string(&file).unwrap();
    assert!(
        text.contains("version = \"9.10.2\"") && text.contains("\"cc\""),
        "{text}"
    );
    // The control: no build is on both.
    nodes.put(
        "gpu02",
        &built(&[("9.19.0", "build_id = 'bb'"), ("9.10.2", "build_id = 'dd'")]),
    );
    let said = [
        "no build of cuDNN for `app --serve` is on all machines",
        "gpu02: 9.10.2, 9.19.0",
    ];
    lock().status(1).stderr_contains(&said).check();
}

#[test]
fn no_lock_is_written_that_a_node_would_not_obey() {
    let good = || with(&["9.19.0"]);
    let nodes = Nodes::new(&[("gpu01", good())]);
    let file = nodes.path("x.lock");
    let refused = |other: String, said: &[&str]| {
        nodes.put("gpu02", &other);
        let run = nodes.fleet(&["--lock", file.to_str().unwrap()]).status(1);
        run.stderr_contains(
            &[&["no set for `app --serve` works on all machines\n"], said].concat(),
        )
        .check();
        assert!(!file.exists(), "{said:?}");
    };
    // Its driver is older than the lock needs, although a compatibility library makes up for that.
    let old = node(
        "470.82.01",
        "LD_LIBRARY_PATH = '/usr/local/cuda/compat'",
        &[
            &with_cudnn("9.19.0")[..],
            &[compat("/usr/local/cuda/compat", "550.54.15", "470")],
        ]
        .concat(),
    );
    nodes.put("gpu02", &old);
    nodes
        .fleet(&[])
        .stdout_contains(&["works on all of 2 machines"])
        .check();
    refused(old, &["gpu02: its driver 470.82.01 is older than "]);
    refused(
        good().replace("/usr/bin/app", "/usr/bin/other"),
        &["gpu02: the program is not there"],
    );
    refused(good().replace("/dev/nvidia0", "/dev/x"), &["gpu02: "]);
    // The control.
    nodes.put("gpu02", &good());
    nodes
        .fleet(&["--lock", file.to_str().unwrap(), "-q"])
        .check();
}

#[test]
fn a_program_without_libraries_has_no_lock() {
    let nodes = Nodes::new(&[(
        "gpu01",
        with(&["9.19.0"]).replace("\"libcudnn.so.9\", ", ""),
    )]);
    let file = nodes.path("x.lock");
    let run = nodes.fleet(&["--lock", file.to_str().unwrap()]).status(1);
    run.stderr_contains(&[&format!(
        "`{APP}` needs no NVIDIA library: no lock is written"
    )])
    .check();
    assert!(!file.exists());
}

/// The settings of a machine keep its programs from some of its libraries.
#[test]
fn a_lock_has_only_what_the_settings_of_every_node_allow() {
    let versions = ["9.19.0", "9.10.2"];
    let limit = text(
        "/home/user/.config/cudarun/config.toml",
        "[requires]\ncudnn = '<9.15'\n",
    );
    let nodes = Nodes::new(&[
        ("gpu01", with(&versions) + &limit),
        ("gpu02", with(&versions[..1])),
    ]);
    let file = nodes.path("x.lock");
    let lock = || nodes.fleet(&["--lock", file.to_str().unwrap(), "-q"]);
    let said = ["no version of cuDNN", "gpu01: 9.10.2", "gpu02: 9.19.0"];
    lock().status(1).stderr_contains(&said).check();
    // The control: without the limit.
    nodes.put("gpu01", &with(&versions));
    lock().check();
    assert!(fs::read_to_string(&file).unwrap().contains("9.19.0"));
}

#[test]
fn a_library_that_only_one_node_needs_is_no_lock_without_libraries() {
    let without = || with(&["9.19.0"]).replace("\"libcudnn.so.9\", ", "");
    let nodes = Nodes::new(&[("gpu01", without()), ("gpu02", with(&["9.19.0"]))]);
    let file = nodes.path("x.lock");
    let lock = || nodes.fleet(&["--lock", file.to_str().unwrap()]).status(1);
    let said = ["no version of cuDNN", "gpu01: none", "gpu02: 9.19.0"];
    lock().stderr_contains(&said).check();
    // The control: no node needs one.
    nodes.put("gpu02", &without());
    lock().stderr_contains(&["needs no NVIDIA library"]).check();
}

#[test]
fn a_place_that_no_library_has_is_a_fault_of_the_description() {
    let nodes = Nodes::new(&[("gpu01", with(&["9.19.0"]))]);
    let text = nodes.read("gpu01.json");
    for (own, other) in [
        ("\"picks\":[0", "\"picks\":[77"),
        ("\"candidates\":[[0", "\"candidates\":[[77"),
    ] {
        assert!(text.contains(own), "{text}");
        nodes.write("gpu01.json", &text.replace(own, other));
        let run = nodes.fleet(&[]).status(2);
        run.stdout_contains(&["gpu01.json: a program has library 77, and there are "])
            .check();
    }
}

#[test]
fn a_lock_names_no_gpu_that_the_node_hides() {
    let gpu = |bus: &str, minor: u8, device: &str| {
        let lines = format!("Model: X\nBus Location: 0000:{bus}:00.0\nDevice Minor: {minor}\n");
        text(
            &format!("/proc/driver/nvidia/gpus/0000:{bus}:00.0/information"),
            &lines,
        ) + &text(
            &format!("/sys/bus/pci/devices/0000:{bus}:00.0/device"),
            device,
        ) + &text(&format!("/dev/nvidia{minor}"), "")
    };
    let files = [
        &with_cudnn("9.19.0")[..],
        &[gpu("0a", 0, "0x2335\n"), gpu("0b", 1, "0x20b2\n")],
    ];
    let capabilities = |env: &str| {
        let order = format!("CUDA_DEVICE_ORDER = 'PCI_BUS_ID'\n{env}");
        let text = node("580.95.05", &order, &files.concat());
        let text = text.replacen(&crate::support::parts::text("/dev/nvidia0", ""), "", 1);
        let saved = Nodes::new(&[("n", text)]).read("n.json");
        let value: serde_json::Value = serde_json::from_str(&saved).unwrap();
        value["answers"]["capabilities"].to_string()
    };
    assert_eq!(capabilities(""), r#"["8.0","9.0"]"#);
    assert_eq!(capabilities("CUDA_VISIBLE_DEVICES = '0'"), r#"["9.0"]"#);
}
